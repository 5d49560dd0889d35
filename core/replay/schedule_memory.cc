#include "core/replay/schedule_memory.h"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/refusals.h"

namespace friday {
namespace {

constexpr uint64_t kEnd = ~0ull;

size_t slot_of(const Schedule& order, NodeId node) {
  const auto& nodes = order.nodes();
  return static_cast<size_t>(std::lower_bound(nodes.begin(), nodes.end(), node) - nodes.begin());
}

void finish_lists(std::vector<NodeGates>& all) {
  for (auto& node : all) {
    std::stable_sort(node.gates.begin(), node.gates.end(),
                     [](const auto& a, const auto& b) { return a.event < b.event; });
    std::sort(node.posts.begin(), node.posts.end());
    node.posts.erase(std::unique(node.posts.begin(), node.posts.end()), node.posts.end());
    node.gates.push_back({kEnd, 0, 0, 0});
    node.posts.push_back(kEnd);
  }
}

// The turns of the order with the end of each node as one more event of it, the one behind its last.
std::vector<Turn> turns_with_ends(const Schedule& order, const std::map<NodeId, EndPlace>& ends) {
  std::multimap<uint64_t, NodeId> by_position;
  for (const auto& [node, place] : ends) by_position.emplace(place.position, node);
  std::vector<Turn> turns;
  auto append = [&](NodeId node, uint64_t first, uint64_t count) {
    if (count == 0) return;
    const bool goes_on = !turns.empty() && turns.back().node == node && turns.back().count <= UINT32_MAX - count;
    if (goes_on) turns.back().count += static_cast<uint32_t>(count);
    else turns.push_back({node, static_cast<uint32_t>(count), first});
  };
  auto end = by_position.begin();
  uint64_t position = 0;
  for (const Turn& turn : order.turns()) {
    uint64_t done = 0;
    for (; end != by_position.end() && end->first < position + turn.count; ++end) {
      const uint64_t before = end->first - position;
      append(turn.node, turn.first + done, before - done);
      append(end->second, order.event_count(end->second), 1);
      done = before;
    }
    append(turn.node, turn.first + done, turn.count - done);
    position += turn.count;
  }
  for (; end != by_position.end(); ++end) append(end->second, order.event_count(end->second), 1);
  return turns;
}

}  // namespace

const char* name_of(SyncMode mode) {
  return mode == SyncMode::clock ? "clock" : mode == SyncMode::causal ? "causal" : "free";
}

std::vector<NodeGates> make_gates(const Schedule& order, SyncMode mode, const std::map<NodeId, EndPlace>& ends,
                                  std::span<const HostEdge> host_edges) {
  std::vector<NodeGates> all(order.nodes().size());
  auto wait = [&](size_t waiter, uint64_t event, size_t other, uint64_t done) {
    if (waiter == other) return;
    all[waiter].gates.push_back({event, done, static_cast<uint32_t>(other), 0});
    all[other].posts.push_back(done);
  };
  if (mode == SyncMode::clock) {
    // One baton: each turn begins when the turn before it has come to the entry of its node's next event.
    const std::vector<Turn> turns = turns_with_ends(order, ends);
    for (size_t i = 1; i < turns.size(); i++)
      wait(slot_of(order, turns[i].node), turns[i].first, slot_of(order, turns[i - 1].node),
           turns[i - 1].first + turns[i - 1].count);
  } else {
    // Of a process that its parent waited for the end is meant, which finish() tells.
    const auto behind = [&](const Edge& edge) {
      return edge.kind == EdgeKind::wait ? order.event_count(edge.from) + 1 : edge.from_event + 1;
    };
    // Turns on shared memory are kept in `free` order too: what a node reads there is what another one wrote.
    for (const auto& edge : order.edges())
      if (mode == SyncMode::causal || edge.kind == EdgeKind::turn)
        wait(slot_of(order, edge.to), edge.to_event, slot_of(order, edge.from), behind(edge));
    if (mode == SyncMode::causal)
      for (const HostEdge& edge : host_edges) wait(edge.to, edge.to_event, edge.from, edge.from_event + 1);
  }
  finish_lists(all);
  return all;
}

uint64_t ScheduleMemory::node_address(size_t slot) {
  return shim::kScheduleAddress + offsetof(shim::SharedSchedule, nodes) + slot * sizeof(shim::NodeSchedule);
}

Result<std::unique_ptr<ScheduleMemory>> ScheduleMemory::create(const std::vector<NodeGates>& nodes) {
  if (nodes.size() > shim::kMaxNodes)
    return fail(ErrorCode::unsupported, "{} nodes: at most {} replay together", nodes.size(), shim::kMaxNodes);
  std::unique_ptr<ScheduleMemory> memory(new ScheduleMemory);
  uint64_t size = (sizeof(shim::SharedSchedule) + 63) & ~63ull;
  for (const auto& node : nodes) size += node.gates.size() * sizeof(shim::Gate) + node.posts.size() * sizeof(uint64_t);
  memory->size_ = (size + 4095) & ~4095ull;
  memory->fd_.reset(memfd_create("friday-schedule", MFD_CLOEXEC));
  if (!memory->fd_) return refused(errno == EMFILE ? Refusal::descriptors : Refusal::memfd, strerror(errno));
  if (ftruncate(memory->fd_.get(), static_cast<off_t>(memory->size_)) != 0)
    return fail_errno(errno, "cannot make the schedule's shared memory");
  void* mapped = mmap(nullptr, memory->size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd_.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map the schedule's shared memory");
  auto* base = static_cast<char*>(mapped);
  memory->shared_ = static_cast<shim::SharedSchedule*>(mapped);
  memory->shared_->size = memory->size_;
  memory->shared_->node_count = nodes.size();
  uint64_t at = (sizeof(shim::SharedSchedule) + 63) & ~63ull;
  for (size_t i = 0; i < nodes.size(); i++) {
    auto place = [&](const void* data, size_t bytes) {
      memcpy(base + at, data, bytes);
      uint64_t address = shim::kScheduleAddress + at;
      at += bytes;
      return address;
    };
    memory->shared_->nodes[i].gates = place(nodes[i].gates.data(), nodes[i].gates.size() * sizeof(shim::Gate));
    memory->shared_->nodes[i].posts = place(nodes[i].posts.data(), nodes[i].posts.size() * sizeof(uint64_t));
  }
  return memory;
}

ScheduleMemory::~ScheduleMemory() {
  if (shared_) munmap(shared_, size_);
}

void ScheduleMemory::finish(size_t slot) {
  auto& progress = shared_->progress[slot];
  __atomic_store_n(&progress.done, ~0ull, __ATOMIC_RELEASE);
  __atomic_fetch_add(&progress.futex, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &progress.futex, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

uint64_t ScheduleMemory::done(size_t slot) const {
  return __atomic_load_n(&shared_->progress[slot].done, __ATOMIC_ACQUIRE);
}

}  // namespace friday
