// Calls whose outputs depend on a code among their arguments (CODED in calls.def): what they write, which of them would
// harm the recording and are refused, and how the recording ends at one that is not handled.
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/in.h>
#include <linux/keyctl.h>
#include <linux/msg.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/sem.h>
#include <linux/shm.h>
#include <linux/tcp.h>

#include "core/shim/calls.h"
#include "core/shim/memory.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

Block ioctl_output(uint64_t code, uint64_t address) {
  const int bytes = ioctl_output_bytes(code);
  return {address, (uint64_t)(bytes < 0 ? 0 : bytes), bytes >= 0};
}

Block fcntl_output(uint64_t code, uint64_t address) {
  switch (code) {
    case F_GETLK:
    case F_OFD_GETLK: return {address, 32, true};  // struct flock
    case F_GETOWN_EX:
    case F_GETOWNER_UIDS: return {address, 8, true};
    case F_GET_RW_HINT:
    case F_GET_FILE_RW_HINT: return {address, 8, true};
    default: return {0, 0, true};
  }
}

Block prctl_output(const uint64_t* a) {
  constexpr uint64_t kGetAuxv = 0x41555856;  // PR_GET_AUXV, kernel 6.4
  switch (a[0]) {
    case PR_GET_PDEATHSIG:
    case PR_GET_UNALIGN:
    case PR_GET_FPEMU:
    case PR_GET_ENDIAN:
    case PR_GET_TSC:
    case PR_GET_CHILD_SUBREAPER: return {a[1], 4, true};
    case PR_GET_NAME: return {a[1], 16, true};
    case PR_SET_MM: return a[1] == PR_SET_MM_MAP_SIZE ? Block{a[2], 4, true} : Block{0, 0, true};
    case PR_GET_TID_ADDRESS: return {a[1], 8, true};
    case PR_SCHED_CORE: return a[1] == PR_SCHED_CORE_GET ? Block{a[4], 8, true} : Block{0, 0, true};
    case kGetAuxv: return {a[1], a[2], true, true};
    default: return {0, 0, true};
  }
}

Block futex_output(const uint64_t* a) {
  switch (a[1] & kFutexCommand) {
    case FUTEX_WAIT:
    case FUTEX_WAKE:
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAKE_BITSET: return {0, 0, true};
    case FUTEX_WAKE_OP: return {a[4], 4, true};  // modifies the second word
    default: return {0, 0, false};
  }
}

// System V IPC: include/uapi/linux/ipc.h, sem.h, shm.h, msg.h.
Block semctl_output(const uint64_t* a) {
  switch (a[2] & 0xff) {
    case IPC_STAT:
    case SEM_STAT:
    case SEM_STAT_ANY: return {a[3], 104, true};  // struct semid64_ds
    case IPC_INFO:
    case SEM_INFO: return {a[3], 40, true};
    case GETALL: {  // a short for each semaphore
      uint64_t about[13] = {};
      if (failed(native(sys::semctl, a[0], 0, IPC_STAT, about))) return {0, 0, true};
      return {a[3], about[10] * 2, true};  // sem_nsems
    }
    default: return {0, 0, true};
  }
}
Block shmctl_output(const uint64_t* a) {
  switch (a[1] & 0xff) {
    case IPC_STAT:
    case SHM_STAT:
    case SHM_STAT_ANY: return {a[2], 112, true};
    case IPC_INFO: return {a[2], 72, true};
    case SHM_INFO: return {a[2], 48, true};
    default: return {0, 0, true};
  }
}
Block msgctl_output(const uint64_t* a) {
  switch (a[1] & 0xff) {
    case IPC_STAT:
    case MSG_STAT:
    case MSG_STAT_ANY: return {a[2], 120, true};
    case IPC_INFO:
    case MSG_INFO: return {a[2], 32, true};
    default: return {0, 0, true};
  }
}

Block keyctl_output(const uint64_t* a) {
  switch (a[0]) {
    case KEYCTL_DESCRIBE:
    case KEYCTL_READ:
    case KEYCTL_GET_SECURITY:
    case KEYCTL_DH_COMPUTE: return {a[2], a[3], true, true};
    case KEYCTL_PKEY_QUERY: return {a[4], 56, true};
    case KEYCTL_PKEY_ENCRYPT:
    case KEYCTL_PKEY_DECRYPT:
    case KEYCTL_PKEY_SIGN: return {a[4], ~0ull, true, true};
    case KEYCTL_CAPABILITIES: return {a[1], a[2], true};  // what the kernel does not fill is cleared
    default: return {0, 0, true};
  }
}

Block seccomp_output(const uint64_t* a) {
  switch (a[0]) {
    case SECCOMP_SET_MODE_FILTER:  // one behind which recording goes on (filters.cc)
    case SECCOMP_GET_ACTION_AVAIL: return {0, 0, true};
    case SECCOMP_GET_NOTIF_SIZES: return {a[2], 6, true};
    default: return {0, 0, false};
  }
}

}  // namespace

Block coded_output(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::ioctl: return ioctl_output(a[1] & 0xffffffff, a[2]);
    case sys::shmctl: return shmctl_output(a);
    case sys::semctl: return semctl_output(a);
    case sys::msgctl: return msgctl_output(a);
    case sys::keyctl: return keyctl_output(a);
    case sys::seccomp: return seccomp_output(a);
    case sys::ptrace: return tracing_output(a);
    case sys::fcntl: return fcntl_output(a[1] & 0xffffffff, a[2]);
    case sys::prctl: return prctl_output(a);
    case sys::futex: return futex_output(a);
    default: return {0, 0, true};
  }
}

bool coded_complete(const CallFrame* frame, const ThreadArea* area, long result, Block* out, Block* inner) {
  const uint64_t* a = arguments_of(frame);
  if (!out->known || (frame->rax == sys::ioctl && !ioctl_inner_output(a, inner))) return false;
  if (frame->rax == sys::ptrace) *inner = tracing_inner_output(a, result);
  if (out->by_result) out->size = min(out->size, (uint64_t)result);
  if (frame->rax == sys::prctl && a[0] == PR_GET_TID_ADDRESS)
    friday_copy_out((void*)a[1], &area->clear_tid, 8);  // the kernel's address is not the program's
  return true;
}

void write_reached_coded(EventWriter& writer, const CallFrame* frame, const Block& out) {
  constexpr uint64_t kMost = 1 << 20;  // bytes, where the size of the program's buffer is not known
  const uint64_t* a = arguments_of(frame);
  Block inner;
  if (frame->rax == sys::ioctl) probed([&] { ioctl_inner_output(a, &inner); });
  if (out.size) write_reached(writer, out.address, min(out.size, kMost));
  if (inner.size) write_reached(writer, inner.address, min(inner.size, kMost));
}

bool waits_by_code(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  return (frame->rax == sys::futex && futex_waits(a)) ||
         (frame->rax == sys::fcntl && (a[1] == F_SETLKW || a[1] == F_OFD_SETLKW));
}

void note_fcntl(EventWriter& writer, const uint64_t* a, long result) {
  switch ((uint32_t)a[1]) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: channel_duplicate((int)a[0], (int)result); break;
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_SETLK:
    case F_OFD_SETLKW: {
      SyncPart part = {*(const int16_t*)a[2] == F_UNLCK ? kLetsGo : kAcquires, 0};  // flock::l_type
      writer.part(kSync, &part, sizeof part);
    }
  }
}

// Whether a call on futexes of several sizes has FUTEX2_NUMA, of include/uapi/linux/futex.h since kernel 6.7.
static bool futex_has_node(const CallFrame* frame) {
  constexpr uint32_t kNuma = 4, kMostWaiters = 128 /* FUTEX_WAITV_MAX */;
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == sys::futex_wake || frame->rax == sys::futex_wait) return a[3] & kNuma;
  struct Waiter {  // struct futex_waitv
    uint64_t value, word;
    uint32_t flags, reserved;
  };
  const uint32_t count = frame->rax == sys::futex_requeue ? 2 : min((uint32_t)a[1], kMostWaiters);
  bool found = false;
  probed([&] {
    for (uint32_t i = 0; i < count; i++) found |= (((const Waiter*)a[0])[i].flags & kNuma) != 0;
  });
  return found;
}

long refused_for_shim(const CallFrame* frame, const ThreadArea* area) {
  constexpr uint64_t kSetMdwe = 65;  // PR_SET_MDWE, kernel 6.3
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    // TCP_ZEROCOPY_RECEIVE maps pages of the socket and writes to memory that its argument names. It fails as with
    // kernels before 4.18.
    case sys::getsockopt: return a[1] == IPPROTO_TCP && a[2] == TCP_ZEROCOPY_RECEIVE ? -ENOPROTOOPT : 0;
    // PR_TSC_SIGSEGV would forbid the shim to read the time-stamp counter, and PR_SET_MDWE to make code writable, also
    // after execve(2). The latter fails as with kernels before 6.3.
    case sys::prctl: return a[0] == kSetMdwe || (a[0] == PR_SET_TSC && (uint32_t)a[1] == PR_TSC_SIGSEGV) ? -EINVAL : 0;
    case sys::ptrace: return tracing_refused(frame, area) ? -ENOSYS : 0;
    case sys::futex_waitv:
    case sys::futex_wake:
    case sys::futex_wait:
    case sys::futex_requeue: return futex_has_node(frame) ? -EINVAL : 0;
    // Since kernel 6.13 it may change the memory of the calling process. It fails as with older kernels.
    case sys::process_madvise: return advice_changes_memory(a[3]) ? -EINVAL : 0;
    default: return 0;
  }
}

// The text is the codes in hexadecimal; readers of the recording know their names (core/trace/code_names.cc).
void end_at_call(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  uint64_t codes[2] = {0, 0};
  switch (frame->rax) {
    case sys::ioctl: codes[0] = a[1] & 0xffffffff, codes[1] = ioctl_command(a); break;
    case sys::clone: codes[0] = a[0] & ~0xffull; break;  // without the exit signal
    case sys::fcntl: codes[0] = a[1] & 0xffffffff; break;
    case sys::prctl:
    case sys::ptrace:
    case sys::seccomp: codes[0] = a[0]; break;
    case sys::futex: codes[0] = a[1] & kFutexCommand; break;
    default: return trace_end(kEndUnhandled, (int)frame->rax, call_info(frame->rax).name);
  }
  char text[48], *to = text;
  for (int n = 0; n < (codes[1] ? 2 : 1); n++) {
    if (n) *to++ = ' ';
    *to++ = '0', *to++ = 'x';
    int shift = 60;
    while (shift && !(codes[n] >> shift)) shift -= 4;
    for (; shift >= 0; shift -= 4) *to++ = "0123456789abcdef"[codes[n] >> shift & 15];
  }
  *to = 0;
  trace_end(kEndUnhandled, (int)frame->rax, text);
}

}  // namespace friday::shim
