#include "console/log.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "console/complain.h"
#include "console/follow.h"
#include "console/log_lines.h"
#include "console/options.h"
#include "core/base/counted.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

struct LogOptions {
  std::string recording, nodes, grep;
  double from = 0, to = std::numeric_limits<double>::infinity();
  bool as_json = false, follow = false;
};

// The position in the order of the first event at or after `seconds`.
uint64_t position_at(const Schedule& schedule, double seconds) {
  if (seconds <= 0) return 0;
  if (seconds > 9e9) return schedule.event_count();
  return schedule.position_at({schedule.origin() + static_cast<int64_t>(seconds * 1e9), 0, {}, 0});
}

int print_log(const LogOptions& options, const Recording& recording, const std::vector<NodeId>& wanted,
              const LineFilter& filter) {
  auto schedule = Schedule::load_or_compute(recording);
  if (!schedule) return complain("log", schedule.error());
  std::vector<NodeId> nodes;
  for (NodeId id : wanted)
    if (std::ranges::binary_search(schedule->nodes(), id)) nodes.push_back(id);
  auto log = OutputLog::open(recording, *schedule, nodes);
  if (!log) return complain("log", log.error());
  log->skip_to(position_at(*schedule, options.from));
  LinePrinter printer(recording, nodes, options.as_json);
  uint64_t missing = 0;
  for (;;) {
    auto next = log->next();
    if (!next) return complain("log", next.error());
    if (!*next) break;
    const auto& [node, line] = **next;
    const double seconds = schedule->seconds_of(node, {line.event});
    if (seconds > options.to) break;
    if (line.missing && line.text.empty()) missing++;
    if (filter.takes(line)) printer.print(node, seconds, line);
  }
  if (missing && !options.as_json)
    say(stderr,
        "friday log: the recording lacks the text of {}: they exceed --keep-output of `friday record`, or the bytes "
        "never were in the program (sendfile). The replay shows them: `goto output NODE /REGEX/`\n",
        counted(missing, "write"));
  return 0;
}

int run_log(const LogOptions& options) {
  auto recording = Recording::open(options.recording);
  if (!recording) return complain("log", recording.error());
  LineFilter filter;
  if (!options.grep.empty()) {
    auto pattern = Pattern::parse(options.grep);
    if (!pattern) return complain("log", pattern.error());
    filter.pattern = std::move(*pattern);
  }
  if (options.follow) return follow_log(std::move(*recording), options.nodes, filter, options.as_json);
  std::vector<NodeId> nodes;
  if (options.nodes.empty()) {
    for (const NodeInfo& node : recording->nodes()) nodes.push_back(node.id);
  } else {
    auto chosen = parse_node_list(*recording, options.nodes);
    if (!chosen) return complain("log", chosen.error());
    nodes = std::move(*chosen);
  }
  return print_log(options, *recording, nodes, filter);
}

}  // namespace

void add_log_command(CLI::App& app, int* status) {
  auto options = std::make_shared<LogOptions>();
  auto* command = app.add_subcommand(
      "log", "Print what the nodes wrote to their standard output and error, as one stream in the order of time");
  add_recording(*command, options->recording);
  command->add_option("--node", options->nodes, "Only these nodes: numbers, names, patterns, a list");
  command->add_option("--grep", options->grep, "Only lines in which this regular expression matches");
  auto* from =
      command->add_option("--from", options->from, "Only what was written at or after this logical time in seconds");
  auto* to = command->add_option("--to", options->to, "Only what was written up to this logical time in seconds");
  command->add_flag("-f,--follow", options->follow, "Go on while the recording is being made, until it ends or Ctrl-C")
      ->excludes(from)
      ->excludes(to);
  command->add_flag("--json", options->as_json, "Print a JSON object a line");
  command->footer(
      "Examples:\n  friday log REC\n  friday log --node 'n*,!n3' --grep 'became (leader|follower)' REC\n"
      "  friday log --follow REC");
  command->callback([options, status] { *status = run_log(*options); });
}

}  // namespace friday
