#include "core/replay/schedule_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/check.h"
#include "core/base/refusals.h"

namespace friday {

uint64_t ScheduleMemory::node_address(size_t slot) {
  return shim::kScheduleAddress + offsetof(shim::SharedSchedule, nodes) + slot * sizeof(shim::NodeSchedule);
}

bool ScheduleMemory::is_progress(uint64_t address) {
  constexpr uint64_t kLow = shim::kScheduleAddress + offsetof(shim::SharedSchedule, progress);
  return address >= kLow && address < kLow + sizeof(shim::SharedSchedule::progress);
}

namespace {

// The arrays of one node, behind SharedSchedule.
struct Arrays {
  std::vector<shim::Gate> gates;
  std::vector<uint64_t> posts, unchecked;
  std::vector<shim::SentPiece> sent;
  std::vector<shim::ReceivedPiece> received;

  static constexpr uint64_t round(uint64_t bytes) { return (bytes + 7) & ~7ull; }
  uint64_t bytes() const {
    return round(gates.size() * sizeof gates[0]) + posts.size() * sizeof posts[0] +
           unchecked.size() * sizeof unchecked[0] + sent.size() * sizeof sent[0] + received.size() * sizeof received[0];
  }
};

// The node's part of `restoring`, or nothing, with the entries that end the arrays.
void add_pieces(Arrays& arrays, const RestoringTables* restoring, NodeId id) {
  if (restoring) {
    if (auto sent = restoring->sent.find(id); sent != restoring->sent.end()) arrays.sent = sent->second;
    if (auto received = restoring->received.find(id); received != restoring->received.end())
      arrays.received = received->second;
  }
  arrays.sent.push_back({.event = ~0ull, .from = 0, .length = 0, .place = 0, .message = 0, .reserved = 0});
  arrays.received.push_back({.event = ~0ull, .address = 0, .length = 0, .place = 0});
}

}  // namespace

// What nodes exchange may be more than fits into memory; then its file has a disk behind it where that is possible.
Result<void> ScheduleMemory::make_file(const Beneath& directory) {
  const uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (size_ > memory / 4) {
    auto cache = make_directory_beneath(directory);
    if (cache) fd_.reset(::openat(cache->get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  }
  if (!fd_) fd_.reset(memfd_create("friday-schedule", MFD_CLOEXEC));
  if (!fd_) return refused(errno == EMFILE ? Refusal::descriptors : Refusal::memfd, strerror(errno));
  if (const int error = posix_fallocate(fd_.get(), 0, static_cast<off_t>(size_)))
    return fail_errno(error, fmt::format("cannot allocate {} MiB for the schedule of the replay", size_ >> 20));
  return {};
}

Result<std::unique_ptr<ScheduleMemory>> ScheduleMemory::create(const std::vector<NodeGates>& nodes,
                                                               const std::vector<NodeId>& ids,
                                                               const std::map<NodeId, Unchecked>& unchecked,
                                                               const RestoringTables* restoring,
                                                               const Beneath& directory) {
  if (nodes.size() > shim::kMaxNodes)
    return fail(ErrorCode::unsupported,
                "{} nodes are to be replayed, but at most {} can be replayed together; choose "
                "some of them (--node)",
                nodes.size(), shim::kMaxNodes);
  std::unique_ptr<ScheduleMemory> memory(new ScheduleMemory);
  uint64_t size = (sizeof(shim::SharedSchedule) + 63) & ~63ull;
  std::vector<Arrays> arrays(nodes.size());
  for (size_t i = 0; i < nodes.size(); i++) {
    arrays[i].gates = nodes[i].gates, arrays[i].posts = nodes[i].posts;
    add_pieces(arrays[i], restoring, ids[i]);
    const auto known = unchecked.find(ids[i]);
    if (known != unchecked.end()) arrays[i].unchecked = known->second.events;
    memory->unchecked_room_.push_back(arrays[i].unchecked.size() + (known != unchecked.end() ? known->second.room : 0));
    arrays[i].unchecked.resize(memory->unchecked_room_.back());
    size += arrays[i].bytes();
  }
  memory->exchanged_at_ = (size + 4095) & ~4095ull;
  memory->size_ = memory->exchanged_at_ + (restoring ? (restoring->bytes + 4095) & ~4095ull : 0);
  if (memory->size_ > shim::kVdsoAddress - shim::kScheduleAddress)
    return fail(ErrorCode::unsupported, "the schedule of this replay takes {} MiB, more than a process has room for",
                memory->size_ >> 20);
  FRIDAY_TRY_VOID(memory->make_file(directory));
  void* mapped = mmap(nullptr, memory->size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd_.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map the shared memory of the schedule");
  auto* base = static_cast<char*>(mapped);
  memory->shared_ = static_cast<shim::SharedSchedule*>(mapped);
  memory->shared_->size = memory->size_;
  memory->shared_->node_count = nodes.size();
  uint64_t at = (sizeof(shim::SharedSchedule) + 63) & ~63ull;
  const uint64_t exchanged = shim::kScheduleAddress + memory->exchanged_at_;
  for (size_t i = 0; i < nodes.size(); i++) {
    auto place = [&](const auto& array) {
      const uint64_t bytes = array.size() * sizeof array[0];
      memcpy(base + at, array.data(), bytes);
      uint64_t address = shim::kScheduleAddress + at;
      at += Arrays::round(bytes);
      return address;
    };
    for (auto& piece : arrays[i].sent) piece.place += exchanged;
    for (auto& piece : arrays[i].received) piece.place += exchanged;
    const auto known = unchecked.find(ids[i]);
    memory->shared_->nodes[i] = {
        place(arrays[i].gates),     place(arrays[i].posts),
        place(arrays[i].sent),      place(arrays[i].received),
        place(arrays[i].unchecked), known == unchecked.end() ? 0 : known->second.events.size()};
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

std::vector<shim::Progress> ScheduleMemory::progress() const {
  return {shared_->progress, shared_->progress + shared_->node_count};
}

void ScheduleMemory::set_progress(const std::vector<shim::Progress>& progress) {
  std::ranges::copy(progress, shared_->progress);
}

void ScheduleMemory::leave_unchecked(size_t slot, uint64_t event) {
  shim::NodeSchedule& node = shared_->nodes[slot];
  FRIDAY_CHECK(node.unchecked_count < unchecked_room_[slot]);
  auto* events =
      reinterpret_cast<uint64_t*>(reinterpret_cast<char*>(shared_) + (node.unchecked - shim::kScheduleAddress));
  uint64_t at = node.unchecked_count++;
  for (; at > 0 && events[at - 1] > event; at--) events[at] = events[at - 1];
  events[at] = event;
}

uint64_t ScheduleMemory::done(size_t slot) const {
  return __atomic_load_n(&shared_->progress[slot].done, __ATOMIC_ACQUIRE);
}

}  // namespace friday
