// The second half of the token: of the processes that can write to the same memory one runs at a time, as one thread of a
// process does. Which processes those are is decided when memory is shared (shared.cc): each such process is a member of a
// group, and groups that come to share something are joined. Groups, members and the list of what is shared lie in a file
// that all recorded processes map (shim_abi.h TokenArea).
//
// The thread that has its process's token takes the group's (group_enter) before the program's code runs, and lends it
// (group_lend) before its process's goes. A lent token is there for the taking. What is logged, each in the process's own
// trace: that the process begins a turn (TurnRecord), and the entry of a call in which the token was lost; a process that
// finds its token taken logs that itself when it comes back, and in its trace it stands before the new turn. That makes the
// order of the turns, and with it that of all events between the processes, known (core/trace/matching.cc, match_turns).
//
// A process may be killed at any moment. Who waits looks now and then whether the holder lives.
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

uint32_t group_self;

namespace {

constexpr uint32_t kFree = 0, kHeld = 1u << 30, kLent = 2u << 30, kWho = kHeld - 1;
constexpr int kWait = 0, kWake = 1;  // futex operations, between processes

TokenArea* const tokens = (TokenArea*)kTokensAddress;
bool mapped;
uint32_t own_pid;
uint32_t group;  // whose token it had last

TokenMember& self() { return tokens->member[group_self]; }

template <typename T>
T look(const T& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }

bool move(TokenGroup& g, uint32_t from, uint32_t to) {
  return __atomic_compare_exchange_n(&g.state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

// Ended, or about to: a zombie counts as ended.
bool has_ended(uint32_t pid) {
  const long fd = native(434 /* pidfd_open */, pid, 0);
  if (fd == -3 /* ESRCH */) return true;
  if (failed(fd)) return false;
  struct { int fd; short events, revents; } ended = {(int)fd, 1 /* POLLIN */, 0};
  const bool gone = native(7, &ended, 1, 0) == 1;
  native(3, fd);
  return gone;
}

bool has_ended(const TokenMember& m) { return m.pid_namespace == self().pid_namespace && has_ended(m.pid); }

// Locks are held for some instructions, but a process may be killed between any two.
void lock(uint32_t* guard) {
  for (unsigned tries = 1;; tries++) {
    uint32_t owner = 0;
    if (__atomic_compare_exchange_n(guard, &owner, own_pid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
    for (int i = 0; i < 100 && __atomic_load_n(guard, __ATOMIC_RELAXED); i++) asm volatile("pause");
    if (__atomic_load_n(guard, __ATOMIC_RELAXED)) native(24 /* sched_yield */);
    if (tries % 1024 == 0 && has_ended(owner)) __atomic_compare_exchange_n(guard, &owner, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
}
void unlock(uint32_t* guard) { __atomic_store_n(guard, 0, __ATOMIC_RELEASE); }

uint32_t root(uint32_t g) {
  while (uint32_t next = look(tokens->group[g].forward)) g = next;
  return g;
}

// ---- The queue of a group; its guard is held

void enqueue(TokenGroup& g) {
  self().next = 0;
  if (g.last) tokens->member[g.last].next = group_self;
  else g.first = group_self;
  g.last = group_self;
  g.waiting++;
}

void leave_queue(TokenGroup& g) {
  for (uint32_t at = g.first, before = 0; at; before = at, at = tokens->member[at].next) {
    if (at != group_self) continue;
    if (before) tokens->member[before].next = self().next;
    else g.first = self().next;
    if (g.last == group_self) g.last = before;
    g.waiting--;
    end_patience(&self().patient, &g.patient);
    return;
  }
}

// A turn of who has just become the holder.
void count_turn(TokenGroup& g) {
  g.turn++;
  g.since = ticks_now();
}

void begin_turn(TokenGroup& g, uint32_t member) {
  g.processor = kNowhere;
  __atomic_store_n(&g.state, kHeld | member, __ATOMIC_SEQ_CST);
  count_turn(g);
}

// Gives the token, which is ours, to the member that has waited longest. Takes the guard back.
void pass_on(TokenGroup& g) {
  const uint32_t next = g.first;
  TokenMember& m = tokens->member[next];
  g.first = m.next;
  if (!g.first) g.last = 0;
  g.waiting--;
  end_patience(&m.patient, &g.patient);
  begin_turn(g, next);
  unlock(&g.guard);
  __atomic_store_n(&m.go, 1, __ATOMIC_RELEASE);
  native(202, &m.go, kWake, 1, 0, 0, 0);
}

void note_turn(uint32_t flags) {
  TurnRecord* record = (TurnRecord*)record_begin(kTurnRecord, sizeof(TurnRecord));
  record->event = trace_header()->events;
  record->turn = tokens->group[group].turn;
  record->ticks = ticks_now();
  record->group = group;
  record->flags = flags;
  record_commit(record);
}

// Waits for the token of this process's group, whichever that is by then.
void acquire() {
  TokenMember& m = self();
  uint32_t queued_in = 0, flags = 0, seen = 0;
  uint64_t seen_turn = 0;
  TokenGroup* patient_in = nullptr;
  unsigned unmoved = 0;  // looks at which nothing had happened
  for (;;) {
    if (patient_in) end_patience(&m.patient, &patient_in->patient);
    patient_in = nullptr;
    __atomic_store_n(&m.go, 0, __ATOMIC_SEQ_CST);
    group = root(group);
    TokenGroup& g = tokens->group[group];
    lock(&g.guard);
    if (look(g.forward)) {  // joined with another one meanwhile
      unlock(&g.guard);
      continue;
    }
    const uint32_t now = look(g.state);
    if (now == (kHeld | group_self)) break;  // handed to us
    // Its owner takes a lent token back without the guard.
    bool taken = (now & ~kWho) != kHeld && move(g, now, kHeld | group_self);
    // Less and less often: a process that computes is only slowed by being looked at.
    unmoved = now == seen && g.turn == seen_turn ? unmoved + 1 : 0;
    seen = now;
    seen_turn = g.turn;
    const bool ask = unmoved && (unmoved & (unmoved - 1)) == 0;
    if (!taken && ask && (now & ~kWho) == kHeld && has_ended(tokens->member[now & kWho]))
      taken = move(g, now, kHeld | group_self), flags = taken ? (uint32_t)kHolderDied : 0;
    if (taken) {
      if (queued_in == group) leave_queue(g);
      count_turn(g);
      break;
    }
    if (queued_in != group) {
      enqueue(g);
      queued_in = group;
      patient_in = &g;
      begin_patience(&m.patient, &g.patient);
      unlock(&g.guard);
      seen = 0;
      let_holder_run({g.state, ~kWho, kHeld, g.since, g.processor, m.go});
      continue;  // look once more: the holder may have lent before it saw us wait
    }
    const TokenMember& holder = tokens->member[now & kWho];
    if (ask && (now & ~kWho) == kHeld && holder.tid) spin_poke(holder.pid, holder.tid, unmoved);
    unlock(&g.guard);
    long timeout[2] = {0, unmoved < 2 ? kTurnNs / 2 : kTurnNs};
    native(202, &m.go, kWait, 0, timeout, 0, 0);
  }
  TokenGroup& ours = tokens->group[group];
  ours.processor = own_processor();
  unlock(&ours.guard);
  note_turn(flags);
  robust_look(Look::turn_begins);
}

bool become_member() {
  uint32_t number = __atomic_add_fetch(&tokens->members, 1, __ATOMIC_SEQ_CST);
  if (number >= kMaxMembers) {
    trace_end(kEndRefused, 0, "more than 1,048,575 processes share memory");
    return false;
  }
  group_self = number;
  uint64_t about[18] = {};  // struct stat
  native(4, "/proc/self/ns/pid", about);
  self().pid = own_pid;
  self().tid = me()->kernel_tid;
  self().pid_namespace = about[1];
  return true;
}

// A group of which this process is the only member, holding its token.
uint32_t new_group() {
  const uint32_t number = ++tokens->groups;
  if (number >= kMaxGroups) return 0;
  begin_turn(tokens->group[number], group_self);
  return number;
}

// The process has the token of `group`, and now shares something with those of `other`. The one with the higher number goes
// into the other; it is waited for only while holding a lower one, so nobody waits in a circle.
void join(uint32_t other) {
  other = root(other);
  if (other == group) return;
  const uint32_t low = min(group, other), high = group + other - low, had = group;
  if (high != had) {
    group = high;
    acquire();
    if (group == had) return;  // joined by its holder meanwhile
    tokens->group[had].turn++;  // goes on in the lower one, in a turn that begins here
  }
  TokenGroup& g = tokens->group[high];
  lock(&g.guard);
  __atomic_store_n(&g.forward, low, __ATOMIC_SEQ_CST);
  g.first = g.last = g.waiting = 0;  // they look by themselves
  unlock(&g.guard);
  group = low;
  if (high == had) acquire();
  else note_turn(0);
}

}  // namespace

bool group_attach(int fd) {
  own_pid = (uint32_t)native(39);
  limits_count(sizeof(TokenArea));
  mapped = native(9, kTokensAddress, sizeof(TokenArea), 3, 0x104001 /* SHARED|NORESERVE|FIXED_NOREPLACE */, fd, 0) == (long)kTokensAddress;
  return mapped;
}

bool group_held() { return group_self && look(tokens->group[group].state) == (kHeld | group_self); }

bool group_wanted() { return group_self && __atomic_load_n(&tokens->group[group].waiting, __ATOMIC_RELAXED); }

bool group_overdue() { return group_wanted() && turn_lasted(tokens->group[group].since); }

void group_lend(ThreadArea* in_call, bool quick) {
  if (!group_self) return;
  robust_publish(me());
  robust_look(Look::turn_ends);
  TokenGroup& g = tokens->group[group];
  if (look(g.waiting)) g.processor = own_processor();
  __atomic_store_n(&g.state, kLent | group_self, __ATOMIC_SEQ_CST);
  quick = quick || look(g.patient) >= look(g.waiting);
  if (!look(g.waiting) || (quick && !turn_lasted(g.since)) || !move(g, kLent | group_self, kHeld | group_self)) return;
  if (in_call) log_release(in_call);
  if (!group_self) return;  // the recording ended for want of room
  lock(&g.guard);
  if (g.waiting) return pass_on(g);
  __atomic_store_n(&g.state, kLent | group_self, __ATOMIC_SEQ_CST);
  unlock(&g.guard);
}

bool group_enter(ThreadArea* area, ThreadArea* in_call) {
  if (!group_self || control.mode != kModeRecord) return true;
  self().tid = area->kernel_tid;
  if (move(tokens->group[group], kLent | group_self, kHeld | group_self)) return true;
  if (in_call && !in_call->call_logged) log_release(in_call);
  if (group_self) acquire();
  return false;
}

void group_spare(const ThreadArea* area, bool on) {
  if (!group_self) return;
  TokenGroup& g = tokens->group[group];
  lock(&g.guard);
  self().tid = on ? 0 : area->kernel_tid;
  unlock(&g.guard);
}

void group_leave() {
  if (!group_self) return;
  robust_member_leaves();
  group_lend(nullptr, false);
  group_self = 0;
}

bool group_forked() {
  own_pid = (uint32_t)native(39);
  return !group_self || become_member();
}

uint32_t group_object(uint64_t device, uint64_t inode) {
  for (uint32_t n = 1; n <= look(tokens->objects); n++)
    if (tokens->object[n].inode == inode && tokens->object[n].device == device) return n;
  return 0;
}

uint32_t group_files() { return mapped ? look(tokens->files) : 0; }

static bool can_share() {
  if (!mapped || (!group_self && !become_member())) return false;
  trace_header()->features |= kFeatureSharedMemory;
  return true;
}

bool group_share_inherited() {
  if (!can_share()) return false;
  if (group) return true;
  lock(&tokens->guard);
  group = new_group();
  unlock(&tokens->guard);
  if (group) note_turn(0);
  return group != 0;
}

uint32_t group_share(uint64_t device, uint64_t inode, bool* fresh) {
  *fresh = false;
  if (!can_share()) return 0;
  lock(&tokens->guard);
  uint32_t number = group_object(device, inode);
  const bool alone = !group;
  if (alone) group = number ? tokens->object[number].group : new_group();
  if (!number && group && tokens->objects + 1 < kMaxObjects) {
    *fresh = true;
    number = tokens->objects + 1;
    tokens->object[number] = {device, inode, group, 0};
    if (device != kSegmentDevice) tokens->files++;
    __atomic_store_n(&tokens->objects, number, __ATOMIC_SEQ_CST);
  }
  unlock(&tokens->guard);
  if (!number || !group) return 0;
  if (!alone) join(tokens->object[number].group);
  else if (*fresh) note_turn(0);
  else acquire();
  return number;
}

}  // namespace friday::shim
