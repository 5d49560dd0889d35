#include "core/replay/kernel_state.h"

#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/trace/calls.h"

namespace friday {
namespace {

constexpr int kRaised[KernelState::kSignals] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
constexpr uint64_t kSetBytes = 8;                 // of a signal set
constexpr uint64_t kAskPersonality = 0xffffffff;  // personality(2): change nothing

Result<uint64_t> call_in(ReplayNode& node, pid_t tid, long number, std::initializer_list<uint64_t> arguments) {
  const std::vector<uint64_t> values(arguments);
  FRIDAY_TRY(done, node.process().inject(tid, node.control().syscall_instruction, number, values));
  if (done < 0)
    return fail(ErrorCode::io, "{} in a process of node {}: {}", call_text(static_cast<unsigned>(number)), node.id(),
                errno_text(static_cast<int>(-done)));
  return static_cast<uint64_t>(done);
}

template <typename T>
Result<void> put(ReplayNode& node, const T& value) {
  if (!node.process().write(node.receiver().memory, &value, sizeof value))
    return std::unexpected(process_gone(node.id()));
  return {};
}

template <typename T>
Result<void> get(ReplayNode& node, T& value) {
  if (!node.process().read(node.receiver().memory, &value, sizeof value))
    return std::unexpected(process_gone(node.id()));
  return {};
}

}  // namespace

Result<void> read_signal_stack(ReplayNode& node, pid_t tid, uint64_t (&stack)[3]) {
  FRIDAY_TRY_VOID(call_in(node, tid, SYS_sigaltstack, {0, node.receiver().memory}));
  return get(node, stack);
}

Result<void> set_signal_stack(ReplayNode& node, pid_t tid, const uint64_t (&stack)[3]) {
  FRIDAY_TRY_VOID(put(node, stack));
  FRIDAY_TRY_VOID(call_in(node, tid, SYS_sigaltstack, {node.receiver().memory, 0}));
  return {};
}

Result<KernelState> read_kernel_state(ReplayNode& node, pid_t tid) {
  KernelState state;
  for (size_t i = 0; i < KernelState::kSignals; i++) {
    FRIDAY_TRY_VOID(call_in(node, tid, SYS_rt_sigaction,
                            {static_cast<uint64_t>(kRaised[i]), 0, node.receiver().memory, kSetBytes}));
    FRIDAY_TRY_VOID(get(node, state.actions[i]));
  }
  rlimit stack{};
  if (prlimit(node.process().pid(), RLIMIT_STACK, nullptr, &stack) != 0)
    return std::unexpected(process_gone(node.id()));
  state.stack_limit = stack.rlim_cur;
  FRIDAY_TRY(personality, call_in(node, tid, SYS_personality, {kAskPersonality}));
  state.read_implies_exec = personality & READ_IMPLIES_EXEC;
  return state;
}

Result<void> set_kernel_state(ReplayNode& node, pid_t tid, const KernelState& state) {
  for (size_t i = 0; i < KernelState::kSignals; i++) {
    FRIDAY_TRY_VOID(put(node, state.actions[i]));
    FRIDAY_TRY_VOID(call_in(node, tid, SYS_rt_sigaction,
                            {static_cast<uint64_t>(kRaised[i]), node.receiver().memory, 0, kSetBytes}));
  }
  rlimit stack{};
  if (prlimit(node.process().pid(), RLIMIT_STACK, nullptr, &stack) != 0)
    return std::unexpected(process_gone(node.id()));
  stack.rlim_cur = std::min<rlim_t>(state.stack_limit, stack.rlim_max);
  if (prlimit(node.process().pid(), RLIMIT_STACK, &stack, nullptr) != 0)
    return fail_errno(errno, fmt::format("the stack limit of a process of node {}", node.id()));
  FRIDAY_TRY(now, call_in(node, tid, SYS_personality, {kAskPersonality}));
  const uint64_t bits = (now & ~uint64_t{READ_IMPLIES_EXEC}) | (state.read_implies_exec & READ_IMPLIES_EXEC);
  FRIDAY_TRY_VOID(call_in(node, tid, SYS_personality, {bits}));
  return {};
}

}  // namespace friday
