// A turn that was given away in a loop without a call (core/shim/spin.cc): the thread is let run to the instruction at
// which it had the recorded registers and turned in circles, and is sent to the shim from there.
//
// The registers alone do not name the point: the same loop may have been passed before with the same registers while
// what it waits for was there already. So two iterations are stepped and compared, instruction by instruction, with the
// recorded ones.
#include <cstddef>
#include <cstring>

#include "core/replay/session.h"

namespace friday {
namespace {

constexpr BreakpointOwner kSpinOwner{BreakpointOwner::Kind::internal, 2};
constexpr uint64_t kMostLooks = 1'000'000;  // a look costs some microseconds
constexpr uint64_t kMostSteps = 4096;       // of an iteration; the shim looks at loops of 64 instructions at most

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

// The next event of the node is such a yield.
Result<void> ReplaySession::expect_spin(ReplayNode& node) {
  FRIDAY_TRY(event, node.reader().event_at(node.control().cursor));
  const format::SpinPoint* point = nullptr;
  for (PartView part : event.parts())
    if (part.kind() == format::kSpinPoint && part.header->size == sizeof *point)
      point = reinterpret_cast<const format::SpinPoint*>(part.header + 1);
  if (!point || event.arguments().size() != 2)
    return fail(ErrorCode::bad_input, "node {}, event {}: a yield without its point", node.id(), event->index);
  if (event.argument(0) > kMostSteps)
    return fail(ErrorCode::bad_input,
                "node {}, event {}: a yield in a loop of {} instructions, which no recorder makes", node.id(),
                event->index, event.argument(0));
  node.spin = ReplayNode::Spin{event.thread(), *point, event.argument(0), event.argument(1), 0};
  return node.breakpoints().insert(Addr{point->rip}, kSpinOwner);
}

bool ReplaySession::is_spin(const BreakpointOwner& owner) { return owner == kSpinOwner; }

// The thread stands where the recorded one turned in circles. True: it does so too, and yields when it is resumed.
Result<bool> ReplaySession::yield_at_spin(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct& r) {
  if (!node.spin || thread.number != node.spin->thread || thread.detour) return false;
  ReplayNode::Spin& spin = *node.spin;
  if (++spin.looks > kMostLooks)
    return fail(ErrorCode::diverged, "the loop at {:#x}, in which the recorded thread {} waited, is not met again",
                spin.point.rip, spin.thread);
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
  node.breakpoints().remove_all(kSpinOwner);
  node.spin.reset();
  thread.at_breakpoint = false;
  const uint64_t area = shim::kAreasAddress + thread.number * shim::kAreaStride;
  const uint64_t back = r.rip, kind = format::kYieldSpin;
  if (!node.process().write(area + offsetof(shim::ThreadArea, trap_rip), &back, sizeof back) ||
      !node.process().write(area + offsetof(shim::ThreadArea, yield_kind), &kind, sizeof kind))
    return fail(ErrorCode::component_died, "its process is gone");
  r.rip = node.control().yield_entry;
  if (!TracedProcess::set_registers(thread.tid, r)) return fail(ErrorCode::component_died, "its process is gone");
  return true;
}

}  // namespace friday
