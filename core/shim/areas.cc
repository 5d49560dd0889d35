// The areas of the threads: each has a ThreadArea and two stacks. The area of a thread that has ended is used again, so
// a process that makes threads all its life needs no more memory and mappings than for those that it has at a time.
// Their numbers are not used again, because in a trace a number names one thread.
#include <linux/mman.h>

#include "core/shim/process.h"

namespace friday::shim {

uint16_t slots[kNumberedSlots];

namespace {

// Of an area that nobody uses, only the first page stays mapped.
constexpr uint64_t kAreaKept = 0x1000;
static_assert(sizeof(ThreadArea) <= kAreaKept);
constexpr uint32_t kNoNumber = ~0u;  // the core names a thread so of which it does not know the number yet
constexpr int kMostLooks = 4;        // at areas whose threads may not have left them yet

uint32_t next_number;
bool was_forked;
AreaQueue unused;  // those whose threads have ended or are about to
// Spin lock of these and of Control::area_count. After the end of the recording several threads may be created at once.
uint32_t guard;

class Guarded {
 public:
  Guarded() {
    while (__atomic_exchange_n(&guard, 1, __ATOMIC_ACQUIRE)) native(sys::sched_yield);
  }
  ~Guarded() { __atomic_store_n(&guard, 0, __ATOMIC_RELEASE); }
  Guarded(const Guarded&) = delete;
};

// An area that has been used before and that no thread uses any more; null: there is none.
ThreadArea* unused_area() {
  for (int looks = 0; looks < kMostLooks && unused.first; looks++) {
    ThreadArea* area = unused.front();
    unused.remove(area, nullptr);
    if (!__atomic_load_n(&area->in_use, __ATOMIC_ACQUIRE)) return area;
    unused.put(area);
  }
  return nullptr;
}

// Maps what is missing of the area. `anew`: it has never been used.
bool map_area(ThreadArea* area, bool anew) {
  const uint64_t low = (uint64_t)area + (anew ? 0 : kAreaKept), size = (uint64_t)area + kAreaSize - low;
  const bool counted = !anew && area->has_stacks;
  if (!counted) limits_count((long)size);
  // A fork may have copied the stacks of a thread that was about to unmap them, or an area that was about to be
  // counted.
  const int fixed = anew && !was_forked ? MAP_FIXED_NOREPLACE : MAP_FIXED;
  if (native(sys::mmap, low, size, 3, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0) == (long)low) return true;
  if (!counted) limits_count(-(long)size);
  return false;
}

ThreadArea* create(uint32_t number) {
  ThreadArea* area = unused_area();
  const bool anew = !area;
  const uint32_t slot = anew ? (uint32_t)control.area_count : area->slot;
  if (slot >= kMaxThreads) return nullptr;
  if (anew) area = area_at(slot);
  if (!map_area(area, anew)) {
    if (!anew) unused.put(area);
    return nullptr;
  }
  if (!anew) memset(area, 0, kAreaKept);
  area->self = area;
  area->slot = slot;
  if (anew) control.area_count = slot + 1;
  area->number = number;
  area->in_use = area->has_stacks = 1;
  // The area: ThreadArea, what vfork.cc and held.cc keep, signal stack, and the stack for calls, down from the end.
  area->stack_top = (uint64_t)area + kAreaSize;
  slots[number % kNumberedSlots] = (uint16_t)slot;
  return area;
}

// Whether `slots` has another thread under this number.
bool is_taken(uint32_t number) {
  const ThreadArea* other = area_of(number);
  return other->in_use && other->number % kNumberedSlots == number % kNumberedSlots;
}

}  // namespace

ThreadArea* area_create(uint32_t number) {
  const Guarded guarded;
  return create(number);
}

ThreadArea* area_create_next() {
  const Guarded guarded;
  if (!next_number) next_number = 1;  // that of the first thread is 0
  uint32_t number = next_number;
  while (number != kNoNumber && is_taken(number)) number++;
  ThreadArea* area = number == kNoNumber ? nullptr : create(number);
  if (area) next_number = number + 1;
  return area;
}

void area_not_used(ThreadArea* area) {
  const Guarded guarded;
  area->alive = area->in_use = 0;
  if (next_number == area->number + 1) next_number--;
  unused.put(area);
}

void area_ends(ThreadArea* area) {
  area->alive = 0;
  const Guarded guarded;
  unused.put(area);
}

void area_leave(ThreadArea* area, int code) {
  constexpr uint64_t kSize = kAreaSize - kAreaKept;
  limits_count(-(long)kSize);
  area->has_stacks = 0;
  friday_exit_thread((uint64_t)area + kAreaKept, kSize, (uint64_t)code);
}

ThreadArea* living_thread(uint32_t tid) {
  for (uint32_t slot = 0; slot < control.area_count; slot++) {
    ThreadArea* area = area_at(slot);
    if (area->alive && area->tid == tid) return area;
  }
  return nullptr;
}

void areas_forked(const ThreadArea* only) {
  was_forked = true;
  guard = 0;
  unused = {};
  for (uint32_t slot = 0; slot < control.area_count; slot++) {
    ThreadArea* area = area_at(slot);
    area->self = area, area->slot = slot;  // another thread may have been creating it
    if (area == only) continue;
    area->alive = area->in_use = 0;
    unused.put(area);
  }
}

}  // namespace friday::shim
