// Token groups: of the processes that can write to the same memory one runs at a time, like the threads of a process. A
// process becomes a member of a group when it shares memory (shared.cc), and groups whose processes come to share
// something are joined. Groups, members and shared objects are in a file that all recorded processes map (TokenArea in
// shim_abi.h). token_protocol.h has the protocol by which they hand the token over.
//
// The thread that has its process's token takes the group's token too (group_enter) before it runs the program's code,
// and lends the group's token (group_lend) before it lends the process's. Any member may take a lent token. Each
// process writes to its own trace: that it begins a turn (TurnRecord), and the release event of a call in which it lost
// the token. It writes the latter when it comes back and finds the token taken, before the record of its new turn. From
// these the order of the turns follows, and with it the order of all events of the processes (match_turns in
// core/trace/matching.cc).
//
// A process may be killed at any moment. So waiters check now and then whether the holder still runs.
#include <asm/poll.h>
#include <linux/futex.h>
#include <linux/mman.h>

#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/token_protocol.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

uint32_t group_self;

namespace {

KeptThread* kept;  // this process's entry of TokenArea::kept, while it has one

TokenArea* const tokens = (TokenArea*)kTokensAddress;
bool mapped;            // the TokenArea is
uint32_t group;         // the group whose token this process had last
ThreadArea* lends_for;  // while the token is lent for a call: the thread that makes it

void note_turn(uint32_t of, uint64_t number, uint32_t flags) {
  TurnRecord* record = (TurnRecord*)record_begin(kTurnRecord, sizeof(TurnRecord));
  record->event = trace_header()->events;
  record->turn = number;
  record->ticks = ticks_now();
  record->group = of;
  record->flags = flags;
  record_commit(record);
}

// The System of the protocol (token_protocol.h) in a recorded process.
struct Shim {
  uint32_t self() const { return group_self; }
  uint32_t& group() { return shim::group; }
  TokenGroup& at(uint32_t number) { return tokens->group[number]; }
  TokenMember& member(uint32_t number) { return tokens->member[number]; }
  uint32_t& area_guard() { return tokens->guard; }

  template <typename T>
  T load(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
  }
  template <typename T>
  void store(T& word, T value) {
    __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
  }
  template <typename T>
  T get(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_RELAXED);
  }
  template <typename T>
  void put(T& word, T value) {
    __atomic_store_n(&word, value, __ATOMIC_RELAXED);
  }
  bool swap(uint32_t& word, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(&word, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  uint32_t exchange(uint32_t& word, uint32_t value) { return __atomic_exchange_n(&word, value, __ATOMIC_SEQ_CST); }
  void add(uint32_t& word, int more) { __atomic_add_fetch(&word, (uint32_t)more, __ATOMIC_SEQ_CST); }

  // A guard is held for a few instructions only, but a process may be killed between any two of them.
  bool lock(uint32_t& guard) {
    for (unsigned tries = 1;; tries++) {
      if (swap(guard, 0, group_self)) return false;
      for (int i = 0; i < 100 && get(guard); i++) asm volatile("pause");
      const uint32_t owner = get(guard);
      if (owner) native(sys::sched_yield);
      if (owner && tries % 1024 == 0 && has_ended(owner) && swap(guard, owner, group_self)) return true;
    }
  }
  void unlock(uint32_t& guard) { __atomic_store_n(&guard, 0, __ATOMIC_RELEASE); }

  // A zombie has ended.
  bool has_ended(uint32_t number) {
    const TokenMember& m = member(number);
    if (m.pid_namespace != member(group_self).pid_namespace) return false;  // its pid means nothing here
    const long fd = native(sys::pidfd_open, m.pid, 0);
    if (fd == -ESRCH) return true;
    if (failed(fd)) return false;
    struct {
      int fd;
      short events, revents;
    } ended = {(int)fd, POLLIN, 0};
    const bool gone = native(sys::poll, &ended, 1, 0) == 1;
    native(sys::close, fd);
    return gone;
  }

  void sleep(uint32_t& go, unsigned looks, uint32_t place) {
    const long timeout[2] = {0, pause_of_looks(looks, place)};
    native(sys::futex, &go, FUTEX_WAIT, 0, timeout, 0, 0);
  }
  void wake(uint32_t& go) { native(sys::futex, &go, FUTEX_WAKE, 1, 0, 0, 0); }
  void let_holder_run(const TokenGroup& g, const TokenMember& m) {
    shim::let_holder_run({g.state, ~GroupToken<Shim>::kWho, GroupToken<Shim>::kHeld, g.since, g.processor, m.go});
  }
  void poke(uint32_t holder, unsigned looks) {
    const TokenMember& m = member(holder);
    if (m.tid) spin_poke(m.pid, m.tid, looks);
  }
  unsigned more_looks(unsigned looks) { return looks + 1; }
  uint64_t now() { return ticks_now(); }
  uint32_t processor() { return own_processor(); }
  bool lasted(uint64_t since) { return turn_lasted(since); }

  bool hands_over() {
    if (lends_for) log_release(lends_for);
    return group_self != 0;  // the recording may have ended meanwhile, because there was no room for the record
  }
  void note_join(uint32_t other, uint64_t turn) { note_turn(other, turn, kJoins); }
  template <typename... Values>
  void looks_anew(Values...) {}
};

GroupToken<Shim> token{Shim{}};

// Waits for the token of this process's group, which may have been joined with another one meanwhile.
void acquire() {
  const bool holder_died = token.acquire();
  note_turn(group, tokens->group[group].turn, holder_died ? (uint32_t)kHolderDied : 0);
  robust_look(Look::turn_begins);
}

uint64_t own_pid_namespace() {
  uint64_t about[18] = {};  // struct stat
  native(sys::stat, "/proc/self/ns/pid", about);
  return about[1];
}

bool become_member() {
  uint32_t number = __atomic_add_fetch(&tokens->members, 1, __ATOMIC_SEQ_CST);
  if (number >= kMaxMembers) {
    trace_end(kEndRefused, 0, "more than 1,048,575 processes share memory");
    return false;
  }
  group_self = number;
  TokenMember& self = tokens->member[number];
  self.pid = (uint32_t)native(sys::getpid);
  self.tid = me()->kernel_tid;
  self.pid_namespace = own_pid_namespace();
  return true;
}

// Makes a group with this process as its only member, which holds its token. The area's guard is held. False: there is
// no room.
bool new_group() {
  const uint32_t number = ++tokens->groups;
  if (number >= kMaxGroups) return false;
  token.begin(number);
  return true;
}

}  // namespace

bool group_attach(int fd) {
  limits_count(sizeof(TokenArea));
  mapped = native(sys::mmap, kTokensAddress, sizeof(TokenArea), 3, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd,
                  0) == (long)kTokensAddress;
  return mapped;
}

bool group_held() { return group_self && token.held(); }

bool group_wanted() { return group_self && token.wanted(); }

bool group_overdue() { return group_wanted() && turn_lasted(tokens->group[group].since); }

void group_lend(ThreadArea* in_call, bool quick) {
  if (!group_self) return;
  robust_publish(me());
  robust_look(Look::turn_ends);
  lends_for = in_call;
  token.lend(quick);
}

bool group_enter(ThreadArea* area, ThreadArea* in_call) {
  if (!group_self || control.mode != kModeRecord) return true;
  tokens->member[group_self].tid = area->kernel_tid;
  if (token.take_back()) return true;
  if (in_call && !in_call->call_logged) log_release(in_call);
  if (group_self) acquire();
  return false;
}

void group_pauses(ThreadArea* area) {
  area->call_logged = 0;
  group_lend(area, false);
}

bool group_kept() { return token.take_back(); }

void group_goes_on(ThreadArea* area, bool kept) {
  if (!group_self || control.mode != kModeRecord) return;
  trace_header()->features |= kFeatureSharedMemory;
  tokens->member[group_self].tid = area->kernel_tid;
  if (!kept) return acquire();
  token.next_turn();
  note_turn(group, tokens->group[group].turn, 0);
}

void group_is_left() { group_self = group = 0; }

void group_spare(const ThreadArea* area, bool on) {
  if (!group_self) return;
  TokenGroup& g = tokens->group[group];
  token.lock(g);
  tokens->member[group_self].tid = on ? 0 : area->kernel_tid;
  token.system().unlock(g.guard);
}

void group_leave() {
  if (!group_self) return;
  robust_member_leaves();
  if (token.held()) group_lend(nullptr, false);
  group_is_left();
}

void group_forget() {
  group_self = 0;
  if (mapped) native(sys::munmap, kTokensAddress, sizeof(TokenArea));
  mapped = false;
}

void group_note_kept(uint32_t tid, uint32_t looks) {
  const uint32_t pid = (uint32_t)native(sys::getpid);
  if (kept && kept->pid != pid) kept = nullptr;  // this is a forked child, and the entry is its parent's
  for (uint32_t n = 0; mapped && !kept && looks && n < kMaxKept; n++) {
    uint32_t nobody = 0;
    if (!__atomic_compare_exchange_n(&tokens->kept[n].pid, &nobody, pid, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    kept = &tokens->kept[n];
    kept->pid_namespace = own_pid_namespace();
  }
  if (!kept) return;
  kept->tid = tid;
  __atomic_store_n(&kept->looks, looks, __ATOMIC_RELEASE);
  if (looks) return;
  __atomic_store_n(&kept->pid, 0, __ATOMIC_RELEASE);
  kept = nullptr;
}

bool group_forked() { return !group_self || become_member(); }

uint32_t group_object(uint64_t device, uint64_t inode) {
  if (!mapped) return 0;
  for (uint32_t n = __atomic_load_n(&tokens->objects, __ATOMIC_SEQ_CST); n; n--)
    if (tokens->object[n].inode == inode && tokens->object[n].device == device) return n;
  return 0;
}

uint32_t group_files() { return mapped ? __atomic_load_n(&tokens->files, __ATOMIC_SEQ_CST) : 0; }

static bool can_share() {
  if (!mapped || (!group_self && !become_member())) return false;
  trace_header()->features |= kFeatureSharedMemory;
  return true;
}

static void note_first_turn() { note_turn(group, tokens->group[group].turn, 0); }

bool group_share_inherited() {
  if (!can_share()) return false;
  if (group) return true;
  token.system().lock(tokens->guard);
  const bool made = new_group();
  token.system().unlock(tokens->guard);
  if (made) note_first_turn();
  return made;
}

// Numbers an object, of the group of this process or, if that has none yet, of one of its own. The area's guard is
// held. 0: there is no room.
static uint32_t new_object(uint64_t device, uint64_t inode, uint32_t cut) {
  if ((!group && !new_group()) || tokens->objects + 1 >= kMaxObjects) return 0;
  const uint32_t number = tokens->objects + 1;
  tokens->object[number] = {device, inode, group, cut, 0, 0, 0, 0};
  if (device != kSegmentDevice) tokens->files++;
  __atomic_store_n(&tokens->objects, number, __ATOMIC_SEQ_CST);
  return number;
}

uint32_t group_share(uint64_t device, uint64_t inode, bool* fresh) {
  *fresh = false;
  if (!can_share()) return 0;
  token.system().lock(tokens->guard);
  const bool alone = !group;
  uint32_t number = group_object(device, inode);
  const bool made = !number;
  if (number && alone) group = token.root(tokens->object[number].group);
  if (made) number = new_object(device, inode, 0);
  token.system().unlock(tokens->guard);
  if (!number) return 0;
  if (!alone) {
    if (token.join(tokens->object[number].group)) acquire();
  } else if (made) {
    note_first_turn();
  } else {
    acquire();
  }
  *fresh = !tokens->object[number].shown;
  tokens->object[number].shown = 1;
  return number;
}

bool group_begins(uint64_t device, uint64_t inode, uint32_t cut) {
  if (!can_share()) return false;
  token.system().lock(tokens->guard);
  const bool alone = !group;
  uint32_t number = group_object(device, inode);
  if (SharedObject& o = tokens->object[number]; number && o.cut != cut) {
    o.cut = cut;
    o.shown = 0;
    o.low = o.high = 0;
  }
  if (!number) number = new_object(device, inode, cut);
  const bool first = alone && group;
  token.system().unlock(tokens->guard);
  if (first) note_first_turn();
  return number != 0;
}

bool group_lacks(uint32_t object, uint64_t low, uint64_t high) {
  const SharedObject& o = tokens->object[object];
  return low < o.low || high > o.high;
}

void group_has_written(uint32_t object, uint64_t low, uint64_t high) {
  SharedObject& o = tokens->object[object];
  if (o.low == o.high) o.low = low, o.high = high;
  else if (low <= o.high && o.low <= high) o.low = min(o.low, low), o.high = o.high > high ? o.high : high;
}

bool group_has(uint32_t object) { return group && token.root(tokens->object[object].group) == token.root(group); }

bool group_join(uint32_t object) {
  bool fresh;
  return group_share(tokens->object[object].device, tokens->object[object].inode, &fresh) != 0;
}

}  // namespace friday::shim
