#include "console/info.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/info_channels.h"
#include "console/info_missing.h"
#include "console/live.h"
#include "console/options.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/trace/aliases.h"
#include "core/trace/calls.h"
#include "core/trace/index.h"
#include "core/trace/logical_time.h"
#include "core/trace/node_end.h"
#include "core/trace/recording.h"
#include "core/trace/refused.h"
#include "core/trace/roll.h"
#include "core/trace/steps.h"

namespace friday {
namespace {

using nlohmann::json;

struct InfoOptions {
  std::string recording, nodes;
  bool as_json = false, live = false, channels = false, missing = false;
};

struct Modules {
  uint64_t patched = 0, trapped = 0;
  size_t threads = 0;
};

// Facts that only the trace itself contains: threads, call sites.
Modules modules_of(const Recording& recording, NodeId id) {
  Modules out;
  auto reader = TraceReader::open(recording, id, TraceReader::Gaps::allow);
  if (!reader) return out;
  if (auto index = TraceIndex::load_or_build(recording, *reader)) {
    out.threads = index->threads().size();
    if (auto modules = index->modules(*reader))
      for (const auto* module : *modules) out.patched += module->sites_patched, out.trapped += module->sites_trapped;
  }
  return out;
}

bool is_scheduled(const Schedule& schedule, NodeId id) {
  return std::ranges::find(schedule.nodes(), id) != schedule.nodes().end();
}

double seconds_of(const Schedule& schedule, NodeId id) {
  const uint64_t count = schedule.event_count(id);
  if (count < 2) return 0;
  return static_cast<double>(schedule.time_of(id, {count - 1}).l - schedule.time_of(id, {0}).l) / 1e9;
}

// How the node's process ended, as numbers: {"exit_code": 3} or {"signal": 9}; nothing if that is not known.
void add_end(json& out, const NodeEnd& end) {
  if (end.how == NodeEnd::How::exit) out["exit_code"] = end.detail;
  if (end.how == NodeEnd::How::signal) out["signal"] = end.detail;
}

json describe_steps(const Recording& recording, const Schedule& schedule) {
  json out = json::array();
  for (const Step& step : steps_of(recording, schedule))
    out.push_back({{"what", step.what},
                   {"detail", step.detail},
                   {"node", step.node.value},
                   {"name", recording.find(step.node)->name},
                   {"seconds", static_cast<double>(step.time.l - schedule.origin()) / 1e9},
                   {"real_ns", step.realtime_ns},
                   {"position", step.position}});
  return out;
}

json describe_node(const Recording& recording, const Schedule* schedule, const NodeInfo& node) {
  const NodeEnd end = schedule && is_scheduled(*schedule, node.id) ? end_of(recording, *schedule, node) : node.end;
  json out = {{"id", node.id.value},     {"name", node.name},
              {"lineage", node.lineage}, {"program", node.program},
              {"argv", node.argv},       {"build_id", node.build_id},
              {"host", node.host},       {"pid", node.pid},
              {"events", node.events},   {"trace_bytes", node.trace_bytes},
              {"ended", describe(end)}};
  add_end(out, end);
  if (node.parent) out["parent"] = node.parent->value;
  if (node.spawned_by) out["spawned_by"] = node.spawned_by->value;
  if (node.replaces) out["replaces"] = node.replaces->value;
  if (node.continues) out["continues"] = node.continues->value;
  if (node.chaos) out["chaos_seed"] = *node.chaos;
  if (node.schedule) out["schedule"] = true;
  if (node.left_out) out["left_out"] = {{"bytes", node.left_out}, {"restored", node.restored}};
  if (!node.notice.empty()) out["notice"] = node.notice;
  if (node.problem) {
    out["problem"] = node.problem->message;
    return out;
  }
  const Modules modules = modules_of(recording, node.id);
  out["threads"] = modules.threads;
  out["call_sites"] = {{"patched", modules.patched}, {"left_to_catch_all", modules.trapped}};
  out["calls_caught"] = node.trapped;
  if (!schedule || !is_scheduled(*schedule, node.id)) return out;
  out["seconds"] = seconds_of(*schedule, node.id);
  const NodeTraffic& traffic = schedule->traffic_of(node.id);
  out["messages"] = {{"sent", traffic.sends},
                     {"received", traffic.receives},
                     {"sent_unmatched", traffic.unmatched_sends},
                     {"received_unmatched", traffic.unmatched_receives},
                     {"sent_unplaced", traffic.unplaced_sends},
                     {"received_unplaced", traffic.unplaced_receives}};
  return out;
}

// The clock of a host relative to host 0, as derived from messages.
json describe_host(const Recording& recording, const Schedule& schedule, uint32_t index) {
  const HostAlignment& host = schedule.hosts()[index];
  json out = {{"id", index}, {"nodes", json::array()}, {"related", host.group == 0}};
  for (const auto& node : recording.nodes()) {
    if (!is_scheduled(schedule, node.id) || schedule.host_of(node.id) != index) continue;
    if (out["nodes"].empty()) out["name"] = node.host, out["boot_id"] = hex_text(node.boot_id);
    out["nodes"].push_back(node.id.value);
  }
  const int64_t zero = schedule.hosts()[0].map(0);
  out["ahead_ns"] = host.map.origin_local - (host.map.origin_reference - zero);
  out["gains_ppm"] = (1 / host.map.rate - 1) * 1e6;
  if (host.by != index)
    out["placed_by"] = {
        {"host", host.by}, {"messages_to", host.to}, {"messages_from", host.from}, {"margin_ns", host.margin_ns}};
  return out;
}

json by_way(const std::array<uint64_t, kMatchedByCount>& counts) {
  json out = json::object();
  for (size_t n = 0; n < counts.size(); ++n) out[name_of(static_cast<MatchedBy>(n))] = counts[n];
  return out;
}

// How many receives were matched with a send, by method; the others are local ticks.
json describe_matching(const Schedule& schedule) {
  std::array<uint64_t, kMatchedByCount> by{};
  for (const auto& [pair, traffic] : schedule.traffic_between())
    for (size_t n = 0; n < by.size(); ++n) by[n] += traffic.by[n];
  json out = by_way(by);
  uint64_t unmatched = 0, unplaced = 0;
  for (NodeId id : schedule.nodes()) {
    unmatched += schedule.traffic_of(id).unmatched_receives;
    unplaced += schedule.traffic_of(id).unplaced_receives;
  }
  out["unmatched_receives"] = unmatched;
  out["unplaced_receives"] = unplaced;
  return out;
}

json describe_all(const Recording& recording, const Schedule* schedule) {
  json out = {{"path", recording.path()},
              {"created_ns", recording.created_ns()},
              {"nodes", json::array()},
              {"messages", json::array()},
              {"readable_by_others", recording.readable_by_others()}};
  const auto aliases = aliases_of(recording.nodes());
  for (const auto& node : recording.nodes()) {
    out["nodes"].push_back(describe_node(recording, schedule, node));
    if (const auto alias = aliases.find(node.id); alias != aliases.end()) out["nodes"].back()["alias"] = alias->second;
  }
  out["refused"] = json::array();
  for (const RefusedCalls& refusal : refusals_of(recording)) {
    json nodes = json::object();
    for (const auto& [id, count] : refusal.nodes) nodes[recording.find(id)->name] = count;
    out["refused"].push_back({{"call", call_text(refusal.call)},
                              {"answered", "ENOSYS"},
                              {"count", refusal.count()},
                              {"nodes", nodes},
                              {"why", refusal.why()},
                              {"advice", refusal.advice()},
                              {"text", describe(recording, refusal)}});
  }
  if (!schedule) return out;
  out["events"] = schedule->event_count();
  out["steps"] = describe_steps(recording, *schedule);
  out["contradictions"] = schedule->broken().size();
  out["hosts"] = json::array();
  for (uint32_t host = 0; host < schedule->hosts().size(); ++host)
    out["hosts"].push_back(describe_host(recording, *schedule, host));
  out["matched"] = describe_matching(*schedule);
  for (const auto& [pair, traffic] : schedule->traffic_between())
    out["messages"].push_back({{"from", pair.first.value},
                               {"to", pair.second.value},
                               {"messages", traffic.messages},
                               {"bytes", traffic.bytes},
                               {"duplicates", traffic.duplicates},
                               {"by", by_way(traffic.by)}});
  return out;
}

void print_host(const json& host) {
  std::string nodes;
  for (const auto& node : host["nodes"]) nodes += fmt::format(" {}", node.get<int>());
  say("host {} {}: node{}{}", host["id"].get<int>(), host.value("name", "?"), host["nodes"].size() == 1 ? "" : "s",
      nodes);
  if (host["id"] == 0) {
    say("; the others' clocks are measured by its own\n");
  } else if (!host["related"].get<bool>() && !host.contains("placed_by")) {
    say("; no message relates it to the hosts before it, so its wall clock places it\n");
  } else {
    const json& by = host["placed_by"];
    const auto ahead = static_cast<double>(host["ahead_ns"].get<int64_t>()) / 1e9;
    const double gains = host["gains_ppm"].get<double>();
    say("; clock {:.6f} s {} host 0's, {} {:.1f} ppm, by {} from host {} and {} to it, {}\n", std::abs(ahead),
        ahead < 0 ? "behind" : "ahead of", gains < 0 ? "loses" : "gains", std::abs(gains),
        counted(by["messages_to"].get<uint64_t>(), "message"), by["host"].get<int>(),
        by["messages_from"].get<uint64_t>(),
        by["margin_ns"].get<int64_t>() < 0
            ? "which contradict each other"
            : fmt::format("within {:.3f} ms", static_cast<double>(by["margin_ns"].get<int64_t>()) / 1e6));
  }
}

void print_matching(const json& matched) {
  static const std::pair<const char*, const char*> kinds[] = {
      {"address", "by both addresses"},
      {"one_address", "by one address (the other end did not ask, or it was rewritten)"},
      {"content", "by content and time (addresses were rewritten)"},
      {"object", "through a pipe or local socket"}};
  std::string text;
  for (auto [key, words] : kinds)
    if (const auto count = matched[key].get<uint64_t>())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, words);
  const uint64_t unplaced = matched["unplaced_receives"].get<uint64_t>();
  say("messages matched: {}; {} received from senders that are not recorded{}\n", text.empty() ? "none" : text,
      matched["unmatched_receives"].get<uint64_t>() - unplaced,
      unplaced ? fmt::format(", {} at an unknown place in a recorded connection", unplaced) : "");
}

// A message is unmatched if its other side is not recorded, if nobody has received it, or if its place in a recorded
// connection is unknown.
void print_messages(const json& messages) {
  auto count = [&](const char* key) { return messages[key].get<uint64_t>(); };
  auto unknown = [&](const char* key) {
    return count(key) ? fmt::format(", {} at an unknown place in a recorded connection", count(key)) : "";
  };
  say("  messages  {} sent ({} that no recorded node received{}), {} received ({} from senders that are not "
      "recorded{})\n",
      count("sent"), count("sent_unmatched") - count("sent_unplaced"), unknown("sent_unplaced"), count("received"),
      count("received_unmatched") - count("received_unplaced"), unknown("received_unplaced"));
}

void print_info(const json& info) {
  say("{}\n", info["path"].get<std::string>());
  for (const auto& node : info["nodes"]) {
    say("node {} {}{}\n", node["id"].get<int>(), node.contains("alias") ? node["alias"].get<std::string>() + " = " : "",
        node["name"].get<std::string>());
    std::string command;
    for (const auto& word : node["argv"]) command += (command.empty() ? "" : " ") + word.get<std::string>();
    const auto build_id = node["build_id"].get<std::string>();
    say("  program   {}{}\n", node["program"].get<std::string>(),
        build_id.empty() ? "" : " (build-id " + build_id + ")");
    if (!command.empty()) say("  command   {}\n", command);
    if (node.contains("parent")) say("  forked by node {}\n", node["parent"].get<int>());
    if (node.contains("spawned_by")) say("  spawned by node {} (vfork and execve)\n", node["spawned_by"].get<int>());
    if (node.contains("continues"))
      say("  goes on where node {} ended, in the same process\n", node["continues"].get<int>());
    if (node.contains("replaces")) say("  took the place of node {} (execve)\n", node["replaces"].get<int>());
    if (node.contains("problem")) {
      say("  problem   {}\n", node["problem"].get<std::string>());
      continue;
    }
    say("  events    {} in {}, {:.3f} s, {}\n", node["events"].get<uint64_t>(),
        counted(node["threads"].get<uint64_t>(), "thread"), node.value("seconds", 0.0),
        counted(node["trace_bytes"].get<uint64_t>(), "byte"));
    if (node.contains("schedule"))
      say("  schedule  only what it sent and received was kept (--schedule); it cannot be replayed\n");
    if (node.contains("left_out"))
      say("  left out  {} of what it received from other nodes{}\n",
          size_text(node["left_out"]["bytes"].get<uint64_t>()),
          node["left_out"]["restored"].get<bool>() ? "; a replay has made it again" : "");
    if (node.contains("messages")) print_messages(node["messages"]);
    if (!node.contains("schedule"))
      say("  calls     {} patched, {} left to the catch-all, which caught {}\n",
          counted(node["call_sites"]["patched"].get<uint64_t>(), "call site"),
          node["call_sites"]["left_to_catch_all"].get<uint64_t>(),
          counted(node["calls_caught"].get<uint64_t>(), "call"));
    say("  ended     {}\n", node["ended"].get<std::string>());
    if (node.contains("chaos_seed"))
      say("  chaos     recorded with --chaos, seed {}\n", node["chaos_seed"].get<uint64_t>());
    if (node.contains("notice")) say("  notice    {}\n", node["notice"].get<std::string>());
  }
  if (info.contains("missing_nodes")) say("{}\n", info["missing_nodes"]["text"].get<std::string>());
  for (const auto& step : info.value("steps", json::array()))
    say("at logical time {:.6f} s friday record did: {} node {} {}{}{}\n", step["seconds"].get<double>(),
        step["what"].get<std::string>(), step["node"].get<int>(), step["name"].get<std::string>(),
        step["detail"].get<std::string>().empty() ? "" : ", ", step["detail"].get<std::string>());
  for (const auto& refusal : info["refused"]) say("refused   {}\n", refusal["text"].get<std::string>());
  for (const auto& pair : info["messages"])
    say("messages {} -> {}: {} ({})\n", pair["from"].get<int>(), pair["to"].get<int>(),
        pair["messages"].get<uint64_t>(), counted(pair["bytes"].get<uint64_t>(), "byte"));
  if (info.contains("matched")) print_matching(info["matched"]);
  if (info.contains("hosts") && info["hosts"].size() > 1)
    for (const auto& host : info["hosts"]) print_host(host);
  if (info.value("contradictions", 0) > 0)
    say("dropped because the other matches contradict it: {}\n",
        counted(info["contradictions"].get<uint64_t>(), "matched message"));
  say("A recording holds whatever the programs saw, secrets too; {}.\n",
      info["readable_by_others"].get<bool>() ? "others on this machine can read this one: chmod -R go= it"
                                             : "its files are readable by you only");
}

int run_info(const InfoOptions& options) {
  if (!options.nodes.empty() && !options.channels && !options.missing)
    return complain("info", {ErrorCode::usage, "--node goes with --channels or --missing"});
  if (options.live) return show_live(options.recording, options.as_json);
  if (options.missing) return show_missing(options.recording, options.nodes, options.as_json);
  if (options.channels) return show_channels(options.recording, options.nodes, options.as_json);
  auto recording = Recording::open(options.recording);
  if (!recording) return complain("info", recording.error());
  auto schedule = Schedule::load_or_compute(*recording);
  json info = describe_all(*recording, schedule ? &*schedule : nullptr);
  if (const auto missing = missing_nodes(recording->path()); !missing.empty()) {
    info["missing_nodes"] = {{"text", missing_text(missing)}, {"nodes", json::array()}};
    for (const RolledNode& node : missing)
      info["missing_nodes"]["nodes"].push_back({{"id", node.id.value}, {"name", node.name}});
  }
  if (!schedule) info["problem"] = describe(schedule.error());
  if (options.as_json) say_json(info);
  else print_info(info);
  if (!schedule) return complain("info", schedule.error());
  return 0;
}

}  // namespace

void add_info_command(CLI::App& app, int* status) {
  auto options = std::make_shared<InfoOptions>();
  auto* command =
      app.add_subcommand("info", "Show what a recording holds: nodes, programs, events, messages, how each node ended");
  add_recording(*command, options->recording);
  command->add_flag("--live", options->live,
                    "Whether it is being recorded right now, by which process, how much, how fast");
  auto* channels = command->add_flag(
      "--channels", options->channels,
      "What moved through each socket, pipe and file, how fast, and what of it is left out or could be");
  command
      ->add_flag("--missing", options->missing,
                 "What is left out of what each node has received, who has sent it, and what nobody of the "
                 "recording has")
      ->excludes(channels);
  command->add_option("--node", options->nodes, "With --channels or --missing: only these nodes");
  command->add_flag("--json", options->as_json, "Print JSON");
  command->footer("Examples:\n  friday info REC\n  friday info --live REC\n  friday info --channels REC --node 2");
  command->callback([options, status] { *status = run_info(*options); });
}

}  // namespace friday
