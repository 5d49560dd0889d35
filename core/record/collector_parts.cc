// Recordings that reach back for a limited time (CollectorOptions::keep_ns). The traces of all processes are cut into
// parts at the same moments; a part is a node of its own, which begins with a start image (core/shim/part.cc). What
// ended before the time that is kept is removed while the programs run.
#include <algorithm>
#include <map>
#include <set>

#include "core/base/log.h"
#include "core/record/collector_node.h"

namespace friday {

// The process is about to go on in a new trace. That is a node of its own, with this one as its parent.
Result<Collector::Node*> Collector::next_part(Node& node) {
  if (node.next_part) return node.next_part;  // it has asked before, and could not begin
  NodeOrigin origin = node.origin;
  if (node.part > 1) origin.lineage.pop_back();
  origin.name = fmt::format("{}/part-{}", origin.lineage.back(), node.part + 1);
  origin.lineage.push_back(origin.name);
  FRIDAY_TRY(next, create_node(origin, &node));
  next->header->features |= format::kFeaturePart;
  next->hello = true;
  next->part = node.part + 1;
  return node.next_part = next;
}

void Collector::go_on_in_part(Node& node) {
  if (!node.next_part) return;
  Node& next = *std::exchange(node.next_part, nullptr);
  next.socket = std::move(node.socket);
  next.pid = node.pid;
  next.direct_child = node.direct_child;
  next.spawned = node.spawned;
  next.forked_children = node.forked_children;
  next.header->parent_pid = static_cast<uint32_t>(node.pid);
  next.header->fork_event = node.header->events - 1;
  write_description(next);
  node.end_reason = format::kEndContinued;
  node.ended_ns = now_ns(CLOCK_MONOTONIC);
  node.replaced = true;
  close_node(node);
}

// Asks all processes to begin another part, and removes what is older than what is kept.
void Collector::cut() {
  cut_at_ = now_ns(CLOCK_MONOTONIC) + options_.keep_ns / kPartsKept;
  for (const Node* node : open_)
    if (node->header && node->hello) __atomic_store_n(&node->header->wanted, uint32_t{1}, __ATOMIC_RELEASE);
  remove_old();
}

// A node is needed as long as it has not ended, or has ended in the time that is kept, or a needed node is a fork of
// it: that one begins as a copy of it.
void Collector::remove_old() {
  const int64_t kept = now_ns(CLOCK_MONOTONIC) - options_.keep_ns;
  std::map<std::vector<uint8_t>, const Node*> by_uuid;
  std::vector<const Node*> needed;
  const auto key = [](const uint8_t(&uuid)[16]) { return std::vector<uint8_t>(std::begin(uuid), std::end(uuid)); };
  for (const auto& node : nodes_) {
    if (node->dropped) continue;
    by_uuid[key(node->uuid)] = node.get();
    if (!node->closed || !node->ended_ns || node->ended_ns >= kept || (node->packed && !packer_.is_done(*node->packed)))
      needed.push_back(node.get());
  }
  std::set<const Node*> stays(needed.begin(), needed.end());
  while (!needed.empty()) {
    const Node& node = *needed.back();
    needed.pop_back();
    const auto parent = node.forked ? by_uuid.find(key(node.parent_uuid)) : by_uuid.end();
    if (parent != by_uuid.end() && stays.insert(parent->second).second) needed.push_back(parent->second);
  }
  for (const auto& node : nodes_)
    if (!node->dropped && !stays.contains(node.get())) remove_node(*node);
}

void Collector::remove_node(Node& node) {
  FRIDAY_LOG(record, info, "node {} {} is removed: it ended before the time that is kept", node.id, node.origin.name);
  if (const auto names = names_beneath(node.directory))
    for (const std::string& name : *names) remove_beneath(node.directory.below(name));
  remove_beneath(node.directory);
  removed_events_ += node.events;
  node.dropped = true;
  node.packed = nullptr;
  node.bytes = 0;
}

}  // namespace friday
