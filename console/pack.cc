#include "console/pack.h"

#include <algorithm>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/options.h"
#include "console/paths.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/replay/restoring.h"
#include "core/trace/contents.h"
#include "core/trace/letting_go.h"
#include "core/trace/pack.h"

namespace friday {
namespace {

using nlohmann::json;

struct PackArguments {
  std::string recording;
  std::vector<std::string> let_go;
  PackOptions pack;
  bool check = false, lean = false, unconfined = false, as_json = false;
};

constexpr size_t kShown = 8;  // names to print of each kind; --json prints all

// -- Adding debug information.

const char* state_text(PackedFile::State state) {
  switch (state) {
    case PackedFile::State::complete: return "complete";
    case PackedFile::State::added: return "added";
    case PackedFile::State::present: return "present";
    case PackedFile::State::missing: return "missing";
    case PackedFile::State::nameless: return "no build id";
  }
  return "?";
}

void print_packed(const std::vector<PackedFile>& files) {
  size_t missing = 0;
  for (const PackedFile& file : files) {
    std::string more;
    if (file.state == PackedFile::State::added) more = fmt::format(" from {}, {}", file.source, size_text(file.bytes));
    if (file.state == PackedFile::State::present) more = fmt::format(" since earlier, {}", size_text(file.bytes));
    if (file.state == PackedFile::State::complete) more = " (it holds its debug information itself)";
    if (file.state == PackedFile::State::missing) more = fmt::format(" (build-id {})", file.build_id);
    missing += file.state == PackedFile::State::missing || file.state == PackedFile::State::nameless;
    say("{:<12} {}{}\n", state_text(file.state), file.path, more);
  }
  if (missing)
    say("{} of {} files stay without debug information: functions by name only, no lines and variables. Install their "
        "-dbgsym packages, or name "
        "directories with --symbols\n",
        missing, files.size());
}

int run_symbols(const Recording& recording, const PackArguments& options) {
  auto files = pack_symbols(recording, options.pack);
  if (!files) return complain("pack", files.error());
  if (!options.as_json) return print_packed(*files), 0;
  json list = json::array();
  for (const PackedFile& file : *files)
    list.push_back({{"path", file.path},
                    {"build_id", file.build_id},
                    {"state", state_text(file.state)},
                    {"source", file.source},
                    {"bytes", file.bytes}});
  say_json({{"path", recording.path()}, {"files", list}});
  return 0;
}

// -- Reporting the contents.

json contents_json(const Recording& recording, const Contents& contents) {
  json out = {{"path", recording.path()},
              {"bytes", contents.total_bytes},
              {"readable_by_others", contents.readable_by_others},
              {"symbol_bytes", contents.symbol_bytes},
              {"other_files", contents.others},
              {"nodes", json::array()},
              {"copies", json::array()}};
  for (const NodeContents& node : contents.nodes) {
    json entry = {{"id", node.id.value},
                  {"name", node.name},
                  {"host", node.host},
                  {"program", node.program},
                  {"argv", node.argv},
                  {"cwd", node.cwd},
                  {"environment", node.environment},
                  {"memory_bytes", node.memory_bytes},
                  {"file_bytes", node.file_bytes},
                  {"peer_bytes", node.peer_bytes},
                  {"device_bytes", node.device_bytes},
                  {"other_bytes", node.other_bytes},
                  {"sent_bytes", node.sent_bytes},
                  {"left_out", node.left_out},
                  {"paths", node.paths}};
    if (!node.problem.empty()) entry["problem"] = node.problem;
    out["nodes"].push_back(entry);
  }
  for (const CopyContents& copy : contents.copies)
    out["copies"].push_back({{"path", copy.path}, {"bytes", copy.bytes}, {"code", copy.is_code}});
  return out;
}

// Formats amounts as "a (3 KiB), b (2 KiB) and 4 more", largest first.
std::string largest(const std::map<std::string, uint64_t>& amounts) {
  std::vector<std::pair<uint64_t, std::string>> order;
  for (const auto& [name, bytes] : amounts) order.emplace_back(bytes, name);
  std::ranges::sort(order, std::greater<>());
  std::string list;
  for (size_t n = 0; n < std::min(order.size(), kShown); ++n)
    list += fmt::format("{}{} ({})", n ? ", " : "", order[n].second, size_text(order[n].first));
  if (order.size() > kShown) list += fmt::format(" and {} more", order.size() - kShown);
  return list;
}

std::string first_of(const std::vector<std::string>& names) {
  std::string list;
  for (size_t n = 0; n < std::min(names.size(), kShown); ++n) list += (n ? ", " : "") + names[n];
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  return list;
}

uint64_t sum(const std::map<std::string, uint64_t>& amounts) {
  uint64_t total = 0;
  for (const auto& [name, bytes] : amounts) total += bytes;
  return total;
}

void print_node(const NodeContents& node) {
  std::string command;
  for (const std::string& word : node.argv) command += " " + word;
  say("\nnode {} {}{}\n", node.id, node.name, node.host.empty() ? "" : " on host " + node.host);
  if (!node.problem.empty()) say("  NOT READ TO ITS END, so there may be more: {}\n", node.problem);
  if (!command.empty()) say("  command line    {}{}\n", command.substr(1), node.cwd.empty() ? "" : ", in " + node.cwd);
  if (!node.environment.empty())
    say("  environment     {} variables with their values: {}\n", node.environment.size(), first_of(node.environment));
  say("  memory          {} as the program began; all it held later is computed again by a replay\n",
      size_text(node.memory_bytes));
  if (!node.file_bytes.empty())
    say("  read from files {}: {}\n", size_text(sum(node.file_bytes)), largest(node.file_bytes));
  if (!node.peer_bytes.empty())
    say("  received        {}: {}\n", size_text(sum(node.peer_bytes)), largest(node.peer_bytes));
  if (node.left_out)
    say("  left out        {} of what was received; not stored, but a replay makes it again\n",
        size_text(node.left_out));
  if (node.device_bytes) say("  typed or read   {} from terminals and devices\n", size_text(node.device_bytes));
  say("  other results   {} of system calls: names of files, addresses, times, random numbers\n",
      size_text(node.other_bytes));
  if (node.sent_bytes)
    say("  sent, written   {}; not stored, but a replay computes it again\n", size_text(node.sent_bytes));
  if (!node.paths.empty()) say("  paths named     {}: {}\n", node.paths.size(), first_of(node.paths));
}

// All names that suggest a secret.
std::vector<std::string> suspects(const Contents& contents) {
  std::vector<std::string> list;
  for (const NodeContents& node : contents.nodes) {
    for (const std::string& name : node.environment)
      if (sounds_secret(name))
        list.push_back(fmt::format("node {} ({}): environment variable {}", node.id, node.name, name));
    for (const std::string& word : node.argv)
      if (sounds_secret(word))
        list.push_back(
            fmt::format("node {} ({}): the command line has an argument like a secret's", node.id, node.name));
    for (const auto& [path, bytes] : node.file_bytes)
      if (sounds_secret(path))
        list.push_back(fmt::format("node {} ({}): {} of {}", node.id, node.name, size_text(bytes), path));
  }
  for (const CopyContents& copy : contents.copies)
    if (sounds_secret(copy.path)) list.push_back(fmt::format("a copy of {}", copy.path));
  return list;
}

void print_contents(const Recording& recording, const Contents& contents) {
  say("{}: {}. Whoever has it can read what follows, and by replaying it everything the programs ever held in memory:\n"
      "keys and passwords they used, data of their users, also where it travelled encrypted.\n",
      recording.path(), size_text(contents.total_bytes));
  for (const NodeContents& node : contents.nodes) print_node(node);
  std::map<std::string, uint64_t> code, data;
  for (const CopyContents& copy : contents.copies) (copy.is_code ? code : data)[copy.path] += copy.bytes;
  say("\nwhole copies of {} programs and libraries, {}: {}\n", code.size(), size_text(sum(code)), largest(code));
  if (!data.empty())
    say("whole copies of {} other mapped files, {}: {}\n", data.size(), size_text(sum(data)), largest(data));
  if (contents.symbol_bytes)
    say("debug information, {}: names, types and source paths of the programs\n", size_text(contents.symbol_bytes));
  if (!contents.others.empty()) say("further files, not needed for a replay: {}\n", largest(contents.others));
  const std::vector<std::string> found = suspects(contents);
  say("\n{}\n", found.empty() ? "No name here sounds like a secret's. That proves nothing: contents were not searched."
                              : "Look at these first; by their names they are secrets (contents were not searched):");
  for (const std::string& suspect : found) say("  {}\n", suspect);
  if (contents.readable_by_others)
    say("Others on this machine can read the recording: chmod -R go= {}\n", recording.path());
  say("Nothing can be taken out of a recording and leave it replayable but what nodes have received from each other, "
      "which a replay makes again (--lean). To hand on less, record test data, or fewer nodes.\n");
}

int run_check(const Recording& recording, const PackArguments& options) {
  const auto contents = survey(recording);
  if (!contents) return complain("pack", contents.error());
  if (options.as_json) say_json(contents_json(recording, *contents));
  else print_contents(recording, *contents);
  return 0;
}

// -- Leaving out payload.

int run_lean(const Recording& recording, const PackArguments& options) {
  auto report = leave_out_payload(recording, {library_directory(), options.unconfined, {}});
  if (!report) return complain("pack", report.error());
  if (options.as_json) {
    json nodes = json::array();
    for (const auto& node : report->nodes)
      nodes.push_back(
          {{"id", node.id.value}, {"before", node.before}, {"after", node.after}, {"left_out", node.left_out}});
    say_json({{"path", recording.path()}, {"nodes", nodes}});
    return 0;
  }
  for (const auto& node : report->nodes)
    say("node {} {}: {} of payload left out, its trace takes {} instead of {}\n", node.id,
        recording.find(node.id)->name, size_text(node.left_out), size_text(node.after), size_text(node.before));
  if (report->nodes.empty()) say("nothing was received that the recording holds twice, so all stays as it is\n");
  else say("A replay has made all of it again for a trial. Commands that need it will do the same.\n");
  return 0;
}

int run_let_go(const Recording& recording, const PackArguments& options) {
  auto done = let_payload_go(recording, options.let_go);
  if (!done) return complain("pack", done.error());
  if (options.as_json) {
    json nodes = json::array();
    for (const LetGo& node : *done)
      nodes.push_back(
          {{"id", node.node.value}, {"before", node.before}, {"after", node.after}, {"let_go", node.bytes}});
    say_json({{"path", recording.path()}, {"nodes", nodes}});
    return 0;
  }
  for (const LetGo& node : *done)
    say("node {} {}: {} of payload are gone, its trace takes {} instead of {}\n", node.node,
        recording.find(node.node)->name, size_text(node.bytes), size_text(node.after), size_text(node.before));
  if (done->empty()) say("no channel of this name has brought anything from programs that are not recorded\n");
  else say("What they may have been is inferred when a command needs it; what is inferred is marked as such.\n");
  return 0;
}

int run_pack(const PackArguments& options) {
  if (options.check + options.lean + !options.let_go.empty() + !options.pack.symbols.empty() > 1)
    return complain("pack", {ErrorCode::usage,
                             "--check only looks, --lean leaves out payload, --let-go removes payload, --symbols adds "
                             "debug information: one at a time; run friday pack again for the others"});
  auto recording = Recording::open(options.recording);
  if (!recording) return complain("pack", recording.error());
  if (options.lean) return run_lean(*recording, options);
  if (!options.let_go.empty()) return run_let_go(*recording, options);
  return options.check ? run_check(*recording, options) : run_symbols(*recording, options);
}

}  // namespace

void add_pack_command(CLI::App& app, int* status) {
  auto options = std::make_shared<PackArguments>();
  auto* command =
      app.add_subcommand("pack", "Add debug information to a recording, or say what it holds, before it is handed on");
  add_recording(*command, options->recording);
  command
      ->add_option(
          "--symbols", options->pack.symbols,
          "Directory with files of separate debug information, searched before /usr/lib/debug; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--check", options->check, "Change nothing; say what the recording holds and gives away");
  command->add_flag("--lean", options->lean,
                    "Leave out what nodes received from other nodes; replays of the senders make it again when a "
                    "command needs it (friday restore)");
  command
      ->add_option(
          "--let-go", options->let_go,
          "Remove for ever what came from programs that are not recorded, on channels of this kind or address, "
          "e.g. stream or '10.0.0.1:*'; but for the first 32 bytes of each receive. May be repeated")
      ->allow_extra_args(false);
  add_unconfined_flag(*command, options->unconfined);
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer(
      "Examples:\n  friday pack REC --symbols ~/build/symbols\n  friday pack --check REC\n  friday pack --lean REC");
  command->callback([options, status] { *status = run_pack(*options); });
}

}  // namespace friday
