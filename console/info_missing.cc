#include "console/info_missing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/complain.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/replay/companions.h"
#include "core/trace/left_out_events.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

using nlohmann::json;

struct Lack {
  uint64_t bytes = 0;
  uint64_t let_go = 0;  // of those that were let go for good
  // Of those that no node of the recording has.
  uint64_t nowhere = 0, first = 0, last = 0;  // events
  std::map<NodeId, uint64_t> senders;
  std::set<NodeId> needs;            // whose replay makes it again
  std::optional<NodeId> blocked_by;  // a node of these that cannot be replayed, perhaps itself
};

Result<Lack> lack_of(const Recording& recording, const Schedule* order, const NodeInfo& node) {
  Lack lack;
  FRIDAY_TRY(trace, TraceReader::open(recording, node.id, TraceReader::Gaps::allow));
  FRIDAY_TRY_VOID(for_each_left_out(trace, [&](EventView event, uint64_t, const LeftOut& range) {
    lack.bytes += range.size;
    if (range.is_let_go()) {
      lack.let_go += range.size;
      return;
    }
    if (const NodeInfo* sender = sender_of(recording, range)) {
      lack.senders[sender->id] += range.size;
      lack.needs.insert(sender->id);
      return;
    }
    if (lack.nowhere == 0) lack.first = event->index;
    lack.nowhere += range.size;
    lack.last = event->index;
  }));
  FRIDAY_TRY_VOID(add_ancestors(recording, lack.needs));
  if (order) {
    FRIDAY_TRY_VOID(add_memory_sharers(recording, *order, lack.needs));
  }
  return lack;
}

// Whose replay needs bytes that nobody has, directly or through others.
void find_blocked(std::map<NodeId, Lack>& lacks) {
  for (auto& [id, lack] : lacks)
    if (lack.nowhere) lack.blocked_by = id;
  for (bool more = true; more;) {
    more = false;
    for (auto& [id, lack] : lacks) {
      if (lack.blocked_by) continue;
      const auto blocked = std::ranges::find_if(lack.needs, [&](NodeId need) {
        const auto found = lacks.find(need);
        return found != lacks.end() && found->second.blocked_by;
      });
      if (blocked == lack.needs.end()) continue;
      lack.blocked_by = *blocked;
      more = true;
    }
  }
}

json describe_lack(const Recording& recording, const Schedule* order, NodeId id, const Lack& lack) {
  const NodeInfo& node = *recording.find(id);
  json out = {
      {"id", id.value},          {"name", node.name},     {"left_out", lack.bytes},    {"restored", node.restored},
      {"nowhere", lack.nowhere}, {"let_go", lack.let_go}, {"inferred", node.inferred}, {"senders", json::array()}};
  for (const auto& [sender, bytes] : lack.senders)
    out["senders"].push_back({{"id", sender.value}, {"name", recording.find(sender)->name}, {"bytes", bytes}});
  if (lack.nowhere) {
    out["events"] = {lack.first, lack.last};
    if (order) {
      const auto at = [&](uint64_t event) {
        return static_cast<double>(order->time_of(id, {event}).l - order->origin()) / 1e9;
      };
      out["seconds"] = {at(lack.first), at(lack.last)};
    }
  }
  out["replayable"] = node.restored || !lack.blocked_by;
  if (lack.blocked_by && !node.restored) out["blocked_by"] = lack.blocked_by->value;
  return out;
}

void print_lack(const Recording& recording, const json& lack) {
  say("node {} {}: {} of what it has received are left out", lack["id"].get<uint32_t>(),
      lack["name"].get<std::string>(), size_text(lack["left_out"].get<uint64_t>()));
  if (lack["restored"].get<bool>() && !lack["inferred"].get<bool>()) say("; a replay has made them again");
  say("\n");
  for (const json& sender : lack["senders"])
    say("  {} from node {} {}\n", size_text(sender["bytes"].get<uint64_t>()), sender["id"].get<uint32_t>(),
        sender["name"].get<std::string>());
  if (const auto let_go = lack["let_go"].get<uint64_t>())
    say("  {} from programs that are not recorded; {}\n", size_text(let_go),
        lack["inferred"].get<bool>() ? "what they may have been was inferred"
                                     : "what they may have been is inferred when a command needs it");
  if (lack["nowhere"].get<uint64_t>()) {
    say("  {} from nodes that the recording does not have: events {} to {}", size_text(lack["nowhere"].get<uint64_t>()),
        lack["events"][0].get<uint64_t>(), lack["events"][1].get<uint64_t>());
    if (lack.contains("seconds"))
      say(", {:.6f} s to {:.6f} s", lack["seconds"][0].get<double>(), lack["seconds"][1].get<double>());
    say("\n");
  }
  if (lack["replayable"].get<bool>()) return;
  const NodeId blocked{lack["blocked_by"].get<uint32_t>()};
  if (blocked.value == lack["id"].get<uint32_t>()) say("  it cannot be replayed\n");
  else say("  it cannot be replayed, as node {} {} cannot\n", blocked, recording.find(blocked)->name);
}

}  // namespace

int show_missing(const std::string& path, const std::string& nodes, bool as_json) {
  auto recording = Recording::open(path);
  if (!recording) return complain("info", recording.error());
  const auto chosen = parse_node_list(*recording, nodes.empty() ? "*" : nodes);
  if (!chosen) return complain("info", chosen.error());
  const auto order = Schedule::load_or_compute(*recording);
  std::map<NodeId, Lack> lacks;
  for (const NodeInfo& node : recording->nodes()) {
    if (node.problem || node.left_out == 0) continue;
    auto lack = lack_of(*recording, order ? &*order : nullptr, node);
    if (!lack) return complain("info", lack.error());
    lacks.emplace(node.id, *std::move(lack));
  }
  find_blocked(lacks);
  json all = json::array();
  for (const auto& [id, lack] : lacks)
    if (std::ranges::find(*chosen, id) != chosen->end())
      all.push_back(describe_lack(*recording, order ? &*order : nullptr, id, lack));
  if (as_json) say_json(all);
  else if (all.empty()) say("nothing is left out\n");
  else
    for (const json& lack : all) print_lack(*recording, lack);
  return std::ranges::all_of(all, [](const json& lack) { return lack["replayable"].get<bool>(); }) ? 0 : 1;
}

}  // namespace friday
