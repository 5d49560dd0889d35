// Replays a yield in a pure spin: the recorded thread gave up its turn in a loop that makes no system call and changes
// nothing (core/shim/spin.cc). The replayed thread runs to the instruction where the recorded one yielded. If it spins
// there too, it is redirected into the shim, which replays the yield.
//
// Equal registers do not prove that it spins: the thread may pass the loop with the same registers at a time when the
// loop ends at once. Therefore two iterations are single-stepped and compared with the recorded ones, instruction by
// instruction, and then undone: whatever stops the thread in them will stop it when it executes them.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "core/replay/session.h"
#include "core/replay/thread_areas.h"
#include "core/shim/plain.h"

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

// Where an instruction stores by this operand, given the registers before it. A push and a call store below the stack
// pointer, which they lower first.
Addr place_of_store(const Instruction& instruction, const ZydisDecodedOperand& operand, const user_regs_struct& r) {
  const ZydisMnemonic mnemonic = instruction.decoded.mnemonic;
  const bool pushes = mnemonic == ZYDIS_MNEMONIC_PUSH || mnemonic == ZYDIS_MNEMONIC_CALL;
  return Addr{effective_address(instruction, operand, r) - (pushes ? operand.size / 8 : 0)};
}

// Single-steps a thread through instructions that the recorder accepts in a loop. Such an instruction changes nothing
// but general registers, flags and what it stores. undo() must be called after begin(), whatever the steps returned.
//
// Other nodes may share memory to which the thread stores. They execute nothing meanwhile, since the thread has the
// turn (core/shim/token_group.cc).
class Trial {
 public:
  Trial(ReplayNode& node, ReplayNode::Thread& thread, const user_regs_struct& registers)
      : node_(node), thread_(thread), before_(thread), registers_(registers) {}
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  Result<void> begin() { return node_.count_stops(false); }
  // False if the thread cannot be stepped here, or not without a stop. `r`: its registers, before and after.
  Result<bool> step(user_regs_struct& r) {
    std::array<std::byte, max_instruction_length + 1> code{};
    const Addr at = node_.patched_bytes().program_address(Addr{r.rip});
    const auto readable = std::span(code).first(std::min<uint64_t>(max_instruction_length, 4096 - at.value % 4096));
    if (!node_.read(at, code) && !node_.read(at, readable)) return false;
    const auto instruction = decode_instruction(at, code);
    if (!instruction || !shim::is_plain(reinterpret_cast<const uint8_t*>(code.data()))) return false;
    for (unsigned i = 0; i < instruction->decoded.operand_count; i++) {
      const ZydisDecodedOperand& operand = instruction->operand(i);
      if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY || !(operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)) continue;
      std::vector<std::byte> bytes(operand.size / 8);
      const Addr low = place_of_store(*instruction, operand, r);
      if (!node_.read_raw(low, bytes)) return false;
      stored_.emplace_back(low, std::move(bytes));
    }
    FRIDAY_TRY_VOID(node_.breakpoints().step_one(ThreadId{thread_.number}));
    if (!TracedProcess::registers(thread_.tid, r)) return fail(ErrorCode::component_died, "its process is gone");
    return !thread_.held && !node_.in_shim(r.rip);
  }
  Result<void> undo() {
    for (; !stored_.empty(); stored_.pop_back()) FRIDAY_TRY_VOID(put_back(stored_.back().first, stored_.back().second));
    if (!TracedProcess::set_registers(thread_.tid, registers_))
      return fail(ErrorCode::component_died, "its process is gone");
    static_cast<ThreadSnapshot&>(thread_) = before_;
    return node_.count_stops(true);
  }

 private:
  // In a real spin most stores have changed nothing, and nothing is written.
  Result<void> put_back(Addr low, const std::vector<std::byte>& bytes) {
    std::vector<std::byte> now(bytes.size());
    FRIDAY_TRY_VOID(node_.read_raw(low, now));
    return now == bytes ? Result<void>() : node_.write_raw(low, bytes);
  }

  ReplayNode& node_;
  ReplayNode::Thread& thread_;
  const ThreadSnapshot before_;
  const user_regs_struct registers_;
  std::vector<std::pair<Addr, std::vector<std::byte>>> stored_;
};

// Whether the steps are those of two iterations of the recorded loop. `r`: the thread's registers, before and after.
Result<bool> goes_round_twice(Trial& trial, user_regs_struct& r, const ExpectedSpin& spin) {
  for (int iteration = 0; iteration < 2; iteration++) {
    uint64_t hash = 0;
    for (uint64_t step = 0; step < spin.steps; step++) {
      FRIDAY_TRY(stepped, trial.step(r));
      if (!stepped) return false;
      hash = format::spin_hash(hash, point_of(r));
    }
    if (hash != spin.hash || !same(point_of(r), spin.point)) return false;
  }
  return true;
}

// Whether the thread, which stands where the recorded thread spun, would go through two iterations of that loop.
Result<bool> would_spin(ReplayNode& node, ReplayNode::Thread& thread, user_regs_struct r, const ExpectedSpin& spin) {
  Trial trial(node, thread, r);
  FRIDAY_TRY_VOID(trial.begin());
  const auto spins = goes_round_twice(trial, r, spin);
  FRIDAY_TRY_VOID(trial.undo());
  return spins;
}

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
  FRIDAY_TRY(spins, would_spin(node, thread, r, spin));
  if (!spins) return false;
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
