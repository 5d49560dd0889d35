// Loop sites: loops that may wait for a store by another thread and change something meanwhile, such as a counter. Like
// a pure spin (spin.cc) such a loop keeps the token without a call, but its registers do not identify an iteration. So
// the collector finds these loops when it decodes the program (core/record/loops.cc), and an instruction in each
// becomes a jump to a stub that decrements ThreadArea::loops_left (patch.cc). The number of sites that a thread has
// passed is the same while recording and at replay, and identifies a point exactly. When loops_left becomes 0 the
// thread enters the shim, here.
//
// While recording, that happens when another thread waits: its poke sets loops_left to 1. A thread that has yielded in
// such a loop is likely to do so again, so from then on it checks for waiters by itself: every kFew sites, and less and
// less often while there are none.
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint64_t kFew = 4096, kMany = 1 << 20;  // the fewest and the most sites between two checks
// In nanoseconds. A thread that passes kFew sites within kBusy does little but wait, so its turn ends after kShortTurn;
// one that takes longer computes and has the usual turn.
constexpr long kBusy = kFew * 16, kShortTurn = 20000;

}  // namespace

uint64_t loops_passed(const ThreadArea* area) { return area->loops_base - area->loops_left; }

void loops_let(ThreadArea* area, uint64_t passes) {
  area->loops_base = loops_passed(area) + passes;
  area->loops_left = passes;
}

void loops_ask(ThreadArea* area) {
  if (recording() && !area->borrowed && (token_wanted() || signals_pending(area))) loops_let(area, 1);
}

// Whether the thread, which is at a `pause` with a stub, has something to do in the shim: it yields at once if another
// waits for the token, like at a planted `pause`, or the count has come to 0. A step of the program's own trap flag
// that was hidden here must be made up for (signals_step_on).
extern "C" bool friday_pause_asks() {
  ThreadArea* area = me();
  if (area->loops_left == 0 || area->stepped) return true;
  if (on_standby && signals_pending(area)) return true;
  return recording() && !area->native && !area->borrowed && (token_wanted() || signals_pending(area));
}

static bool record_yields(ThreadArea* area) {
  if (area->borrowed || on_standby) {
    loops_let(area, 0);
    return false;
  }
  if (area->loops_left) return token_wanted() || signals_pending(area);  // a `pause`
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
  if (area->loops_left) return false;  // a `pause`, for friday_pause_asks() alone
  const bool due = control.mode == kModeReplay && !area->native && replay_yield_follows(area, kYieldLoop);
  loops_let(area, 0);
  return due;
}

void loops_expect(const EventRecord* next) {
  ThreadArea* area = area_of(next->header.thread);
  if (area_is_of(area, next->header.thread)) loops_let(area, *(const uint64_t*)(next + 1) - loops_passed(area));
}

}  // namespace friday::shim
