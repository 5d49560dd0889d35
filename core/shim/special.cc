// Calls that the table alone cannot describe: outputs that depend on a code, calls on the shim's own descriptor, and calls
// that change only state the shim keeps itself (and so compute the same at replay).
#include <asm/prctl.h>
#include <linux/fcntl.h>
#include <linux/keyctl.h>
#include <linux/msg.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <linux/sem.h>
#include <linux/shm.h>

#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

namespace {

using Local = long (*)(CallFrame*, ThreadArea*);

// What the kernel would say of a pointer that leads nowhere.
long reached(Local function, CallFrame* frame, ThreadArea* area) {
  long result;
  return probed([&] { result = function(frame, area); }) ? result : -EFAULT;
}

// A call whose effect is computed in process, the same at record and replay.
void run_local(CallFrame* frame, ThreadArea* area, Local function) {
  const CallInfo& info = call_info(frame->rax);
  const uint16_t call = (uint16_t)frame->rax;
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, call);
    long result = reached(function, frame, area);
    replay_same(event, (uint64_t)event->result, (uint64_t)result, frame, area);
    replay_consume(event);
    frame->rax = (uint64_t)result;
    return;
  }
  const uint64_t entry = ticks_now(), hash = input_hash(info, frame);
  uint64_t arguments[6];
  memcpy(arguments, arguments_of(frame), sizeof arguments);
  long result = reached(function, frame, area);
  record_native(area, call, arguments, info.arity, result, entry, hash);
  frame->rax = (uint64_t)result;
}

Block ioctl_output(uint64_t code, uint64_t address) {
  const int bytes = ioctl_output_bytes(code);
  return {address, (uint64_t)(bytes < 0 ? 0 : bytes), bytes >= 0};
}

Block fcntl_output(uint64_t code, uint64_t address) {
  switch (code) {
    case F_GETLK: case F_OFD_GETLK: return {address, 32, true};  // struct flock
    case F_GETOWN_EX: case F_GETOWNER_UIDS: return {address, 8, true};
    case F_GET_RW_HINT: case F_GET_FILE_RW_HINT: return {address, 8, true};
    default: return {0, 0, true};
  }
}

Block prctl_output(const uint64_t* a) {
  constexpr uint64_t kGetAuxv = 0x41555856;  // PR_GET_AUXV, kernel 6.4
  switch (a[0]) {
    case PR_GET_PDEATHSIG: case PR_GET_UNALIGN: case PR_GET_FPEMU: case PR_GET_ENDIAN: case PR_GET_TSC: case PR_GET_CHILD_SUBREAPER: return {a[1], 4, true};
    case PR_GET_NAME: return {a[1], 16, true};
    case PR_SET_MM: return a[1] == PR_SET_MM_MAP_SIZE ? Block{a[2], 4, true} : Block{0, 0, true};
    case PR_GET_TID_ADDRESS: return {a[1], 8, true};
    case PR_SCHED_CORE: return a[1] == PR_SCHED_CORE_GET ? Block{a[4], 8, true} : Block{0, 0, true};
    case kGetAuxv: return {a[1], a[2], true, true};
    case PR_SET_SECCOMP: case PR_SET_SYSCALL_USER_DISPATCH: return {0, 0, false, false, true};
    default: return {0, 0, true};
  }
}

Block futex_output(const uint64_t* a) {
  switch (a[1] & kFutexCommand) {
    case FUTEX_WAIT: case FUTEX_WAKE: case FUTEX_REQUEUE: case FUTEX_CMP_REQUEUE: case FUTEX_WAIT_BITSET: case FUTEX_WAKE_BITSET: return {0, 0, true};
    case FUTEX_WAKE_OP: return {a[4], 4, true};  // it changes the second word
    default: return {0, 0, false};
  }
}

// System V IPC: include/uapi/linux/ipc.h, sem.h, shm.h, msg.h.
Block semctl_output(const uint64_t* a) {
  switch (a[2] & 0xff) {
    case IPC_STAT: case SEM_STAT: case SEM_STAT_ANY: return {a[3], 104, true};  // struct semid64_ds
    case IPC_INFO: case SEM_INFO: return {a[3], 40, true};
    case GETALL: {  // one short a semaphore
      uint64_t about[13] = {};
      if (failed(native(sys::semctl, a[0], 0, IPC_STAT, about))) return {0, 0, true};
      return {a[3], about[10] * 2, true};  // sem_nsems
    }
    default: return {0, 0, true};
  }
}
Block shmctl_output(const uint64_t* a) {
  switch (a[1] & 0xff) {
    case IPC_STAT: case SHM_STAT: case SHM_STAT_ANY: return {a[2], 112, true};
    case IPC_INFO: return {a[2], 72, true};
    case SHM_INFO: return {a[2], 48, true};
    default: return {0, 0, true};
  }
}
Block msgctl_output(const uint64_t* a) {
  switch (a[1] & 0xff) {
    case IPC_STAT: case MSG_STAT: case MSG_STAT_ANY: return {a[2], 120, true};
    case IPC_INFO: case MSG_INFO: return {a[2], 32, true};
    default: return {0, 0, true};
  }
}

Block keyctl_output(const uint64_t* a) {
  switch (a[0]) {
    case KEYCTL_DESCRIBE: case KEYCTL_READ: case KEYCTL_GET_SECURITY: case KEYCTL_DH_COMPUTE: return {a[2], a[3], true, true};
    case KEYCTL_PKEY_QUERY: return {a[4], 56, true};
    case KEYCTL_PKEY_ENCRYPT: case KEYCTL_PKEY_DECRYPT: case KEYCTL_PKEY_SIGN: return {a[4], ~0ull, true, true};
    case KEYCTL_CAPABILITIES: return {a[1], a[2], true, true};
    default: return {0, 0, true};
  }
}

Block seccomp_output(const uint64_t* a) {
  switch (a[0]) {
    case SECCOMP_GET_ACTION_AVAIL: return {0, 0, true};
    case SECCOMP_GET_NOTIF_SIZES: return {a[2], 6, true};
    default: return {0, 0, false, false, true};  // filters would judge the shim's own calls
  }
}

Block output_of(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::ioctl: return ioctl_output(a[1] & 0xffffffff, a[2]);
    case sys::shmctl: return shmctl_output(a);
    case sys::semctl: return semctl_output(a);
    case sys::msgctl: return msgctl_output(a);
    case sys::keyctl: return keyctl_output(a);
    case sys::seccomp: return seccomp_output(a);
    case sys::fcntl: return fcntl_output(a[1] & 0xffffffff, a[2]);
    case sys::prctl: return prctl_output(a);
    case sys::futex: return futex_output(a);
    default: return {0, 0, true};
  }
}

// Made while recording, fed at replay; one output block.
// F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW of fcntl(2), on a struct flock.
bool is_lock(uint64_t command) { return command == 6 || command == 7 || command == 37 || command == 38; }

// A filter of calls would judge those of the shim: the recording ends, unless the kernel refuses the filter.
void record_rules(CallFrame* frame, ThreadArea* area) {
  const uint64_t entry = ticks_now();
  const long said = rules_refused(frame);
  if (said) {
    EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), call_info(frame->rax).arity);
    writer.commit(said == kRulesAsBefore ? 0 : said, 0, entry, ticks_now());
    frame->rax = said == kRulesAsBefore ? 0 : (uint64_t)said;
    return;
  }
  end_at_call(frame);
  if (can_leave(area)) leave_at_call();
  pass_through(frame, area);
}

// False: a handler is entered before the call, which is made again behind it.
bool run_block(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    if (frame->rax == sys::prctl && a[0] == PR_SET_NAME) native(sys::prctl, PR_SET_NAME, a[1], 0, 0, 0);  // shown by debuggers
    replay_call(frame, area, call_info(frame->rax));
    return true;
  }
  Block out = output_of(frame);
  if (out.harmful) {
    record_rules(frame, area);
    return true;
  }
  CallInfo info = call_info(frame->rax);
  if (frame->rax == sys::futex && !futex_waits(a)) info.flags |= kQuick;
  if (frame->rax == sys::process_madvise || frame->rax == sys::seccomp || frame->rax == sys::shmctl || frame->rax == sys::semctl || frame->rax == sys::msgctl || frame->rax == sys::keyctl) info.flags |= kQuick;
  if (frame->rax == sys::close || frame->rax == sys::dup2 || frame->rax == sys::dup3 || frame->rax == sys::close_range) info.flags |= kQuick;
  if (frame->rax == sys::ioctl || (frame->rax == sys::fcntl && a[1] != F_SETLKW && a[1] != F_OFD_SETLKW)) info.flags |= kQuick;
  for (;;) {
    Recorded done = make_call(frame, area, info);
    const bool not_made = done.result == kNotMade;
    if (not_made && !done.stolen) {
      if (signals_deliver(frame, area, Moment::before_call)) return false;
      continue;
    }
    if (not_made) done.result = -EINTR;
    if (control.mode != kModeRecord) {  // another thread ended the recording meanwhile
      if (not_made) pass_through(frame, area);
      else frame->rax = (uint64_t)done.result;
      return true;
    }
    if (frame->rax == sys::futex && futex_waits(a) && group_member()) robust_woken(a[0]);
    const bool filled = !failed(done.result);
    Block inner = {0, 0, true};
    if (filled && (!out.known || (frame->rax == sys::ioctl && !ioctl_inner_output(a, &inner)))) {
      end_at_call(frame);
      frame->rax = (uint64_t)done.result;
      return true;
    }
    if (filled && frame->rax == sys::prctl && a[0] == PR_GET_TID_ADDRESS) friday_copy_out((void*)a[1], &area->clear_tid, 8);  // the shim keeps it
    EventWriter writer(done.stolen ? kReturn : kCall, area, (uint16_t)frame->rax, a, info.arity);
    if (out.by_result && filled) out.size = min(out.size, (uint64_t)done.result);
    const bool seen = probed([&] {
      if (filled && out.address) writer.memory((void*)out.address, out.size);
      if (filled && inner.address) writer.memory((void*)inner.address, inner.size);
      if (failed(done.result) || frame->rax != sys::fcntl || !is_lock(a[1])) return;
      SyncPart part = {*(const int16_t*)a[2] == F_UNLCK ? kLetsGo : kAcquires, 0};
      writer.part(kSync, &part, sizeof part);
    });
    if (!seen) {
      end_at_call(frame, done.result, kGone);
      return true;
    }
    if (!failed(done.result) && frame->rax == sys::fcntl && ((uint32_t)a[1] == F_DUPFD || (uint32_t)a[1] == F_DUPFD_CLOEXEC))
      channel_duplicate((int)a[0], (int)done.result);
    const bool restart = not_made || (done.result == -EINTR && restarts(info, frame, area));
    if (restart) writer.event->header.flags |= kFlagRestarted;
    writer.commit(done.result, done.hash, done.entry, done.exit);
    if (restart) {
      if (signals_deliver(frame, area, Moment::before_call)) return false;
      continue;
    }
    frame->rax = (uint64_t)done.result;
    return true;
  }
}

// A call on the shim's own descriptor, which is not there as far as the program can tell.
void run_around_own(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t own = (uint64_t)own_socket(), entry = ticks_now();
  long result = -EBADF;
  if (frame->rax == sys::close_range) {
    result = a[0] < own ? native(sys::close_range, a[0], own - 1, a[2]) : 0;
    if (result == 0 && own < a[1]) result = native(sys::close_range, own + 1, a[1], a[2]);
  }
  EventWriter writer(kCall, area, (uint16_t)frame->rax, a, call_info(frame->rax).arity);
  writer.commit(result, 0, entry, ticks_now());
  frame->rax = (uint64_t)result;
}

// close, close_range, dup2, dup3: those that would disturb the shim's own descriptor are not made as they are.
void run_descriptor(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t call = frame->rax, from = a[0], to = a[1], own = (uint64_t)own_socket();
  const bool range = call == sys::close_range, closes = range || call == sys::close;
  if (control.mode == kModeReplay) return (void)replay_call(frame, area, call_info(call));
  if (call == sys::close && !collector_owns((int)from)) channel_forget((int)from);
  constexpr uint64_t kCloexec = 4;
  if (range && !(a[2] & kCloexec))
    for (uint64_t fd = from; fd <= to && fd < 65536; fd++) channel_forget((int)fd);
  if (range ? from <= own && own <= to : collector_owns((int)from)) return run_around_own(frame, area);
  if (!closes && collector_owns((int)to)) collector_move();
  if (run_block(frame, area) && !closes && !failed((long)frame->rax) && from != to) channel_duplicate((int)from, (int)to);
}

// Advice to processes may change this one's memory since kernel 6.13. The program sees an older kernel then.
void run_process_madvise(CallFrame* frame, ThreadArea* area) {
  if (control.mode == kModeReplay || !advice_changes_memory(arguments_of(frame)[3])) run_block(frame, area);
  else record_failed(frame, area, -EINVAL);
}

// The shim reads the time-stamp counter all the time, and changes code that it has made writable: a program cannot forbid either to itself.
// PR_SET_MDWE lasts, also over execve(2); it is refused as by kernels before 6.3.
bool forbids_shim(const CallFrame* frame) {
  constexpr uint64_t kSetMdwe = 65;  // PR_SET_MDWE, kernel 6.3
  return frame->rdi == kSetMdwe || (frame->rdi == PR_SET_TSC && (uint32_t)frame->rsi == PR_TSC_SIGSEGV);
}

void run_prctl(CallFrame* frame, ThreadArea* area) {
  if (control.mode == kModeReplay || !forbids_shim(frame)) run_block(frame, area);
  else record_failed(frame, area, -EINVAL);
}

long local_invalid(CallFrame*, ThreadArea*) { return -EINVAL; }

long local_arch_prctl(CallFrame* frame, ThreadArea*) {
  const uint64_t* a = arguments_of(frame);
  // %gs is the shim's, and 0 as far as the program can tell.
  if (a[0] == ARCH_SET_GS) return a[1] ? -EINVAL : 0;
  if (a[0] == ARCH_GET_GS) {
    const uint64_t base = 0;
    friday_copy_out((void*)a[1], &base, sizeof base);
    return 0;
  }
  if (a[0] == ARCH_SET_CPUID) return -ENODEV;  // as where the processor cannot; the shim asks it itself
  return native(sys::arch_prctl, a[0], a[1]);
}
long local_robust_list(CallFrame* frame, ThreadArea* area) {
  if (frame->rsi != 24) return -EINVAL;
  area->robust_list = frame->rdi;
  return control.mode == kModeReplay ? 0 : native(sys::set_robust_list, frame->rdi, 24);
}
long local_tid_address(CallFrame* frame, ThreadArea* area) {
  area->clear_tid = frame->rdi;
  return (long)area->tid;
}

long local_get_robust_list(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const ThreadArea* of = a[0] ? nullptr : area;
  for (uint32_t n = 0; n < control.thread_count && !of; n++)
    if (area_of(n)->alive && area_of(n)->tid == (uint32_t)a[0]) of = area_of(n);
  if (!of) return -ESRCH;
  const uint64_t size = 24;
  friday_copy_out((void*)a[1], &of->robust_list, 8);
  friday_copy_out((void*)a[2], &size, 8);
  return 0;
}

// A signal that the return from a handler has unblocked is delivered on the way out.
bool another_handler(CallFrame* frame, ThreadArea* area) {
  if (control.mode != kModeReplay) return signals_pending(area) && signals_deliver(frame, area, Moment::anywhere);
  return replay_signal_follows(area) && signals_deliver(frame, area, Moment::anywhere);
}

}  // namespace

// What the call is asked to do stands in codes among its arguments, which go into the record as numbers; readers have the names.
void end_at_call(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  uint64_t codes[2] = {0, 0};
  switch (frame->rax) {
    case sys::ioctl: codes[0] = a[1] & 0xffffffff, codes[1] = ioctl_command(a); break;
    case sys::clone: codes[0] = a[0] & ~0xffull; break;  // without the exit signal
    case sys::fcntl: codes[0] = a[1] & 0xffffffff; break;
    case sys::prctl: case sys::seccomp: codes[0] = a[0]; break;
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

bool special_is_plain(const CallFrame* frame) {
  const uint64_t call = frame->rax;
  if (call == sys::futex) return !futex_inherits(arguments_of(frame));
  return call == sys::close || call == sys::dup2 || call == sys::dup3 || call == sys::close_range || call == sys::ioctl || call == sys::fcntl || call == sys::prctl || call == sys::execve ||
         call == sys::execveat || call == sys::shmctl || call == sys::semctl || call == sys::msgctl || call == sys::keyctl || call == sys::seccomp || call == sys::process_madvise || call == sys::getrlimit ||
         call == sys::setrlimit || call == sys::prlimit64;
}

bool local_call(CallFrame* frame, ThreadArea* area) {
  Local function = nullptr;
  switch (frame->rax) {
    case sys::rt_sigaction: function = do_sigaction; break;
    case sys::rt_sigprocmask: function = do_sigprocmask; break;
    case sys::sigaltstack: function = do_sigaltstack; break;
    case sys::prctl:
      if (!forbids_shim(frame)) return false;
      function = local_invalid;
      break;
    case sys::arch_prctl: function = local_arch_prctl; break;
    case sys::set_tid_address: function = local_tid_address; break;
    case sys::set_robust_list: function = local_robust_list; break;
    case sys::get_robust_list: function = local_get_robust_list; break;
    case sys::getrlimit: case sys::setrlimit: case sys::prlimit64: function = local_limit; break;
    default: return false;
  }
  frame->rax = (uint64_t)function(frame, area);
  return true;
}

bool special_call(CallFrame* frame, ThreadArea* area) {
  switch (frame->rax) {
    case sys::close: case sys::dup2: case sys::dup3: case sys::close_range: run_descriptor(frame, area); break;
    case sys::mmap: frame->rax = (uint64_t)do_mmap(frame, area); break;
    case sys::mprotect: frame->rax = (uint64_t)do_mprotect(frame, area); break;
    case sys::brk: frame->rax = (uint64_t)do_brk(frame, area); break;
    case sys::mremap: frame->rax = (uint64_t)do_mremap(frame, area); break;
    case sys::madvise: frame->rax = (uint64_t)do_madvise(frame, area); break;
    case sys::rt_sigaction: run_local(frame, area, do_sigaction); break;
    case sys::rt_sigprocmask: run_local(frame, area, do_sigprocmask); break;
    case sys::sigaltstack: run_local(frame, area, do_sigaltstack); break;
    case sys::arch_prctl: run_local(frame, area, local_arch_prctl); break;
    case sys::set_tid_address: run_local(frame, area, local_tid_address); break;
    case sys::set_robust_list: run_local(frame, area, local_robust_list); break;
    case sys::get_robust_list: run_local(frame, area, local_get_robust_list); break;
    case sys::rt_sigreturn: {
      if (control.mode == kModeReplay) {
        replay_consume(replay_expect(frame, area, kCall, sys::rt_sigreturn));
      } else {
        EventWriter writer(kCall, area, sys::rt_sigreturn, nullptr, 0);
        uint64_t now = ticks_now();
        writer.commit(0, input_hash(call_info(sys::rt_sigreturn), frame), now, now);
      }
      do_sigreturn(frame, area);
      if (!another_handler(frame, area)) sigreturn_finish(frame);
      break;
    }
    case sys::ioctl: case sys::shmctl: case sys::semctl: case sys::msgctl: case sys::fcntl: case sys::keyctl: case sys::seccomp: run_block(frame, area); break;
    case sys::futex:
      if (futex_inherits(arguments_of(frame))) do_futex_inheriting(frame, area);
      else run_block(frame, area);
      break;
    case sys::prctl: run_prctl(frame, area); break;
    case sys::shmat: frame->rax = (uint64_t)do_shmat(frame, area); break;
    case sys::shmdt: frame->rax = (uint64_t)do_shmdt(frame, area); break;
    case sys::process_madvise: run_process_madvise(frame, area); break;
    case sys::getrlimit: case sys::setrlimit: case sys::prlimit64: do_limit(frame, area); break;
    case sys::io_setup: frame->rax = (uint64_t)do_io_setup(frame, area); break;
    case sys::io_destroy: frame->rax = (uint64_t)do_io_destroy(frame, area); break;
    case sys::clone: case sys::fork: case sys::vfork: frame->rax = (uint64_t)do_clone(frame, area); break;
    case sys::exit: do_thread_exit(frame, area); break;
    case sys::exit_group: do_exit_group(frame, area); break;
    case sys::execve: case sys::execveat: do_exec(frame, area); break;
    default: {
      end_at_call(frame);
      pass_through(frame, area);
    }
  }
  return frame->full;
}

}  // namespace friday::shim
