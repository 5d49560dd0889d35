// What the three files about signals share: the kernel's structures, the program's dispositions, and how a handler is
// entered. signals.cc has the program's dispositions, masks and pending signals, signal_frame.cc the frame on its
// stack, signal_handlers.cc the handlers that the shim installs with the kernel.
#pragma once

#include <linux/signal.h>

#include "core/shim/runtime.h"

namespace friday::shim {

struct KernelAction {
  uint64_t handler, flags, restorer, mask;
};
inline constexpr uint64_t kOnStack = SA_ONSTACK, kRestartFlag = SA_RESTART, kNoDefer = SA_NODEFER,
                          kResetHand = SA_RESETHAND, kSigInfo = SA_SIGINFO, kRestorer = SA_RESTORER;
inline constexpr uint64_t kIgnored = 1;  // SIG_IGN
extern KernelAction actions[65];         // the program's dispositions, by signal number

// The frame that the kernel builds for a handler (arch/x86/include/uapi/asm/sigcontext.h, asm-generic/ucontext.h).
struct SignalContext {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
  uint16_t cs, gs, fs, ss;
  uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};
struct UserContext {
  uint64_t flags, link;
  uint64_t stack_pointer;
  int32_t stack_flags, pad;
  uint64_t stack_size;
  SignalContext context;
  uint64_t mask;
};
// What software has written into the extended state of a frame (struct _fpx_sw_bytes in asm/sigcontext.h); behind the
// state stands kMagicBehind.
struct SoftwareBytes {
  uint32_t magic, all_bytes;
  uint64_t components;
  uint32_t bytes;
};
inline constexpr uint64_t kSoftwareAt = 464;
inline constexpr uint32_t kMagic = 0x46505853, kMagicBehind = 0x46505845;  // FP_XSTATE_MAGIC1, FP_XSTATE_MAGIC2
struct SignalFrame {
  uint64_t return_address;
  UserContext context;
  uint8_t info[128];
};

inline uint64_t bit(int signal) { return 1ull << (signal - 1); }
// Signals that an instruction raises, so that a replay raises them by itself.
inline bool synchronous(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGTRAP;
}
// All signals that the kernel raises for an instruction: SIGSYS for a system call that is caught.
inline bool may_be_raised(int signal) { return synchronous(signal) || signal == SIGILL || signal == SIGSYS; }

// SS_ONSTACK, SS_DISABLE and SS_AUTODISARM, in ThreadArea::altstack[1].
inline constexpr uint32_t kStackOn = 1, kStackOff = 2, kAutoDisarm = 1u << 31;
inline constexpr uint64_t kTrapFlag = 0x100;  // of rflags

// ---- signals.cc
// The mask that the kernel has while the thread runs the program's code: the program's, and caught() while a signal is
// pending.
uint64_t resting_mask(const ThreadArea* area);
uint64_t caught();                       // the signals that have a handler and that the kernel may keep pending
void set_kernel_mask(ThreadArea* area);  // gives the kernel the program's mask, which has changed
const uint64_t* mask_of(const CallFrame* frame);    // the mask with which the call waits; null if it has none
int take_pending(ThreadArea* area, uint8_t* info);  // removes the oldest pending signal and returns its number

// ---- signal_handlers.cc
// Installs the shim's handler, or the program's disposition, with the kernel.
void install_for(int signal);

// ---- signal_frame.cc
// Builds a signal frame on the program's stack. `frame` has the registers to which the handler will return, and leads
// into the handler afterwards. For a fault, `fault` is its error code, trap number and address; in a handler of the
// shim's, `kernels` is the extended state in the kernel's frame. False: the stack has no room, and the thread dies.
bool enter_handler(CallFrame* frame, ThreadArea* area, int signal, const void* info, const uint64_t* fault = nullptr,
                   uint8_t* kernels = nullptr);
void let_it_kill(int signal);               // sets the kernel's disposition to the default
void note_fault(int signal, uint64_t rip);  // FileHeader: the process is about to die of a fault at `rip`
// At replay, if the thread acts as a vfork child that dies here: makes the registers lead to its parent's return.
bool ends_as_child(ThreadArea* area, uint64_t* rax, uint64_t* rip);
void copy_registers(CallFrame* to, const SignalContext& c);
void copy_registers(SignalContext& to, const CallFrame* c);

}  // namespace friday::shim
