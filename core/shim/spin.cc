// Pure spins: loops without a call that wait for a store by another thread and change nothing. Such a loop would keep
// the token for ever. A waiter pokes the thread, which then single-steps through two iterations (trap flag). If all
// registers are the same after each instruction of both, and no instruction changes memory in a way that registers do
// not show, then no iteration differs from another, and the thread may yield in any of them. At replay the core looks
// for the same instruction with the same registers (core/replay/spin.cc).
//
// A loop that counts in memory is not a pure spin, because its state depends on the number of iterations (loop.cc).
#include <linux/resource.h>
#include <linux/signal.h>

#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/plain.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"

namespace friday::shim {

using namespace format;

SpinFound spin_found;

namespace {

constexpr unsigned kLongest = 64;               // instructions in an iteration
constexpr uint64_t kLongestDelay = 1000000000;  // of ThreadArea::look_delay, in nanoseconds

struct Notice {
  char text[sizeof Request::text] = {};
  size_t length = 0;
  Notice& add(const char* more) {
    while (*more && length + 1 < sizeof text) text[length++] = *more++;
    return *this;
  }
  Notice& number(uint64_t value, unsigned base) {
    char digits[24];
    int k = 0;
    do digits[k++] = "0123456789abcdef"[value % base];
    while (value /= base);
    while (k && length + 1 < sizeof text) text[length++] = digits[--k];
    return *this;
  }
};

// The two iterations that are compared: from `start`, where both begin and end.
struct Search {
  bool active, second;
  SpinPoint start;
  uint64_t steps, hash, first_steps, first_hash;
} search;

bool same(const SpinPoint& a, const SpinPoint& b) { return memcmp(&a, &b, sizeof a) == 0; }

bool of_the_program(uint64_t rip) { return rip < control.text_low || rip >= control.text_high; }

}  // namespace

static uint64_t others_waited;  // how long the sender of the last poke had waited, in milliseconds

void spin_poked(const void* info) { others_waited = ((const uint64_t*)info)[4]; }

void spin_poke(uint32_t pid, uint32_t tid, uint64_t milliseconds) {
  if (control.mode != kModeRecord) return;
  uint64_t info[16] = {};  // siginfo_t: signal, errno, si_code SI_QUEUE; pid and uid; value
  info[0] = kPokeSignal;
  info[1] = (uint32_t)-1;
  info[3] = kPokeValue;
  info[4] = milliseconds;
  native(sys::rt_tgsigqueueinfo, pid, tid, kPokeSignal, info);
}

// A loop that neither is a pure spin nor has a loop site keeps others waiting, as does any long computation. The user
// is told once.
void spin_tell(const ThreadArea* area, uint64_t rip) {
  static bool told;
  constexpr uint64_t kLong = 2000;  // milliseconds
  const bool others = token_wanted() && others_waited >= kLong,
             signal = signals_pending(area) && area->look_delay >= kLongestDelay;
  if (told || !recording() || !of_the_program(rip) || (!others && !signal)) return;
  told = true;
  Notice notice;
  notice.add("thread ")
      .number(area->number, 10)
      .add(others ? " has kept others waiting" : " has kept a signal waiting");
  notice.add(" for seconds, as it makes no call, at 0x").number(rip, 16);
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if (rip >= line.low && rip < line.high)
      notice.add(" (").add(line.path).add("+0x").number(rip - line.low + line.offset, 16).add(")");
  collector_send(kNotice, 0, 0, notice.text);
}

bool spin_begin(const ThreadArea* area, const SpinPoint& now) {
  if (!recording() || area->frame || (!token_wanted() && !signals_pending(area)) || search.active ||
      !of_the_program(now.rip) || !is_plain((const uint8_t*)now.rip))
    return false;
  search = {};
  search.active = true;
  search.start = now;
  return true;
}

// The timer measures the thread's processor time, so that it does not interrupt a thread that sleeps.
void spin_look_later(ThreadArea* area) {
  constexpr uint64_t kFirst = 1000000;
  if (area->borrowed || control.mode != kModeRecord) return;
  if (!area->look_timer) {
    struct {
      uint64_t value;
      int32_t signal, notify, thread;
      int32_t rest[11];
    } event = {kPokeValue, kPokeSignal, SIGEV_THREAD_ID, (int32_t)area->kernel_tid, {}};
    int32_t timer = 0;
    if (failed(native(sys::timer_create, CLOCK_THREAD_CPUTIME_ID, &event, &timer))) return;
    area->look_timer = (uint32_t)timer + 1;
  }
  area->look_delay = area->look_delay ? min(area->look_delay * 2, kLongestDelay) : kFirst;
  const uint64_t when[4] = {0, 0, area->look_delay / 1000000000, area->look_delay % 1000000000};
  native(sys::timer_settime, area->look_timer - 1, 0, when, 0);
}

Spin spin_step(const SpinPoint& now) {
  if (!search.active) return Spin::none;
  search.steps++;
  search.hash = spin_hash(search.hash, now);
  if (same(now, search.start)) {
    if (search.second) {
      search.active = false;
      if (search.steps != search.first_steps || search.hash != search.first_hash) return Spin::none;
      spin_found = {now, search.steps, search.hash};
      return Spin::found;
    }
    search.second = true;
    search.first_steps = search.steps;
    search.first_hash = search.hash;
    search.steps = search.hash = 0;
  }
  search.active = search.steps < kLongest && of_the_program(now.rip) && is_plain((const uint8_t*)now.rip);
  return search.active ? Spin::searching : Spin::none;
}

}  // namespace friday::shim
