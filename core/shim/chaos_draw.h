// The decisions of `friday record --chaos` as pure functions: how many bytes a call asks for, and how long a thread is
// held back. Each is drawn from the key of the process, which the collector derives from the seed and the node's name,
// and from the thread's number and the number of its events so far. So the same program that makes the same calls gets
// the same decisions from the same seed. Freestanding: chaos.cc uses these while recording, and the collector and
// tests/unit/shim_chaos_test.cc use them outside.
#pragma once

#include <stdint.h>

namespace friday::shim {

// What a number is drawn for, so that the decisions about one call are independent of each other.
enum class Draw : uint64_t { cut = 1, length, priority, hold, hold_time, turn, delay, delay_time, delay_side };

// Where a decision is drawn.
struct ChaosPlace {
  uint64_t key;       // of the process; 0: chaos is off
  uint32_t thread;    // its number in the trace
  uint32_t sequence;  // events of the thread so far
};

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): each bit of the result depends on every bit of the input.
constexpr uint64_t chaos_mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
  value = (value ^ value >> 27) * 0x94d049bb133111eb;
  return value ^ value >> 31;
}

constexpr uint64_t chaos_drawn(const ChaosPlace& place, Draw what) {
  const uint64_t call = static_cast<uint64_t>(place.thread) << 32 | place.sequence;
  return chaos_mixed(chaos_mixed(place.key ^ chaos_mixed(call)) + static_cast<uint64_t>(what));
}

// The key of a node whose name, with those of its ancestors, is the text. It is never 0.
constexpr uint64_t chaos_key_of(uint64_t seed, const char* name, uint64_t size) {
  uint64_t key = chaos_mixed(seed);
  for (uint64_t i = 0; i < size; i++) key = chaos_mixed(key ^ static_cast<uint8_t>(name[i]));
  return key ? key : 1;
}

// One of four calls asks for fewer bytes than the program does, at least `least` of them. Small numbers are as likely
// as large ones, because programs often have room for much more than a message. Returns `asked` if nothing is cut.
constexpr uint64_t chaos_length(const ChaosPlace& place, uint64_t asked, uint64_t least) {
  if (asked <= least || asked < 2 || chaos_drawn(place, Draw::cut) % 4) return asked;
  const uint64_t number = chaos_drawn(place, Draw::length), most = asked - least;  // how many may be cut, at the most
  unsigned bits = 0;
  while (most >> bits) bits++;
  const uint64_t range = 1ull << (number & 63) % (bits + 1), more = (number >> 6) % range;
  return least + (more < most ? more : most - 1);
}

// The longest that a call is held back by its thread's priority, by the delay of a delivery, and in either way if the
// program made it non-blocking. In nanoseconds.
inline constexpr uint64_t kLongestHold = 8000000, kLongestDelay = 12000000, kLongestAtOnce = 1000000;

// How many events of a thread its priority lasts.
inline constexpr uint32_t kPriorityEvents = 16;

// A quarter of the threads have a low priority at a time.
constexpr bool chaos_is_low(const ChaosPlace& place) {
  const ChaosPlace stretch = {place.key, place.thread, place.sequence / kPriorityEvents};
  return chaos_drawn(stretch, Draw::priority) % 4 == 0;
}

// For how many nanoseconds a thread that is not alone is held back before a call, in which the others run.
constexpr uint64_t chaos_hold(const ChaosPlace& place) {
  const bool low = chaos_is_low(place);
  if (chaos_drawn(place, Draw::hold) % (low ? 4 : 32)) return 0;
  return 1 + chaos_drawn(place, Draw::hold_time) % (low ? kLongestHold : kLongestHold / 4);
}

// How long the turn is that a thread has: whether a waiter is woken at its call, whatever kind of call that is.
enum class Turn { usual, shorter, longer };
constexpr Turn chaos_turn(const ChaosPlace& place) {
  const uint64_t number = chaos_drawn(place, Draw::turn) % 16;
  return number < 2 ? Turn::shorter : number == 2 ? Turn::longer : Turn::usual;
}

// For how many nanoseconds a delivery is delayed, and whether that is after the call has returned in the kernel. A wait
// after it lets what another connection has brought overtake; a wait before it lets more arrive on the same one.
constexpr uint64_t chaos_delay(const ChaosPlace& place) {
  return chaos_drawn(place, Draw::delay) % 6 ? 0 : 1 + chaos_drawn(place, Draw::delay_time) % kLongestDelay;
}
constexpr bool chaos_delays_after(const ChaosPlace& place) { return chaos_drawn(place, Draw::delay_side) % 4 != 0; }

}  // namespace friday::shim
