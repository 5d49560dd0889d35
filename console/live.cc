#include "console/live.h"

#include <sys/stat.h>

#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/options.h"
#include "console/saving.h"
#include "console/say.h"
#include "console/switching.h"
#include "core/base/counted.h"
#include "core/trace/packed.h"
#include "core/trace/recording.h"
#include "core/trace/trace_file.h"

namespace friday {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kSample{1};  // the period over which the current rate is measured
constexpr double kMega = 1e6;

enum class State { recording, schedule, standby, orphan, ended };

bool is_recorded(State state) { return state == State::recording || state == State::schedule; }

struct LiveNode {
  const NodeInfo* info;
  State state;
  format::FileHeader header;
  uint64_t disk = 0;          // in bytes
  double average = 0;         // MB per hour since the start
  std::optional<double> now;  // current rate in MB per hour, for a node that is being recorded
};

State state_of(const NodeInfo& node, const format::FileHeader& header) {
  if (header.ended || header.closed || node.end.how != NodeEnd::How::running || !program_lives(node))
    return State::ended;
  if (!recorder_lives(node)) return State::orphan;
  return node.on_standby ? State::standby : node.schedule ? State::schedule : State::recording;
}

double hours_of(const Recording& recording, const NodeInfo& node, State state) {
  using namespace std::chrono;
  int64_t end = duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
  struct stat status;
  if (state == State::ended && lstat(stored_path(recording.trace(node.id).path()).c_str(), &status) == 0)
    end = status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
  return static_cast<double>(end - node.started_ns) / 3.6e12;
}

LiveNode look_at(const Recording& recording, const NodeInfo& node) {
  LiveNode live{&node, State::ended, {}, disk_bytes(recording.trace(node.id)), 0, {}};
  auto header = read_header(recording.trace(node.id));
  if (!header) return live;
  live.header = *header;
  live.state = state_of(node, *header);
  if (const double hours = hours_of(recording, node, live.state); hours > 0)
    live.average = static_cast<double>(header->committed) / kMega / hours;
  return live;
}

std::vector<LiveNode> look(const Recording& recording) {
  std::vector<LiveNode> nodes;
  for (const auto& node : recording.nodes()) nodes.push_back(look_at(recording, node));
  bool any = false;
  for (const auto& node : nodes) any |= is_recorded(node.state);
  if (!any) return nodes;
  const auto start = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(kSample);
  for (auto& node : nodes) {
    auto header = read_header(recording.trace(node.info->id));
    if (!is_recorded(node.state) || !header) continue;
    const double hours = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 3600;
    node.now = static_cast<double>(header->committed - node.header.committed) / kMega / hours;
    node.header = *header;
  }
  return nodes;
}

std::string describe_state(const LiveNode& node) {
  const NodeInfo& info = *node.info;
  switch (node.state) {
    case State::recording: return fmt::format("recording (program {}, recorder {})", info.pid, info.recorder_pid);
    case State::schedule:
      return fmt::format("keeping a schedule (program {}, recorder {})", info.pid, info.recorder_pid);
    case State::standby: return fmt::format("on standby (program {}, recorder {})", info.pid, info.recorder_pid);
    case State::orphan:
      return fmt::format(
          "its recorder ({}) is dead; the program ({}) goes on, and stores until {:.1f} MB more are used",
          info.recorder_pid, info.pid,
          static_cast<double>(node.header.allocated - std::min(node.header.allocated, node.header.committed)) / kMega);
    case State::ended: return info.end.how == NodeEnd::How::running ? "ended just now" : describe(info.end);
  }
  return "";
}

const char* name_of(State state) {
  switch (state) {
    case State::recording: return "recording";
    case State::schedule: return "schedule";
    case State::standby: return "standby";
    case State::orphan: return "recorder dead";
    case State::ended: return "ended";
  }
  return "";
}

json to_json(const Recording& recording, const std::vector<LiveNode>& nodes) {
  std::set<uint32_t> recorders;
  json out = {{"path", recording.path()}, {"nodes", json::array()}};
  uint64_t bytes = 0, disk = 0;
  double now = 0;
  for (const auto& node : nodes) {
    if (is_recorded(node.state) || node.state == State::standby) recorders.insert(node.info->recorder_pid);
    bytes += node.header.committed, disk += node.disk, now += node.now.value_or(0);
    json entry = {{"id", node.info->id.value},
                  {"name", node.info->name},
                  {"state", name_of(node.state)},
                  {"pid", node.info->pid},
                  {"recorder_pid", node.info->recorder_pid},
                  {"text", describe_state(node)},
                  {"events", node.header.events},
                  {"trace_bytes", node.header.committed},
                  {"disk_bytes", node.disk},
                  {"mb_per_hour", node.average}};
    if (node.now) entry["mb_per_hour_now"] = *node.now;
    out["nodes"].push_back(std::move(entry));
  }
  out["recording"] = !recorders.empty();
  out["recorders"] = recorders;
  out["trace_bytes"] = bytes, out["disk_bytes"] = disk, out["mb_per_hour_now"] = now;
  return out;
}

void print_live(const json& live) {
  if (live["recording"].get<bool>()) {
    std::string pids;
    for (const auto& pid : live["recorders"])
      pids += fmt::format("{}{}", pids.empty() ? "" : ", ", pid.get<uint32_t>());
    say("{}: being recorded by {}\n", live["path"].get<std::string>(), pids);
  } else {
    say("{}: not being recorded\n", live["path"].get<std::string>());
  }
  for (const auto& node : live["nodes"]) {
    say("node {} {}: {}\n", node["id"].get<uint32_t>(), node["name"].get<std::string>(),
        node["text"].get<std::string>());
    say("  {}, {:.1f} MB ({:.1f} MB on disk), {:.1f} MB/h on average{}\n",
        counted(node["events"].get<uint64_t>(), "event"), node["trace_bytes"].get<double>() / kMega,
        node["disk_bytes"].get<double>() / kMega, node["mb_per_hour"].get<double>(),
        node.contains("mb_per_hour_now") ? fmt::format(", {:.1f} MB/h now", node["mb_per_hour_now"].get<double>())
                                         : "");
  }
  say("in all {:.1f} MB ({:.1f} MB on disk){}\n", live["trace_bytes"].get<double>() / kMega,
      live["disk_bytes"].get<double>() / kMega,
      live["recording"].get<bool>() ? fmt::format(", {:.1f} MB/h now", live["mb_per_hour_now"].get<double>()) : "");
}

}  // namespace

namespace {

struct LiveOptions {
  SavingOptions saving;
  SwitchingOptions switching;
  std::string action;
};

int run_live(const LiveOptions& options) {
  if (options.action == "save") return save_live(options.saving);
  if (!options.action.empty()) {
    SwitchingOptions switching = options.switching;
    switching.recording = options.saving.recording;
    switching.keeps = options.action == "full"       ? Keeps::everything
                      : options.action == "schedule" ? Keeps::schedule
                                                     : Keeps::nothing;
    return switch_recording(switching);
  }
  return show_live(options.saving.recording, options.saving.as_json);
}

}  // namespace

void add_live_command(CLI::App& app, int* status) {
  auto options = std::make_shared<LiveOptions>();
  auto* command = app.add_subcommand(
      "live", "Show a recording that is being made, save what it holds, or switch it on and off while it goes on");
  SavingOptions& saving = options->saving;
  add_recording(*command, saving.recording);
  command
      ->add_option("action", options->action,
                   "save: make a recording of what it holds now; full: record its programs from now on; schedule: keep "
                   "only what they send and receive; off: put them back on standby (friday record --standby); without "
                   "it: show its state")
      ->check(CLI::IsMember({"save", "full", "schedule", "off"}));
  command
      ->add_option(
          "--node", options->switching.nodes,
          "With full, schedule or off: only the nodes with this name, or with names that match this pattern, and their "
          "children; may be repeated")
      ->allow_extra_args(false);
  auto* place = command->add_option("-o,--output", saving.place,
                                    "The recording to make (default: REC-saved-1, REC-saved-2, ...)");
  auto* when = command
                   ->add_option("--when", saving.when,
                                "Not at once, but when this happens: crash (a node is killed by a fault of its own), "
                                "/REGEX/ (it writes a line that matches), or FILE.py (it receives a message for which "
                                "the file's function save_when(message) returns a true value); may be repeated")
                   ->allow_extra_args(false);
  command->add_option("--times", saving.times, "With --when: end after so many saves (default: 1)")
      ->check(CLI::Range(1u, 1000000u))
      ->needs(when)
      ->excludes(place);
  command->add_flag("--with-recorder", saving.with_recorder)->needs(when)->group("");
  command->add_flag("--json", saving.as_json, "Print JSON");
  command->footer(
      "Examples:\n  friday live REC\n  friday live REC full --node 'replica*'\n  friday live REC save -o CASE\n  "
      "friday live REC save --when crash --when '/lost "
      "[0-9]+ rows/' --when late.py");
  command->callback([options, status] { *status = run_live(*options); });
}

int show_live(const std::string& path, bool as_json) {
  auto recording = Recording::open(path, Recording::Standby::shown);
  if (!recording) {
    say(stderr, "friday info: {}\n", describe(recording.error()));
    return 2;
  }
  const json live = to_json(*recording, look(*recording));
  if (as_json) say_json(live);
  else print_live(live);
  return 0;
}

}  // namespace friday
