// Loops that may wait for what another thread stores, and change something while they do: count, or keep the time. They
// keep the token as an idle loop does (spin.cc), but a point in one has no name in its registers. So the collector
// finds them beforehand (core/record/loops.cc), and an instruction in each becomes a jump to a stub that takes one from
// a number of the thread's (patch.cc). How many such sites a thread has passed names a point of it exactly, in
// recording and replay alike; where the number comes to 0 the thread stops, here.
//
// While recording that is when somebody waits: a waiter's poke makes the next site the last. A thread that has waited
// once will as a rule wait again, so it looks by itself from then on, less and less often when nobody wants the token.
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint64_t kFew = 4096, kMany = 1 << 20;  // passes between looks
// Who passes this many in this time does little else, and is not to keep the token for long; who does not computes.
constexpr long kBusy = kFew * 16, kShortTurn = 20000;  // nanoseconds

}  // namespace

uint64_t loops_passed(const ThreadArea* area) { return area->loops_base - area->loops_left; }

void loops_let(ThreadArea* area, uint64_t passes) {
  area->loops_base = loops_passed(area) + passes;
  area->loops_left = passes;
}

void loops_ask(ThreadArea* area) {
  if (control.mode == kModeRecord && !area->borrowed && (token_wanted() || signals_pending(area))) loops_let(area, 1);
}

static bool record_yields(ThreadArea* area) {
  if (area->borrowed) {
    loops_let(area, 0);
    return false;
  }
  const bool wanted = token_wanted(), busy = area->loops_next && !elapsed(area->loops_looked, kBusy);
  const bool yields = signals_pending(area) || (wanted && token_lasted(busy ? kShortTurn : kTurnNs));
  if (wanted || yields) area->loops_next = kFew;
  else if (area->loops_next) area->loops_next = min(area->loops_next * 2, kMany);
  loops_let(area, area->loops_next);
  area->loops_looked = ticks_now();
  return yields;
}

bool loops_yield(ThreadArea* area) {
  if (control.mode == kModeRecord) return record_yields(area);
  const bool due = control.mode == kModeReplay && !area->native && replay_yield_follows(area, kYieldLoop);
  loops_let(area, 0);
  return due;
}

void loops_expect(const EventRecord* next) {
  if (next->header.thread >= control.thread_count) return;
  ThreadArea* area = area_of(next->header.thread);
  if (area->alive) loops_let(area, *(const uint64_t*)(next + 1) - loops_passed(area));
}

}  // namespace friday::shim
