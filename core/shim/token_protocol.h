// How the processes of a group hand their token over: the words of a TokenGroup and of its members (shim_abi.h), and
// what each process does to them, in which order. token_group.cc runs this in recorded processes.
// tests/unit/shim_token_test.cc runs the same code in a model in which two or three processes take every possible order
// of steps, and one of them may be killed between any two.
//
// `System` says how a word is read and written and what the kernel answers:
//   self(), group()           this process's number as a member; the group whose token it had last (0: none), which may
//   be assigned at(g), member(m)          the TokenGroup and the TokenMember of that number area_guard() the guard
//   under which groups are made and joined load, store, swap, exchange, add   a word that others change meanwhile,
//   sequentially consistent; swap compares first get, put                  a word that is changed under a guard
//   lock(guard), unlock(guard)  lock returns true if it took the guard from a process that was killed with it
//   has_ended(m)              that member's process does not run any more
//   sleep(go, looks), wake(go)  sleep returns when `go` was set, and after a while, which grows with `looks`
//   let_holder_run(group, member), poke(member, looks)   hints, without which everything happens later
//   more_looks(looks)         one more
//   now(), processor()        ticks; where this process runs
//   lasted(since)             a turn that began then has lasted
//   hands_over()              called before the token goes to a waiter; false: this process has left the group
//   note_join(group, turn)    everything that this process did so far comes before the turns of `group` behind `turn`
//   looks_anew(...)           the values that decide what a waiter does next; for the model
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

  // Takes a lent token back; false: somebody has taken it.
  bool take_back() { return s_.swap(own().state, kLent | s_.self(), kHeld | s_.self()); }

  // The holder lets others run. `quick`: as a rule it wants the token back at once.
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

  // Waits for the token of this process's group, whichever group that is by then. True: the holder before was killed.
  bool acquire() {
    TokenMember& m = s_.member(s_.self());
    uint32_t queued_in = 0, patient_in = 0, seen = 0;
    uint64_t seen_turn = 0;
    unsigned looks = 0;  // at which nothing had happened
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
      if (now == (kHeld | s_.self())) break;  // handed to us
      // Its owner takes a lent token back without the guard.
      bool taken = (now & ~kWho) != kHeld && s_.swap(g.state, now, kHeld | s_.self());
      // Less and less often: a process that computes is only slowed by being looked at.
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
        continue;  // look once more: the holder may have lent before it saw us wait
      }
      if (ask && (now & ~kWho) == kHeld) s_.poke(now & kWho, looks);
      s_.unlock(g.guard);
      s_.sleep(m.go, looks);
    }
    TokenGroup& ours = own();
    s_.put(ours.processor, s_.processor());
    s_.unlock(ours.guard);
    return holder_died;
  }

  // A group of which this process is the only member, and holds the token. The area's guard is held; `number` was never
  // in use.
  void begin(uint32_t number) {
    begin_turn(s_.at(number), s_.self());
    s_.group() = number;
  }

  // The process has the token of its group, and now shares something with the processes of `other`: its group goes into
  // that one. It gives its own token up for good before it waits for the other one. So nobody holds two tokens, and
  // nobody waits while holding one: no circle of waiters can come about, whatever joins at the same time. False: both
  // are one group already.
  bool join(uint32_t other) {
    const uint32_t had = s_.group();
    for (;;) {
      other = root(other);
      if (other == had) return false;  // who holds a group's token is the only one that may forward it
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

  // The group that `g` has become part of.
  uint32_t root(uint32_t g) {
    while (uint32_t next = s_.load(s_.at(g).forward)) g = next;
    return g;
  }

  // The guard of a group. A process may be killed while it has it, and what that one left is put right here: the queue
  // is whole at each step, from its first member on; what is said about it may lag behind, and who was handed the token
  // may still stand in it.
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

  // Gives the token, which is ours, to the member that has waited longest. Takes the guard back.
  void pass_on(TokenGroup& g) {
    const uint32_t next = s_.get(g.first);
    begin_turn(g, next);
    remove(g, next, 0);
    s_.unlock(g.guard);
    TokenMember& m = s_.member(next);
    s_.store(m.go, 1u);
    s_.wake(m.go);
  }

  // Whoever waits in `g` finds at its next look that it has become part of `other`, and waits there. Until the store
  // the token is this process's: if it is killed before, that is a holder's death like any other.
  void forward(TokenGroup& g, uint32_t other) {
    lock(g);
    s_.store(g.forward, other);
    s_.unlock(g.guard);
  }

  // ---- Turns

  // A turn of who has just become the holder.
  void count_turn(TokenGroup& g) {
    s_.put(g.turn, s_.get(g.turn) + 1);
    s_.put(g.since, s_.now());
  }

  void begin_turn(TokenGroup& g, uint32_t member) {
    s_.put(g.processor, ~0u);
    s_.store(g.state, kHeld | member);
    count_turn(g);
  }

  // ---- Waiters that run, and need not be woken. Whoever takes one out of the queue ends its patience, as it does
  // itself: it may have been killed meanwhile.

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
