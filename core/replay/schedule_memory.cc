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

uint64_t ScheduleMemory::node_address(size_t slot) {
  return shim::kScheduleAddress + offsetof(shim::SharedSchedule, nodes) + slot * sizeof(shim::NodeSchedule);
}

bool ScheduleMemory::is_progress(uint64_t address) {
  constexpr uint64_t kLow = shim::kScheduleAddress + offsetof(shim::SharedSchedule, progress);
  return address >= kLow && address < kLow + sizeof(shim::SharedSchedule::progress);
}

Result<std::unique_ptr<ScheduleMemory>> ScheduleMemory::create(const std::vector<NodeGates>& nodes) {
  if (nodes.size() > shim::kMaxNodes)
    return fail(ErrorCode::unsupported,
                "{} nodes are to be replayed, but at most {} can be replayed together; choose "
                "some of them (--node)",
                nodes.size(), shim::kMaxNodes);
  std::unique_ptr<ScheduleMemory> memory(new ScheduleMemory);
  uint64_t size = (sizeof(shim::SharedSchedule) + 63) & ~63ull;
  for (const auto& node : nodes) size += node.gates.size() * sizeof(shim::Gate) + node.posts.size() * sizeof(uint64_t);
  memory->size_ = (size + 4095) & ~4095ull;
  memory->fd_.reset(memfd_create("friday-schedule", MFD_CLOEXEC));
  if (!memory->fd_) return refused(errno == EMFILE ? Refusal::descriptors : Refusal::memfd, strerror(errno));
  if (ftruncate(memory->fd_.get(), static_cast<off_t>(memory->size_)) != 0)
    return fail_errno(errno, "cannot allocate the shared memory of the schedule");
  void* mapped = mmap(nullptr, memory->size_, PROT_READ | PROT_WRITE, MAP_SHARED, memory->fd_.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map the shared memory of the schedule");
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

std::vector<shim::Progress> ScheduleMemory::progress() const {
  return {shared_->progress, shared_->progress + shared_->node_count};
}

void ScheduleMemory::set_progress(const std::vector<shim::Progress>& progress) {
  std::ranges::copy(progress, shared_->progress);
}

uint64_t ScheduleMemory::done(size_t slot) const {
  return __atomic_load_n(&shared_->progress[slot].done, __ATOMIC_ACQUIRE);
}

}  // namespace friday
