#include "core/replay/shared_watches.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "core/base/memory_map.h"

namespace friday {

void SharedWatches::clear() {
  any_shared_ = stale_ = false;
  versions_.clear();
  armed_.clear();
  by_number_.clear();
  ranges_.clear();
}

// The shared mappings of a node: those of memfds that the core has created under this name
// (ReplaySession::offer_object() and requests.cc).
Result<std::vector<SharedWatches::SharedMap>> SharedWatches::maps_of(ReplayNode& node) {
  FRIDAY_TRY(all, read_memory_map(memory_directory(node.process().pid())));
  std::vector<SharedMap> maps;
  for (const MappedRange& map : all)
    if (map.shared && map.path.starts_with("/memfd:friday-shared"))
      maps.push_back({map.low, map.high, map.offset, map.inode});
  return maps;
}

// The mirrors that the current watches and mappings require, by the node that has them. Also sets `ranges` to what is
// watched on shared memory.
Result<std::map<NodeId, std::set<SharedWatches::Mirror>>> SharedWatches::wanted(
    std::set<std::pair<NodeId, Mirror>>& ranges) {
  std::map<NodeId, std::vector<SharedMap>> maps;
  for (const auto& [id, node] : nodes_)
    if (node->has_process() && node->state() == NodeState::live) {
      FRIDAY_TRY(own, maps_of(*node));
      maps[id] = std::move(own);
    }
  std::map<NodeId, std::set<Mirror>> mirrors;
  for (const auto& [owner, own] : maps) {
    std::vector<WatchRange> watched;
    nodes_.at(owner)->watches().each_range([&](const WatchRange& range) { watched.push_back(range); });
    for (const WatchRange& range : watched)
      for (const SharedMap& map : own) {
        const uint64_t low = std::max(range.low.value, map.low),
                       high = std::min(range.low.value + range.size, map.high);
        if (low >= high) continue;
        const Mirror here{owner, range.id, range.index, Addr{low}, high - low, Addr{low}, range.access};
        ranges.emplace(owner, here);
        const uint64_t from = map.offset + (low - map.low), to = from + (high - low);
        for (const auto& [other, theirs] : maps)
          for (const SharedMap& each : theirs) {
            const uint64_t begin = std::max(from, each.offset),
                           end = std::min(to, each.offset + (each.high - each.low));
            if (each.inode != map.inode || begin >= end) continue;
            const Addr place{low + (begin - from)}, there{each.low + (begin - each.offset)};
            if (other != owner || there != place)
              mirrors[other].insert({owner, range.id, range.index, place, end - begin, there, range.access});
          }
      }
  }
  return mirrors;
}

// Watches a mirror in a node. If no debug register is free, page protection is used, which does not detect reads.
Result<void> SharedWatches::arm(ReplayNode& node, const Mirror& mirror, std::vector<std::string>& notices) {
  const uint32_t number = next_number_++;
  // Report all writes, because the last value known of the mirror may be out of date. The owner's range is compared.
  const WatchRange range{kMirrorId,  number,
                         mirror.low, mirror.size,
                         true,       mirror.access == WatchAccess::write ? WatchAccess::write : WatchAccess::any};
  auto done = node.watches().arm(range);
  if (!done && done.error().code == ErrorCode::unsupported) done = node.watches().arm(range, true);
  if (!done && done.error().code == ErrorCode::bad_address) return {};  // the memory has just been unmapped
  if (!done && done.error().code == ErrorCode::unsupported) {
    std::string text =
        fmt::format("watch {}: accesses by node {} to the memory that it shares with node {} are not noticed: {}",
                    mirror.id.value, node.id(), mirror.owner, done.error().message);
    if (told_.insert(text).second) notices.push_back(std::move(text));
    return {};
  }
  if (!done) return done;
  armed_[node.id()].emplace(mirror, number);
  by_number_.emplace(number, mirror);
  return {};
}

Result<std::vector<ReplayNode*>> SharedWatches::follow(std::vector<std::string>& notices) {
  std::vector<ReplayNode*> changed;
  if (!any_shared_) return changed;
  bool same = !std::exchange(stale_, false);
  for (const auto& [id, node] : nodes_) {
    uint64_t& seen = versions_[id];
    same = same && seen == node->watches().version();
    seen = node->watches().version();
  }
  if (same) return changed;
  ranges_.clear();
  FRIDAY_TRY(mirrors, wanted(ranges_));
  for (const auto& [id, node] : nodes_) {
    if (!node->has_process() || node->state() != NodeState::live) continue;
    const std::set<Mirror>& now = mirrors[id];
    auto& armed = armed_[id];
    bool any = false;
    std::vector<Mirror> gone;
    for (const auto& [mirror, number] : armed)
      if (!now.contains(mirror)) gone.push_back(mirror);
    for (const Mirror& mirror : gone) {
      node->watches().disarm(kMirrorId, armed.at(mirror));
      by_number_.erase(armed.at(mirror));
      armed.erase(mirror);
      any = true;
    }
    for (const Mirror& mirror : now)
      if (!armed.contains(mirror)) {
        FRIDAY_TRY_VOID(arm(*node, mirror, notices));
        any = true;
      }
    if (any) changed.push_back(node.get());
    const uint32_t tell = !ranges_.empty();
    if (node->control().tell_shared != tell && !node->set_control(&shim::Control::tell_shared, tell))
      return fail(ErrorCode::component_died, "node {}: its process is gone", id);
  }
  return changed;
}

// Compares the owner's ranges in [low, low + size) with their last known bytes, and adds changes to `hits`.
Result<void> SharedWatches::compare(ReplayNode& owner, Addr low, uint64_t size,
                                    std::map<NodeId, std::vector<WatchHit>>& hits) {
  FRIDAY_TRY(found, owner.watches().note_write(low, size));
  for (WatchHit& hit : found)
    if (hit.id != kMirrorId) hits[owner.id()].push_back(std::move(hit));
  return {};
}

std::vector<Stop> SharedWatches::stops_of(const Stop& at, ReplayNode& writer,
                                          std::map<NodeId, std::vector<WatchHit>> hits) {
  std::vector<Stop> stops;
  if (auto own = hits.find(writer.id()); own != hits.end()) {
    stops.push_back(at);
    stops.back().hits = std::move(own->second);
  }
  for (auto& [id, theirs] : hits) {
    if (id == writer.id() || theirs.empty()) continue;
    Stop stop;
    stop.kind = Stop::Kind::watch;
    stop.node = id;
    stop.thread = nodes_.at(id)->current();
    if (auto pc = nodes_.at(id)->program_counter(stop.thread)) stop.pc = Addr{*pc};
    stop.hits = std::move(theirs);
    stop.writer = StopWriter{writer.id(), at.thread, at.pc, writer.events_done()};
    // A stop point that the writer has hit through its own mapping of the same bytes must count one hit, not two.
    if (!stops.empty() && stops.front().node == writer.id())
      for (const WatchHit& own : stops.front().hits) stop.told.push_back(own.id);
    stops.push_back(std::move(stop));
  }
  return stops;
}

Result<std::vector<Stop>> SharedWatches::judge(Stop stop, ReplayNode& writer) {
  std::map<NodeId, std::vector<WatchHit>> hits;
  for (WatchHit& hit : stop.hits) {
    if (hit.id != kMirrorId) {
      hits[writer.id()].push_back(std::move(hit));
      continue;
    }
    auto known = by_number_.find(hit.index);
    if (known == by_number_.end()) continue;
    const Mirror mirror = known->second;
    auto owner = nodes_.find(mirror.owner);
    if (owner == nodes_.end() || owner->second->state() != NodeState::live) continue;
    FRIDAY_TRY_VOID(compare(*owner->second, mirror.place, mirror.size, hits));
  }
  return stops_of(stop, writer, std::move(hits));
}

Result<std::vector<Stop>> SharedWatches::look_at_all(const Stop& at, ReplayNode& writer) {
  std::map<NodeId, std::vector<WatchHit>> hits;
  for (const auto& [id, range] : ranges_)
    if (auto owner = nodes_.find(id); owner->second->state() == NodeState::live)
      FRIDAY_TRY_VOID(compare(*owner->second, range.place, range.size, hits));
  for (auto& [id, theirs] : hits)
    // Without a change it is unknown whether the call has written to the range at all.
    std::erase_if(theirs, [](const WatchHit& hit) { return hit.old_bytes == hit.new_bytes; });
  std::erase_if(hits, [](const auto& each) { return each.second.empty(); });
  return stops_of(at, writer, std::move(hits));
}

}  // namespace friday
