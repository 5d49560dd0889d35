#include "core/debug/calls.h"

#include <algorithm>
#include <csignal>
#include <cstring>

#include "core/replay/memory_copy.h"
#include "core/rsp/dynamic.h"
#include "core/rsp/tls.h"

namespace friday {
namespace {

// Bytes left free above the frame of the called function, which may write a little above it (core/stop/effects.h).
constexpr uint64_t kGap = 4096;
// Bytes below the stack pointer of a call whose effects are known that are restored, although the program does not read
// them.
constexpr uint64_t kDead = 4096;
constexpr size_t kXmm = 160, kStateBits = 512;  // offsets of the vector registers and of XSTATE_BV in an XSAVE area

}  // namespace

// A copy of what a call may change: a few places if the code of the function shows which, otherwise all memory.
class Calls::Undo {
 public:
  // `error` is the address of the thread's errno.
  static Result<Undo> prepare(ReplayNode& node, const FunctionEffects& effects, const Room& room,
                              std::optional<Addr> error) {
    Undo undo;
    bool all = !effects.known || (effects.sets_errno && !error);
    if (!all) all = !undo.keep(node, room.stack - kDead, room.live - (room.stack - kDead));
    if (all)
      if (auto dead = DeadStack::below(room.live, node))
        undo.pieces_.emplace_back(dead->low.value, std::move(dead->bytes));
    for (const auto& [address, size] : effects.stores) all = all || !undo.keep(node, address, size);
    if (effects.sets_errno) all = all || !undo.keep(node, error->value, sizeof(int));
    if (all) {
      FRIDAY_TRY(copy, MemoryCopy::take(node));
      undo.all_ = std::move(copy);
    }
    return undo;
  }
  Result<void> restore(ReplayNode& node) {
    if (all_) FRIDAY_TRY_VOID(all_->restore(node));
    else
      for (const auto& [address, bytes] : pieces_) FRIDAY_TRY_VOID(node.write(Addr{address}, bytes));
    return {};
  }
  // Call after the function has returned. Restores the dead part of the stack, and keeps what the function has stored
  // elsewhere.
  Result<void> clear_stack(ReplayNode& node) {
    if (pieces_.empty()) return {};  // there is less stack than that
    return node.write_raw(Addr{pieces_.front().first}, pieces_.front().second);
  }

  const MemoryCopy* all() const { return all_ ? &*all_ : nullptr; }
  // Whether the places are unchanged, except for the stack, which is the first one.
  bool same(ReplayNode& node) const {
    return std::ranges::all_of(pieces_.begin() + 1, pieces_.end(), [&](const auto& piece) {
      std::vector<std::byte> now(piece.second.size());
      return node.read(Addr{piece.first}, now) && now == piece.second;
    });
  }

 private:
  bool keep(ReplayNode& node, uint64_t address, uint64_t size) {
    std::vector<std::byte> bytes(size);
    if (!node.read(Addr{address}, bytes)) return false;
    pieces_.emplace_back(address, std::move(bytes));
    return true;
  }
  std::optional<MemoryCopy> all_;
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> pieces_;
};

// What a function may change. The answer is kept if the function is in a file of the program, whose code never changes.
const FunctionEffects& Calls::effects(ReplayNode& node, uint64_t function) {
  static const FunctionEffects unknown;
  NodeCode& code = symbols_.code(node.id());
  if (!code.layout.place(function)) return unknown;
  auto known = code.effects.find(function);
  if (known != code.effects.end() && known->second.final) return known->second;
  auto found = effects_of(node, Addr{function}, [&node](uint64_t slot) -> std::optional<std::string> {
    auto name = libc_function(node, slot);
    return name ? std::optional(*name) : std::nullopt;
  });
  return code.effects.insert_or_assign(function, std::move(found)).first->second;
}

// The address of a thread's errno, which is the same during its whole life.
std::optional<Addr> Calls::errno_of(ReplayNode& node, ThreadId thread, uint64_t thread_pointer) {
  auto& known = symbols_.code(node.id()).errors;
  auto it = known.find(thread_pointer);
  if (it == known.end()) {
    auto address = errno_address(node, thread);
    if (!address) return std::nullopt;
    it = known.emplace(thread_pointer, *address).first;
  }
  return it->second;
}

Error Calls::describe_failure(ReplayNode& node, const std::string& what, const Result<void>& undone) {
  if (gdbs_.take_interrupt()) return {ErrorCode::interrupted, "interrupted"};
  const CallFailure failure = *session_.call_failure();
  Error error{ErrorCode::call_failed,
              fmt::format("{} {}; it was stopped, and the node is as it was before the call", what, failure.text),
              node.id().value};
  if (!undone)
    error.message = fmt::format("{} {}; it was stopped, but what it has changed stays: {}", what, failure.text,
                                undone.error().message);
  error.how = failure.how;
  return error;
}

// Whether the call that has just returned changed nothing. Without a system call it can only have changed memory.
bool Calls::left_no_trace(ReplayNode& node, ThreadId thread, const MemoryCopy& before) {
  const auto* caller = node.thread_of(thread);
  if (!caller || !caller->detour || caller->detour->asked_kernel) return false;
  auto same = before.unchanged(node, caller->detour->view.rsp);
  return same && *same;
}

// Runs the thread alone, in native mode, until the function has returned or failed. Stop points do not stop it, but
// watches are told what it writes.
Result<Stop> Calls::run(ReplayNode& node, ThreadId thread, const Ending& ends) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    auto stop = session_.run_detour(node.id(), thread, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (!stop) return stop;
    if (stop->kind == Stop::Kind::watch) observer_->memory_hit(node, thread, *stop);
    else if (stop->kind != Stop::Kind::breakpoint || (ends && ends(*stop))) return stop;
  }
}

// Copies all memory first, so that the call can be undone if the function fails.
Result<Stop> Calls::run_for_gdb(ReplayNode& node, ThreadId thread, const Ending& ends) {
  auto copy = MemoryCopy::take(node);
  auto stop = run(node, thread, ends);
  if (!stop || !session_.call_failure()) {
    if (!copy || !left_no_trace(node, thread, *copy)) alterations_.note_any(node.id());
    return stop;
  }
  Result<void> undone = copy ? Result<void>() : std::unexpected(copy.error());
  if (copy)
    if (auto restored = copy->restore(node); !restored) undone = std::unexpected(restored.error());
  observer_->memory_changed(node);
  if (!undone) alterations_.note_any(node.id());
  error_ = describe_failure(node, "the function", undone);
  // A signal makes gdb give up the call and restore the registers.
  stop->kind = Stop::Kind::signal;
  stop->signal = SIGABRT;
  return stop;
}

// The room for a call, below what the thread still needs of its stack.
Calls::Room Calls::room_for(const ExpressionPlan::Call& call, const ReplayNode::Standing& from) {
  constexpr uint64_t kAlignment = 64;  // of what is returned in memory: the largest that a plan has
  const uint64_t live = from.view.rsp - kRedZone, end = (live - kGap) & ~(kAlignment - 1);
  const uint64_t returned = call.returned ? 0 : (call.size + kAlignment - 1) & ~(kAlignment - 1);
  return {.stack = end - returned - 8, .returned = end - returned, .live = live};
}

// Makes the thread start the function: sets the registers by the calling convention (System V ABI, AMD64 supplement).
Result<void> Calls::enter(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call, const CallValues& values,
                          const ReplayNode::Standing& from, const Room& room) {
  user_regs_struct registers = from.view;
  unsigned long long* const general[] = {&registers.rdi, &registers.rsi, &registers.rdx,
                                         &registers.rcx, &registers.r8,  &registers.r9};
  std::vector<uint64_t> vectors;
  size_t next = 0;
  if (!call.returned) *general[next++] = room.returned;
  for (size_t i = 0; i < values.arguments.size(); i++) {
    if (call.arguments[i].passing == ExpressionPlan::Passing::general) *general[next++] = values.arguments[i];
    else vectors.push_back(values.arguments[i]);
  }
  registers.rsp = room.stack;
  registers.rip = values.function;
  registers.rax = vectors.size();
  registers.eflags &= ~uint64_t{0x500};  // direction and trap flag
  const uint64_t back = node.control().trap_instruction;
  FRIDAY_TRY_VOID(node.write_raw(Addr{registers.rsp}, std::as_bytes(std::span(&back, 1))));
  FRIDAY_TRY_VOID(node.begin_call(thread, from, registers));
  if (vectors.empty()) return {};
  FRIDAY_TRY(extended, node.extended_state(thread));
  for (size_t i = 0; i < vectors.size(); i++) {
    memset(&extended[kXmm + 16 * i], 0, 16);
    memcpy(&extended[kXmm + 16 * i], &vectors[i], 8);
  }
  extended[kStateBits] |= std::byte{2};
  return node.set_extended_state(thread, extended);
}

// What the function has returned.
Result<std::vector<std::byte>> Calls::returned_by(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call,
                                                  const Room& room) {
  std::vector<std::byte> bytes(call.size);
  if (!call.returned) {
    FRIDAY_TRY_VOID(node.read(Addr{room.returned}, bytes));
    return bytes;
  }
  const bool vectors = std::ranges::find(*call.returned, ExpressionPlan::Passing::vector) != call.returned->end();
  FRIDAY_TRY(registers, node.registers(thread));
  std::vector<std::byte> extended;
  if (vectors) {
    FRIDAY_TRY(state, node.extended_state(thread));
    extended = std::move(state);
  }
  const uint64_t general[] = {registers.rax, registers.rdx};
  size_t next_general = 0, next_vector = 0;
  for (size_t at = 0; const ExpressionPlan::Passing passing : *call.returned) {
    const void* from = passing == ExpressionPlan::Passing::general ? static_cast<const void*>(&general[next_general++])
                                                                   : &extended[kXmm + 16 * next_vector++];
    memcpy(&bytes[at], from, std::min<size_t>(8, bytes.size() - at));
    at += 8;
  }
  return bytes;
}

Result<RawValue> Calls::call(ReplayNode& node, const KnownPlan& p) {
  FRIDAY_TRY_VOID(node.check_goes_on("its functions cannot be called any more"));
  FRIDAY_TRY(thread, focus_.current_thread(node.id()));
  const ExpressionPlan::Call& call = *p.plan->call;
  FRIDAY_TRY(values, evaluate_call(*p.plan, node, thread));
  FRIDAY_TRY(from, node.standing(thread));
  const Room room = room_for(call, from);
  const FunctionEffects& effect = effects(node, values.function);
  const auto error = effect.sets_errno ? errno_of(node, thread, from.view.fs_base) : std::nullopt;
  FRIDAY_TRY(undo, Undo::prepare(node, effect, room, error));
  FRIDAY_TRY_VOID(enter(node, thread, call, values, from, room));
  auto stop = run(node, thread, nullptr);
  if (!stop) return std::unexpected(stop.error());
  const bool failed = session_.call_failure().has_value();
  auto returned = failed ? Result<std::vector<std::byte>>() : returned_by(node, thread, call, room);
  const bool changes = !failed && !(undo.all() ? left_no_trace(node, thread, *undo.all()) : undo.same(node));
  FRIDAY_TRY_VOID(node.end_call(thread));
  if (failed) {
    FRIDAY_TRY_VOID(node.count_stops(false));
    auto undone = undo.restore(node);
    FRIDAY_TRY_VOID(node.count_stops(true));
    observer_->memory_changed(node);
    if (!undone) alterations_.note_any(node.id());
    return std::unexpected(describe_failure(node, p.plan->expression, undone));
  }
  if (!returned) return std::unexpected(returned.error());
  FRIDAY_TRY_VOID(undo.clear_stack(node));
  if (changes) alterations_.note_memory(node.id());
  FRIDAY_TRY(value, evaluate_returned(*p.plan, node, thread, *returned));
  RawValue out{p.type, std::move(value.bytes), std::nullopt};
  if (value.address) out.address = value.address->value;
  return out;
}

}  // namespace friday
