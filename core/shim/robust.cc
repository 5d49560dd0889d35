// Robust mutexes whose owner ends. Each thread has a list of the mutexes that it holds (set_robust_list(2)). When a
// thread ends without releasing them, the kernel sets FUTEX_OWNER_DIED in each mutex's futex word and wakes a waiter.
//
// If a thread or a process ends by a system call of its own, the shim does this in the kernel's place at that call's
// event, and so at the same point of a replay. While recording, the kernel has the lists too, for processes that are
// killed, crash, or execute another program. It then changes words at a moment that no event of the dead process shows,
// in memory that only other processes still map. Therefore:
//
//   - Before a thread lets other processes run (group_lend), it notes the words of the mutexes that it holds in
//     TokenArea::held.
//   - The process that runs compares these words when a turn begins and ends, and at each event. If a word no longer
//     has the owner that was noted, the kernel has changed it, since the owner has not run. The event has the change as
//     a part (OwnerDiedPart).
//   - At replay the word changes with that event; or with the event before, if the program has used the new value by
//     then (kOwnerDiedBefore).
#include <linux/futex.h>

#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr int kLongest = 2048;  // ROBUST_LIST_LIMIT: the kernel follows no more entries of a list

struct RobustList {
  RobustList* next;
};
struct RobustHead {
  RobustList list;
  long futex_offset;
  RobustList* pending;
};

// The lowest bit of an entry's address says that the mutex inherits priority (futex.cc).
RobustList* plain(RobustList* entry) { return (RobustList*)((uint64_t)entry & ~1ull); }

// Calls use(word, pending) for each mutex of the thread's list. `pending`: the thread was about to take or release the
// mutex, so it may be in the list or not.
template <typename Use>
void each_word(const ThreadArea* area, Use&& use) {
  if (!area->robust_list) return;
  probed([&] {
    const RobustHead* head = (const RobustHead*)area->robust_list;
    RobustList* const pending = plain(head->pending);
    RobustList* entry = plain(head->list.next);
    for (int limit = kLongest; (uint64_t)entry != area->robust_list && limit; limit--) {
      RobustList* next = plain(entry->next);
      if (entry != pending) use((uint32_t*)((uint64_t)entry + (uint64_t)head->futex_offset), false);
      entry = next;
    }
    if (pending) use((uint32_t*)((uint64_t)pending + (uint64_t)head->futex_offset), !((uint64_t)head->pending & 1));
  });
}

// What the kernel does for a mutex whose owner ends (handle_futex_death() in kernel/futex/core.c), with recorded thread
// ids.
void give_back(const ThreadArea* area, uint32_t* word, bool pending) {
  uint32_t value = __atomic_load_n(word, __ATOMIC_SEQ_CST);
  const bool wakes = control.mode != kModeReplay;
  // The thread may have been woken for the mutex and have ended before it took it, so another waiter is woken.
  if (pending && !(value & FUTEX_TID_MASK) && wakes) native(sys::futex, word, FUTEX_WAKE, 1, 0, 0, 0);
  do {
    if ((value & FUTEX_TID_MASK) != area->tid) return;
  } while (!futex_word_set(word, &value, (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED));
  if ((value & FUTEX_WAITERS) && wakes) native(sys::futex, word, FUTEX_WAKE, 1, 0, 0, 0);
}

// ---- Where words are: processes may map the same file at different addresses, so a word is known by its place in it.

struct Place {
  uint64_t address;                // 0: not mapped in this process
  uint64_t device, inode, offset;  // inode 0: not shared memory
};
Place places[32];  // a cache of the latest ones
unsigned next_place;

const Place& keep(const Place& place) { return places[next_place++ % (sizeof places / sizeof *places)] = place; }

const Place& place_at(uint64_t address) {
  for (const Place& p : places)
    if (p.address == address) return p;
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if (address >= line.low && address < line.high && line.shared)
      return keep({address, line.device, line.inode, line.offset + address - line.low});
  return keep({address, 0, 0, 0});
}

uint64_t address_of(uint64_t device, uint64_t inode, uint64_t offset) {
  for (const Place& p : places)
    if (p.inode == inode && p.offset == offset && p.device == device) return p.address;
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if (line.shared && line.inode == inode && line.device == device && offset >= line.offset &&
        offset < line.offset + (line.high - line.low))
      return keep({line.low + offset - line.offset, device, inode, offset}).address;
  return keep({0, device, inode, offset}).address;
}

// ---- The mutexes that processes hold (TokenArea::held)

TokenArea* const tokens = (TokenArea*)kTokensAddress;

void drop(HeldWord& held) {
  __atomic_store_n(&held.owner, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&held.member, 0, __ATOMIC_SEQ_CST);
  __atomic_sub_fetch(&tokens->held_words, 1, __ATOMIC_SEQ_CST);
}

// False: there is no room. If the owner is killed then, a replay reports a divergence.
bool note_held(const ThreadArea* area, const Place& place) {
  for (uint32_t i = 0; i < kMaxHeldWords; i++) {
    HeldWord& held = tokens->held[i];
    uint32_t nobody = 0;
    if (held.member ||
        !__atomic_compare_exchange_n(&held.member, &nobody, group_member(), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    held.device = place.device, held.inode = place.inode, held.offset = place.offset, held.address = place.address;
    __atomic_add_fetch(&tokens->held_words, 1, __ATOMIC_SEQ_CST);
    for (uint32_t top = tokens->held_top;
         top <= i &&
         !__atomic_compare_exchange_n(&tokens->held_top, &top, i + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);) {}
    __atomic_store_n(&held.owner, area->tid, __ATOMIC_SEQ_CST);
    return true;
  }
  return false;
}

// Words that the kernel has changed, which the next event will have as parts.
struct Change {
  uint64_t address;
  OwnerDiedPart part;
} changes[16];
unsigned change_count;

void note_change(uint64_t address, uint32_t value, uint32_t flags) {
  if (change_count < sizeof changes / sizeof *changes) changes[change_count++] = {address, {value, flags}};
}

}  // namespace

void robust_thread_ends(ThreadArea* area) {
  each_word(area, [&](uint32_t* word, bool pending) { give_back(area, word, pending); });
}

void robust_publish(ThreadArea* area) {
  if (control.mode != kModeRecord || area->borrowed || (!area->robust_list && !area->held_words)) return;
  uint64_t words[8];
  unsigned count = 0;
  each_word(area, [&](uint32_t* word, bool) {
    if (count < sizeof words / sizeof *words && (*word & FUTEX_TID_MASK) == area->tid) words[count++] = (uint64_t)word;
  });
  if (!count && !area->held_words) return;
  for (uint32_t i = 0; i < tokens->held_top && area->held_words; i++) {
    HeldWord& held = tokens->held[i];
    if (held.member != group_member() || held.owner != area->tid) continue;
    unsigned n = 0;
    while (n < count && words[n] != held.address) n++;
    if (n < count) words[n] = words[--count];
    else drop(held), area->held_words--;
  }
  for (unsigned n = 0; n < count; n++) {
    const Place& place = place_at(words[n]);
    if (place.inode && note_held(area, place)) area->held_words++;
  }
}

void robust_look(Look when) {
  if (!__atomic_load_n(&tokens->held_words, __ATOMIC_RELAXED)) return;
  for (uint32_t i = 0; i < tokens->held_top; i++) {
    HeldWord& held = tokens->held[i];
    const uint32_t owner = __atomic_load_n(&held.owner, __ATOMIC_SEQ_CST);
    if (!owner || held.member == group_member()) continue;
    const uint64_t address = address_of(held.device, held.inode, held.offset);
    uint32_t value = owner;
    if (!address || !probed([&] { value = *(const volatile uint32_t*)address; }) || (value & FUTEX_TID_MASK) == owner)
      continue;
    const bool untouched = (value & FUTEX_OWNER_DIED) && !(value & FUTEX_TID_MASK);
    if (untouched && when != Look::at_event)
      continue;  // this process may have no further event; the next event of any member reports the change
    // Otherwise another thread has taken the mutex since. If this turn only begins, that was a process that was killed
    // before it noted what it holds; else it was this process, which has used the new value already.
    if (untouched || when == Look::turn_begins) note_change(address, value, 0);
    else note_change(address, (value & FUTEX_WAITERS) | FUTEX_OWNER_DIED, kOwnerDiedBefore);
    drop(held);
  }
}

void robust_woken(uint64_t address) {
  uint32_t value = 0;
  if (!probed([&] { value = *(const volatile uint32_t*)address; }) || !(value & FUTEX_OWNER_DIED) ||
      (value & FUTEX_TID_MASK))
    return;
  robust_look(Look::at_event);
  for (unsigned n = 0; n < change_count; n++)
    if (changes[n].address == address) return;
  note_change(address, value, 0);
}

void robust_attach(EventWriter& writer) {
  if (group_held()) robust_look(Look::at_event);  // not for a release that is written after other processes have run
  for (unsigned n = 0; n < change_count; n++) {
    writer.part(kOwnerDiedWord, &changes[n].part, sizeof changes[n].part, changes[n].address);
    writer.event->header.flags |= kFlagOwnerDied;
  }
  change_count = 0;
}

static void forget(uint64_t address, uint64_t length) {
  for (Place& p : places)
    if (p.address - address < length) p = {};
}

void robust_mapping_call(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::mmap:
    case sys::munmap: return forget(a[0], a[1]);
    case sys::mremap: forget(a[0], a[1]); return forget(a[4], a[2]);
    case sys::shmat:
    case sys::shmdt: return forget(1, ~0ull);
  }
}

void robust_mapped() { forget(0, 1); }

void robust_forked(ThreadArea* area) {
  area->robust_list = 0;
  area->held_words = 0;
  change_count = 0;
}

void robust_member_leaves() {
  for (uint32_t i = 0; i < tokens->held_top; i++)
    if (tokens->held[i].member == group_member()) drop(tokens->held[i]);
}

void robust_apply(const EventRecord* event, bool before) {
  PartHeader header;
  if (!(event->header.flags & kFlagOwnerDied)) return;
  for (unsigned n = 0; const OwnerDiedPart* part = (const OwnerDiedPart*)replay_part(event, kOwnerDiedWord, n, &header);
       n++)
    if ((part->flags & kOwnerDiedBefore ? true : false) == before)
      friday_copy_out((void*)header.address, &part->value, 4);
}

}  // namespace friday::shim
