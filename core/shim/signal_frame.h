// What the three files about signals share: the kernel's structures, what the program asked for each signal, and the
// entry of a handler. signals.cc has the program's own actions, masks and pending signals, signal_frame.cc the frame on
// its stack, signal_handlers.cc the handlers that the shim installs in its place.
#pragma once

#include <linux/signal.h>

#include "core/shim/runtime.h"

namespace friday::shim {

struct KernelAction {
  uint64_t handler, flags, restorer, mask;
};
inline constexpr uint64_t kOnStack = 0x08000000, kRestartFlag = 0x10000000, kNoDefer = 0x40000000,
                          kResetHand = 0x80000000, kSigInfo = 4, kRestorer = 0x04000000;
inline constexpr uint64_t kIgnored = 1;  // SIG_IGN
extern KernelAction actions[65];         // what the program asked for

// The kernel's frame (arch/x86/include/uapi/asm/sigcontext.h, asm-generic/ucontext.h).
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
struct SignalFrame {
  uint64_t return_address;
  UserContext context;
  uint8_t info[128];
};

inline uint64_t bit(int signal) { return 1ull << (signal - 1); }
inline bool synchronous(int signal) { return signal == 11 || signal == 7 || signal == 8 || signal == 5; }
// Those that the kernel also raises for what an instruction does; SIGSYS for the calls that are caught.
inline bool may_be_raised(int signal) { return synchronous(signal) || signal == 4 || signal == 31; }

// Of ThreadArea::altstack[1], in which the flags stand as the program gave them.
inline constexpr uint32_t kStackOn = 1, kStackOff = 2, kAutoDisarm = 1u << 31;  // SS_ONSTACK, SS_DISABLE, SS_AUTODISARM
inline constexpr uint64_t kTrapFlag = 0x100;

// ---- signals.cc
uint64_t resting_mask(const ThreadArea* area);    // what the kernel blocks while the thread runs code of the program's
uint64_t caught();                                // the signals with a handler that may wait in the kernel
void set_kernel_mask(ThreadArea* area);           // the program's mask has changed
const uint64_t* mask_of(const CallFrame* frame);  // the mask that a call sets while it waits; null if none
int take_pending(ThreadArea* area, uint8_t* info);

// ---- signal_handlers.cc
void install_for(int signal);

// ---- signal_frame.cc
bool enter_handler(CallFrame* frame, ThreadArea* area, int signal, const void* info, const uint64_t* fault = nullptr,
                   uint8_t* kernels = nullptr);
void let_it_kill(int signal);
void note_fault(int signal, uint64_t rip);
bool ends_as_child(ThreadArea* area, uint64_t* rax, uint64_t* rip);
void copy_registers(CallFrame* to, const SignalContext& c);
void copy_registers(SignalContext& to, const CallFrame* c);

}  // namespace friday::shim
