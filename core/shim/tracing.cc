// ptrace(2). A process cannot be traced while it is recorded: its tracer would see the shim's signals, frames and
// patches. So a forked child that asks to be traced (PTRACE_TRACEME) goes on without the shim, and is not recorded from
// there on. Neither is the program that a traced vfork child executes. Their tracer is recorded: what a request writes
// to its memory is an output like others.
//
// What each request reads and writes: kernel/ptrace.c and arch/x86/kernel/ptrace.c. Every request takes (request,
// thread, address, data).
#include <asm/ptrace.h>
#include <linux/ptrace.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/process.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint64_t kRegisters = 216, kFloatingPoint = 512, kSignalInfo = 128, kSegment = 16;
constexpr uint64_t kInstruction = 8;                              // of a seccomp filter: struct sock_filter
constexpr uint64_t kGetFs = 0x1003, kGetGs = 0x1004;              // codes of PTRACE_ARCH_PRCTL, as of arch_prctl(2)
constexpr uint64_t kSetDispatch = 0x4210, kGetDispatch = 0x4211;  // PTRACE_[SG]ET_SYSCALL_USER_DISPATCH_CONFIG, 6.4

}  // namespace

Block tracing_output(const uint64_t* a) {
  switch (a[0]) {
    case PTRACE_PEEKTEXT:
    case PTRACE_PEEKDATA:
    case PTRACE_PEEKUSR:
    case PTRACE_GETEVENTMSG: return {a[3], 8, true};
    case PTRACE_GETREGS: return {a[3], kRegisters, true};
    case PTRACE_GETFPREGS: return {a[3], kFloatingPoint, true};
    case PTRACE_GETSIGINFO: return {a[3], kSignalInfo, true};
    case PTRACE_GET_THREAD_AREA: return {a[3], kSegment, true};
    case PTRACE_ARCH_PRCTL: return {a[2], a[3] == kGetFs || a[3] == kGetGs ? 8u : 0u, true};
    case PTRACE_GETREGSET: return {a[3], sizeof(IoVec), true};  // with the length that was filled
    case PTRACE_GETSIGMASK:
    case kGetDispatch: return {a[3], a[2], true};
    case PTRACE_SECCOMP_GET_METADATA:
    case PTRACE_GET_SYSCALL_INFO:
    case PTRACE_GET_RSEQ_CONFIGURATION: return {a[3], a[2], true, true};
    case PTRACE_TRACEME:
    case PTRACE_POKETEXT:
    case PTRACE_POKEDATA:
    case PTRACE_POKEUSR:
    case PTRACE_CONT:
    case PTRACE_KILL:
    case PTRACE_SINGLESTEP:
    case PTRACE_SETREGS:
    case PTRACE_SETFPREGS:
    case PTRACE_ATTACH:
    case PTRACE_DETACH:
    case PTRACE_OLDSETOPTIONS:
    case PTRACE_SYSCALL:
    case PTRACE_SET_THREAD_AREA:
    case PTRACE_SYSEMU:
    case PTRACE_SYSEMU_SINGLESTEP:
    case PTRACE_SINGLEBLOCK:
    case PTRACE_SETOPTIONS:
    case PTRACE_SETSIGINFO:
    case PTRACE_SETREGSET:
    case PTRACE_SEIZE:
    case PTRACE_INTERRUPT:
    case PTRACE_LISTEN:
    case PTRACE_PEEKSIGINFO:         // tracing_inner_output()
    case PTRACE_SECCOMP_GET_FILTER:  // the same
    case PTRACE_SETSIGMASK:
    case kSetDispatch: return {0, 0, true};
    default: return {0, 0, false};
  }
}

Block tracing_inner_output(const uint64_t* a, long result) {
  switch (a[0]) {
    case PTRACE_GETREGSET: return {((const IoVec*)a[3])->base, ((const IoVec*)a[3])->length, true};
    case PTRACE_PEEKSIGINFO: return {a[3], (uint64_t)result * kSignalInfo, true};
    case PTRACE_SECCOMP_GET_FILTER: return {a[3], a[3] ? (uint64_t)result * kInstruction : 0, true};
    default: return {0, 0, true};
  }
}

uint64_t tracing_input_hash(const uint64_t* a) {
  switch (a[0]) {
    case PTRACE_SETREGS: return hash_at(a[3], kRegisters, 0);
    case PTRACE_SETFPREGS: return hash_at(a[3], kFloatingPoint, 0);
    case PTRACE_SET_THREAD_AREA: return hash_at(a[3], kSegment, 0);
    case PTRACE_SETSIGINFO: return hash_at(a[3], kSignalInfo, 0);
    case PTRACE_SETSIGMASK:
    case kSetDispatch: return hash_at(a[3], a[2], 0);
    case PTRACE_PEEKSIGINFO: return hash_at(a[2], sizeof(ptrace_peeksiginfo_args), 0);
    case PTRACE_GETREGSET: return hash_at(a[3], sizeof(IoVec), 0);
    case PTRACE_SETREGSET: {
      IoVec block = {};
      probed([&] { block = *(const IoVec*)a[3]; });
      return hash_at(block.base, block.length, 0);
    }
    default: return 0;
  }
}

ShimIn shim_in(uint64_t pid) {
  uint64_t word, to[2] = {(uint64_t)&word, sizeof word}, from[2] = {kAreasAddress, sizeof word};
  const long got = native(sys::process_vm_readv, pid, to, 1, from, 1, 0);
  return got == sizeof word ? ShimIn::yes : got == -EFAULT ? ShimIn::no : ShimIn::unknown;
}

bool asks_to_be_traced(const CallFrame* frame) {
  return frame->rax == sys::ptrace && arguments_of(frame)[0] == PTRACE_TRACEME;
}

bool tracing_refused(const CallFrame* frame, const ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (a[0] == PTRACE_ATTACH || a[0] == PTRACE_SEIZE) return shim_in(a[1]) == ShimIn::yes;
  // Only a parent that is recorded can have meant to be the tracer: that of the first node is the recorder.
  if (a[0] == PTRACE_TRACEME) return !area->borrowed && !(is_forked() && can_leave(area));
  return false;
}

}  // namespace friday::shim
