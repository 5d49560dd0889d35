// The protocol by which the processes of a token group hand their token over: what each process does, and in which
// order, to the words of a TokenGroup and of its members (shim_abi.h). token_group.cc runs it in recorded processes.
// tests/unit/shim_token_test.cc runs the same code in a model with two or three processes, which tries every order of
// their steps, and in which one of them may be killed between any two.
//
// `System` is how a process reads and writes a word, and what it asks of the kernel:
//
//   self()            this process's number as a member
//   group()           the group whose token it had last (0: none); may be assigned to
//   at(g), member(m)  the TokenGroup and the TokenMember with that number
//   area_guard()      the guard under which groups are made and joined
//   load, store, swap, exchange, add
//                     access to a word that other processes may change meanwhile, sequentially consistent; swap is a
//                     compare-and-swap
//   get, put          access to a word that is only changed under a guard
//   lock(guard), unlock(guard)
//                     lock returns true if it has taken the guard from a process that was killed while it held it
//   has_ended(m)      whether the process of member m has ended
//   sleep(go, looks, place), wake(go)
//                     sleep returns when `go` is set, or after a time that grows with `looks` and with `place`, the
//                     number of members that are before this one in the queue
//   let_holder_run(group, member), poke(member, looks)
//                     hints; without them everything happens too, but later
//   more_looks(looks) looks + 1
//   now()             ticks
//   processor()       the processor that this process runs on
//   lasted(since)     whether a turn that began at that tick has lasted kTurnNs
//   hands_over()      called before the token is given to a waiter; false: this process has left the group
//   note_join(group, turn)
//                     records that all that this process has done happens before the turns of `group` after `turn`
//   looks_anew(...)   receives the values that decide what a waiter does next; for the model
#pragma once

#include "core/shim/shim_abi.h"

namespace friday::shim {

template <typename System>
class GroupToken {
 public:
  static constexpr uint32_t kHeld = kTokenHeld, kLent = kTokenLent, kWho = kTokenWho;

  explicit GroupToken(System system) : s_(system) {}
  auto& system() { return s_; }

  bool held() { return s_.load(own().state) == (kHeld | s_.self()); }
  bool wanted() { return s_.load(own().waiting) != 0; }

  // Takes a lent token back. False: another process has taken it.
  bool take_back() { return s_.swap(own().state, kLent | s_.self(), kHeld | s_.self()); }

  // The holder, which has kept the token, begins another turn.
  void next_turn() {
    lock(own());
    count_turn(own());
    s_.unlock(own().guard);
  }

  // The holder lets others run. `quick`: it usually wants the token back at once.
  void lend(bool quick) {
    TokenGroup& g = own();
    if (s_.get(g.waiting)) s_.put(g.processor, s_.processor());
    s_.store(g.state, kLent | s_.self());
    const uint32_t waiting = s_.load(g.waiting);
    if (!waiting) return;
    quick = quick || s_.load(g.patient) >= waiting;
    if ((quick && !s_.lasted(s_.get(g.since))) || !take_back()) return;
    if (!s_.hands_over()) return;
    lock(g);
    if (s_.get(g.first)) return pass_on(g);
    s_.store(g.state, kLent | s_.self());
    s_.unlock(g.guard);
  }

  // Waits for the token of this process's group, which may be joined with another one meanwhile. True: the process that
  // had the token before was killed.
  bool acquire() {
    TokenMember& m = s_.member(s_.self());
    uint32_t queued_in = 0, patient_in = 0, seen = 0;
    uint64_t seen_turn = 0;
    unsigned looks = 0;  // in succession at which nothing had changed
    bool holder_died = false;
    for (;;) {
      s_.looks_anew(queued_in, patient_in, seen, seen_turn, looks);
      if (patient_in) end_patience(m, s_.at(patient_in));
      patient_in = 0;
      s_.store(m.go, 0u);
      s_.group() = root(s_.group());
      const uint32_t number = s_.group();
      TokenGroup& g = s_.at(number);
      lock(g);
      if (s_.get(g.forward)) {  // joined with another one meanwhile
        s_.unlock(g.guard);
        continue;
      }
      const uint32_t now = s_.load(g.state);
      if (now == (kHeld | s_.self())) break;  // the token was handed to this process
      // Its owner may take a lent token back without the guard, so this needs a compare-and-swap.
      bool taken = (now & ~kWho) != kHeld && s_.swap(g.state, now, kHeld | s_.self());
      // The process is checked and poked after 1, 2, 4, 8, ... looks, because that only slows down one that computes.
      const uint64_t turn = s_.get(g.turn);
      looks = now == seen && turn == seen_turn ? s_.more_looks(looks) : 0;
      seen = now;
      seen_turn = turn;
      const bool ask = looks && (looks & (looks - 1)) == 0;
      if (!taken && ask && (now & ~kWho) == kHeld && s_.has_ended(now & kWho))
        holder_died = taken = s_.swap(g.state, now, kHeld | s_.self());
      if (taken) {
        if (queued_in == number) leave_queue(g);
        count_turn(g);
        break;
      }
      if (queued_in != number) {
        enqueue(g);
        queued_in = patient_in = number;
        begin_patience(m, g);
        s_.unlock(g.guard);
        seen = 0;
        s_.let_holder_run(g, m);
        continue;  // look again, because the holder may have lent the token before it saw this waiter
      }
      if (ask && (now & ~kWho) == kHeld) s_.poke(now & kWho, looks);
      const uint32_t place = place_in_queue(g);
      s_.unlock(g.guard);
      s_.sleep(m.go, looks, place);
    }
    TokenGroup& ours = own();
    s_.put(ours.processor, s_.processor());
    s_.unlock(ours.guard);
    return holder_died;
  }

  // Makes a group with this process as its only member, which holds the token. The area's guard is held; `number` was
  // never in use.
  void begin(uint32_t number) {
    begin_turn(s_.at(number), s_.self());
    s_.group() = number;
  }

  // Joins this process's group, whose token it has, to the group `other`, because it now shares something with
  // processes of that one. It gives its own group's token up for good before it waits for the other one. So no process
  // has two tokens or waits while it has one, and there can be no deadlock, whatever joins at the same time. False:
  // both are the same group already.
  bool join(uint32_t other) {
    const uint32_t had = s_.group();
    for (;;) {
      other = root(other);
      if (other == had) return false;  // `had` is not forwarded: only the holder of a group's token may do that
      s_.note_join(other, s_.get(s_.at(other).turn));
      s_.lock(s_.area_guard());
      const bool still = !s_.get(s_.at(other).forward);
      if (still) forward(s_.at(had), other);
      s_.unlock(s_.area_guard());
      if (still) break;
    }
    s_.group() = other;
    return true;
  }

  // The group that `g` has become part of; `g` itself if it was not joined.
  uint32_t root(uint32_t g) {
    while (uint32_t next = s_.load(s_.at(g).forward)) g = next;
    return g;
  }

  // Takes the guard of a group. If a process was killed while it had the guard, this repairs what it left: the links of
  // the queue from its first member on are right at each step, but `last` and `waiting` may be out of date, and the
  // member that was handed the token may still be in the queue.
  void lock(TokenGroup& g) {
    if (!s_.lock(g.guard) || s_.get(g.forward)) return;
    const uint32_t state = s_.load(g.state), holder = (state & ~kWho) == kHeld ? state & kWho : 0;
    uint32_t before = 0, waiting = 0;
    for (uint32_t at = s_.get(g.first), next; at; at = next) {
      next = s_.get(s_.member(at).next);
      if (at == holder) s_.put(before ? s_.member(before).next : g.first, next);
      else before = at, waiting++;
    }
    s_.put(g.last, before);
    s_.store(g.waiting, waiting);
  }

 private:
  TokenGroup& own() { return s_.at(s_.group()); }

  // ---- The queue of a group; its guard is held

  void enqueue(TokenGroup& g) {
    s_.put(s_.member(s_.self()).next, 0u);
    const uint32_t last = s_.get(g.last);
    s_.put(last ? s_.member(last).next : g.first, s_.self());
    s_.put(g.last, s_.self());
    s_.store(g.waiting, s_.get(g.waiting) + 1);
  }

  // How many members have waited longer than this one.
  uint32_t place_in_queue(TokenGroup& g) {
    uint32_t place = 0;
    for (uint32_t at = s_.get(g.first); at && at != s_.self(); at = s_.get(s_.member(at).next)) place++;
    return place;
  }

  void leave_queue(TokenGroup& g) {
    for (uint32_t at = s_.get(g.first), before = 0; at; before = at, at = s_.get(s_.member(at).next)) {
      if (at == s_.self()) return remove(g, at, before);
    }
  }

  void remove(TokenGroup& g, uint32_t at, uint32_t before) {
    TokenMember& m = s_.member(at);
    s_.put(before ? s_.member(before).next : g.first, s_.get(m.next));
    if (s_.get(g.last) == at) s_.put(g.last, before);
    s_.store(g.waiting, s_.get(g.waiting) - 1);
    end_patience(m, g);
  }

  // Gives the token, which this process has, to the member that has waited longest. Releases the guard.
  void pass_on(TokenGroup& g) {
    const uint32_t next = s_.get(g.first);
    begin_turn(g, next);
    remove(g, next, 0);
    s_.unlock(g.guard);
    TokenMember& m = s_.member(next);
    s_.store(m.go, 1u);
    s_.wake(m.go);
  }

  // Makes `g` part of `other`. Its waiters see that at their next look, and go on to wait in `other`. Until the store
  // this process has the token, so if it is killed before, it is a holder that was killed like any other.
  void forward(TokenGroup& g, uint32_t other) {
    lock(g);
    s_.store(g.forward, other);
    s_.unlock(g.guard);
  }

  // ---- Turns

  // Begins a turn of the process that has just become the holder.
  void count_turn(TokenGroup& g) {
    s_.put(g.turn, s_.get(g.turn) + 1);
    s_.put(g.since, s_.now());
  }

  void begin_turn(TokenGroup& g, uint32_t member) {
    s_.put(g.processor, ~0u);
    s_.store(g.state, kHeld | member);
    count_turn(g);
  }

  // ---- Patient waiters, which poll and need not be woken. Whoever removes one from the queue ends its patience, and
  // so does the waiter itself, which may have been killed.

  void begin_patience(TokenMember& m, TokenGroup& g) {
    s_.store(m.patient, 1u);
    s_.add(g.patient, 1);
  }

  void end_patience(TokenMember& m, TokenGroup& g) {
    if (s_.exchange(m.patient, 0u)) s_.add(g.patient, -1);
  }

  System s_;
};

}  // namespace friday::shim
