// Replays a yield in a pure spin: the recorded thread gave up its turn in a loop that makes no system call and changes
// nothing (core/shim/spin.cc). The replayed thread runs to the instruction where the recorded one yielded. If it spins
// there too, it is redirected into the shim, which replays the yield.
//
// Equal registers do not prove that it spins: the thread may pass the loop with the same registers at a time when the
// loop ends at once. Therefore two iterations are single-stepped and compared with the recorded ones, instruction by
// instruction.
#include <cstddef>
#include <cstring>

#include "core/replay/session.h"
#include "core/replay/thread_areas.h"

namespace friday {
namespace {

constexpr BreakpointOwner kSpinOwner{BreakpointOwner::Kind::internal, 2};
constexpr uint64_t kMostLooks = 1'000'000;  // breakpoint hits before the replay gives up; each costs microseconds
constexpr uint64_t kMostSteps = 4096;       // instructions of an iteration; the shim accepts loops of at most 64

format::SpinPoint point_of(const user_regs_struct& r) {
  return {r.rip, r.eflags & format::kSpinFlags,
          r.rsp, r.rax,
          r.rbx, r.rcx,
          r.rdx, r.rsi,
          r.rdi, r.rbp,
          r.r8,  r.r9,
          r.r10, r.r11,
          r.r12, r.r13,
          r.r14, r.r15};
}

bool same(const format::SpinPoint& a, const format::SpinPoint& b) { return memcmp(&a, &b, sizeof a) == 0; }

}  // namespace

// Call when the next event of the node is a yield in a pure spin.
Result<void> ReplaySession::expect_spin(ReplayNode& node) {
  FRIDAY_TRY(event, node.reader().event_at(node.control().cursor));
  const format::SpinPoint* point = nullptr;
  for (PartView part : event.parts())
    if (part.kind() == format::kSpinPoint && part.header->size == sizeof *point)
      point = reinterpret_cast<const format::SpinPoint*>(part.header + 1);
  if (!point || event.arguments().size() != 2)
    return fail(ErrorCode::bad_input,
                "the yield in a loop at event {} lacks the registers that its record must contain; the recording is "
                "damaged. Copy it again",
                event->index);
  if (event.argument(0) > kMostSteps)
    return fail(
        ErrorCode::bad_input,
        "the yield at event {} is in a loop of {} instructions, more than the recorder accepts; the recording is "
        "damaged. Copy it again",
        event->index, event.argument(0));
  node.spin() = ExpectedSpin{event.thread(), *point, event.argument(0), event.argument(1), 0};
  return stop_at_spin(node);
}

Result<void> ReplaySession::stop_at_spin(ReplayNode& node) {
  return node.breakpoints().insert(Addr{node.spin()->point.rip}, kSpinOwner);
}

bool ReplaySession::is_spin(const BreakpointOwner& owner) { return owner == kSpinOwner; }

// Call when the thread stands at the instruction where the recorded thread spun. If it spins too, redirects it into the
// shim, where it yields when it is resumed, and returns true.
Result<bool> ReplaySession::yield_at_spin(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& r) {
  if (!node.spin() || thread.number != node.spin()->thread || thread.detour) return false;
  ExpectedSpin& spin = *node.spin();
  if (++spin.looks > kMostLooks)
    return fail(ErrorCode::diverged,
                "thread {} was recorded waiting in a loop at {:#x}; the replayed thread has passed there {} times and "
                "never waited. Replay again; if it fails again, keep the recording and report it as a bug of Friday",
                spin.thread, spin.point.rip, kMostLooks);
  if (!same(point_of(r), spin.point)) return false;
  for (int iteration = 0; iteration < 2; iteration++) {
    uint64_t hash = 0;
    for (uint64_t step = 0; step < spin.steps; step++) {
      FRIDAY_TRY_VOID(node.breakpoints().step_one(ThreadId{thread.number}));
      if (!TracedProcess::registers(thread.tid, r)) return fail(ErrorCode::component_died, "its process is gone");
      thread.at_breakpoint = !thread.held && node.breakpoints().contains(Addr{r.rip});
      if (thread.held || node.in_shim(r.rip)) return false;
      hash = format::spin_hash(hash, point_of(r));
    }
    if (hash != spin.hash || !same(point_of(r), spin.point)) return false;
  }
  FRIDAY_TRY_VOID(node.breakpoints().remove_all(kSpinOwner));
  node.spin().reset();
  thread.at_breakpoint = false;
  const auto area = thread_area(node.process(), node.control(), thread.number);
  const uint64_t back = r.rip, kind = format::kYieldSpin;
  if (!area || !node.process().write(*area + offsetof(shim::ThreadArea, trap_rip), &back, sizeof back) ||
      !node.process().write(*area + offsetof(shim::ThreadArea, yield_kind), &kind, sizeof kind))
    return fail(ErrorCode::component_died, "its process is gone");
  r.rip = node.control().yield_entry;
  if (!TracedProcess::set_registers(thread.tid, r)) return fail(ErrorCode::component_died, "its process is gone");
  return true;
}

}  // namespace friday
