// Recordings that reach back for a limited time (CollectorOptions::keep_ns, keep_bytes). The traces of all processes
// are cut into parts at the same moments; a part is a node of its own, which begins with a start image
// (core/shim/part.cc). What ended before the time that is kept is removed while the programs run.
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/base/log.h"
#include "core/base/poll_set.h"
#include "core/record/collector_node.h"
#include "core/trace/kept_once.h"
#include "core/trace/standing_still.h"

namespace friday {

// The process is about to go on in a new trace. That is a node of its own, with this one as its parent.
Result<Collector::Node*> Collector::next_part(Node& node, const shim::Request& request) {
  // It has asked before, and could not begin.
  if (Node* const unused = std::exchange(node.next_part, nullptr)) close_node(*unused);
  NodeOrigin origin = node.origin;
  const auto what = static_cast<shim::PartFor>(request.detail);
  const bool sleeps = what == shim::PartFor::standby, follows = !sleeps && !node.on_standby;
  if (!node.on_standby && node.part > 1) origin.lineage.pop_back(), origin.name = origin.lineage.back();
  if (follows) {
    origin.name = fmt::format("{}/part-{}", origin.lineage.back(), node.part + 1);
    origin.lineage.push_back(origin.name);
  }
  // What was recorded before a standby is not continued by what is recorded after it.
  ImageRoom image{.bytes = request.events, .file = {}, .ready = 0};
  if (!sleeps) image.file = std::move(node.room_ahead.file), image.ready = std::exchange(node.room_ahead.ready, 0);
  FRIDAY_TRY(next, create_node(origin, follows ? &node : nullptr,
                               follows  ? Begins::as_part
                               : sleeps ? Begins::on_standby
                                        : Begins::late,
                               what == shim::PartFor::schedule, std::move(image)));
  next->hello = true;
  return node.next_part = next;
}

void Collector::go_on_in_part(Node& node, UniqueFd image) {
  if (!node.next_part) return;
  Node& next = *std::exchange(node.next_part, nullptr);
  next.socket = std::move(node.socket);
  next.image = std::move(image);
  next.pid = node.pid;
  next.direct_child = node.direct_child;
  if (node.on_standby) next.launched_as = node.launched_as;
  next.spawned = node.spawned;
  next.forked_children = node.forked_children;
  next.began_in_cut = node.ended_in_cut;
  if (next.part > 1) next.header->fork_event = node.header->events - 1;
  if (options_.standby) tell_wanted(next);
  write_description(next);
  node.end_reason = format::kEndContinued;
  node.end_detail = next.on_standby;
  node.ended_ns = now_ns(CLOCK_MONOTONIC);
  node.replaced = true;
  close_node(node);
  remove_from_standby(node);
}

// What a trace has behind the room for its image may be packed only when that is complete.
void Collector::image_is_written(Node& node) {
  node.image.reset();
  if (std::exchange(node.close_when_imaged, false)) close_node(node);
}

void Collector::await_image(Node& node) {
  constexpr int kLongestMs = 60'000;
  if (!node.image) return;
  PollSet one;
  one.add(node.image.get());
  (void)one.wait(kLongestMs);
  node.image.reset();
}

Result<void> Collector::begin_generation() {
  Uuid uuid;
  if (getrandom(uuid.data(), uuid.size(), 0) != static_cast<ssize_t>(uuid.size()))
    return fail(ErrorCode::io, "getrandom failed");
  generations_.push_back({uuid, now_ns(CLOCK_MONOTONIC)});
  if (options_.lean) packer_.begin_generation(uuid);
  return {};
}

// What is stored of each generation, without room given ahead.
std::map<uint64_t, uint64_t> Collector::bytes_by_generation() const {
  std::map<uint64_t, uint64_t> bytes;
  for (const auto& node : nodes_) {
    if (node->dropped) continue;
    const uint64_t plain = node->header ? __atomic_load_n(&node->header->committed, __ATOMIC_RELAXED) : node->bytes;
    bytes[node->generation] += node->packed ? plain + node->packed->stored - node->packed->removed : plain;
  }
  return bytes;
}

// Half of the time that is kept is one generation, or an eighth of the bytes.
void Collector::cut_if_due() {
  constexpr int64_t kLookAgain = 200'000'000, kShortest = 500'000'000;
  const int64_t now = now_ns(CLOCK_MONOTONIC), age = now - generations_.back().began;
  const auto size = [&] { return bytes_by_generation()[generations_.size() - 1]; };
  const bool due =
      options_.keep_ns ? age >= options_.keep_ns / 2 : age >= kShortest && size() >= options_.keep_bytes / 8;
  if (due) cut();
  const int64_t next = options_.keep_ns ? generations_.back().began + options_.keep_ns / 2 : 0;
  cut_at_ = std::max(next, now + kLookAgain);
}

// Asks all processes to begin another part, and removes what is older than what is kept.
void Collector::cut() {
  if (!begin_generation()) return;
  // With lean traces a node keeps its generation.
  const format::Wanted wanted = options_.lean ? format::kPartInAnyCase : format::kPartWithNews;
  for (const Node* node : open_)
    if (node->header && node->hello && !node->on_standby && !node->cut)
      __atomic_store_n(&node->header->wanted, uint32_t{wanted}, __ATOMIC_RELEASE);
  remove_old(now_ns(CLOCK_MONOTONIC));
}

// The time up to which the recording reaches: now, or when the last process ended.
int64_t Collector::recorded_until() const {
  int64_t last = 0;
  for (const auto& node : nodes_) {
    if (!node->ended_ns) return now_ns(CLOCK_MONOTONIC);
    last = std::max(last, node->ended_ns);
  }
  return last;
}

// CLOCK_MONOTONIC up to which the recording reaches back. Parts end a moment after the next generation has begun, so
// one more generation stays than counts here.
int64_t Collector::kept_since(int64_t now) const {
  if (options_.keep_ns) return now - options_.keep_ns;
  const auto bytes = bytes_by_generation();
  uint64_t sum = packer_.beside();
  uint64_t first = generations_.size() - 1;
  for (auto each = bytes.rbegin(); each != bytes.rend(); ++each) {
    sum += each->second;
    if (sum > options_.keep_bytes / 4 * 3 && each->first != generations_.size() - 1) break;
    first = each->first;
  }
  return generations_[first].began;
}

// A node is needed as long as it has not ended, or has ended since `kept`, or a needed node is a fork of it: that one
// begins as a copy of it. What a lean trace leaves out is in others of its generation, so all of these are needed
// together, and so are those of processes that share memory, from one cut of theirs to the next.
std::set<Collector::Node*> Collector::needed_nodes(int64_t kept) const {
  const auto key = [](const uint8_t(&uuid)[16]) { return std::vector<uint8_t>(std::begin(uuid), std::end(uuid)); };
  std::map<std::vector<uint8_t>, Node*> by_uuid;
  std::map<uint64_t, std::vector<Node*>> by_generation;
  std::multimap<uint32_t, Node*> by_cut;
  std::set<Node*> needed;
  std::vector<Node*> unseen;
  const auto need = [&](Node* node) {
    if (needed.insert(node).second) unseen.push_back(node);
  };
  for (const auto& each : nodes_) {
    Node* const node = each.get();
    if (node->dropped) continue;
    by_uuid[key(node->uuid)] = node;
    by_generation[node->generation].push_back(node);
    if (node->in_group()) by_cut.emplace(2 * node->began_in_cut, node);
    if (node->ended_in_cut) by_cut.emplace(2 * node->ended_in_cut + 1, node);
    const bool busy = node->packed && !packer_.is_done(*node->packed);
    if (!node->closed || !node->ended_ns || node->ended_ns >= kept || busy) need(node);
  }
  const auto need_all_of = [&](uint32_t cut) {
    for (auto [at, end] = by_cut.equal_range(cut); at != end; ++at) need(at->second);
    by_cut.erase(cut);
  };
  const auto need_with_others = [&] {
    while (!unseen.empty()) {
      const Node& node = *unseen.back();
      unseen.pop_back();
      const auto parent = node.forked ? by_uuid.find(key(node.parent_uuid)) : by_uuid.end();
      if (parent != by_uuid.end()) need(parent->second);
      if (node.in_group()) need_all_of(2 * node.began_in_cut);
      if (node.ended_in_cut) need_all_of(2 * node.ended_in_cut + 1);
      if (options_.lean)
        for (Node* other : by_generation[node.generation]) need(other);
    }
  };
  need_with_others();
  // Others that share memory may have begun by themselves and ended since: without them what is left does not replay.
  int64_t earliest = INT64_MAX;
  for (const Node* node : needed)
    if (node->in_group()) earliest = std::min(earliest, node->began_ns);
  for (const auto& each : nodes_)
    if (!each->dropped && each->in_group() && !each->ended_in_cut && each->ended_ns > earliest) need(each.get());
  need_with_others();
  return needed;
}

void Collector::remove_old(int64_t now) {
  if (!try_moving(still_)) return;  // somebody copies the files; the next cut comes soon
  const std::set<Node*> needed = needed_nodes(kept_since(now));
  std::map<uint64_t, std::vector<Node*>> by_generation;
  for (const auto& node : nodes_)
    if (!node->dropped) by_generation[node->generation].push_back(node.get());
  for (const auto& [generation, nodes] : by_generation) {
    bool empty = generation + 1 < generations_.size();
    for (Node* node : nodes) {
      if (needed.contains(node)) empty = false;
      else remove_node(*node);
    }
    if (empty && options_.lean) remove_repeated(generation);
  }
  std::erase_if(nodes_, [](const auto& node) { return node->dropped && node->closed; });
  end_moving(still_);
}

// Removes the payload that traces of a generation have received again and again.
void Collector::remove_repeated(uint64_t generation) {
  const Beneath file = kept_once_file(options_.recording, generations_[generation].uuid);
  struct stat about;
  const auto opened = open_beneath(file);
  if (!opened || fstat(opened->get(), &about) != 0) return;
  remove_beneath(file);
  packer_.removed_beside(static_cast<uint64_t>(about.st_size));
}

void Collector::remove_node(Node& node) {
  FRIDAY_LOG(record, info, "node {} {} is removed: it ended before the time that is kept", node.id, node.origin.name);
  if (const auto names = names_beneath(node.directory))
    for (const std::string& name : *names) remove_beneath(node.directory.below(name));
  remove_beneath(node.directory);
  node.dropped = true;
  node.packed = nullptr;
  node.bytes = 0;
}

}  // namespace friday
