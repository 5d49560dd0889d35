// Calls that the table alone cannot describe: outputs that depend on a code, calls on the shim's own descriptor, and calls
// that change only state the shim keeps itself (and so compute the same at replay).
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

namespace {

using Local = long (*)(CallFrame*, ThreadArea*);

// What the kernel would say of a pointer that leads nowhere.
long reached(Local function, CallFrame* frame, ThreadArea* area) {
  long result;
  return probed([&] { result = function(frame, area); }) ? result : -14 /* EFAULT */;
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
    case 5: case 36: return {address, 32, true};  // F_GETLK, F_OFD_GETLK
    case 16: case 17: return {address, 8, true};  // F_GETOWN_EX, F_GETOWNER_UIDS
    case 1035: case 1037: return {address, 8, true};  // F_GET_RW_HINT, F_GET_FILE_RW_HINT
    default: return {0, 0, true};
  }
}

Block prctl_output(const uint64_t* a) {
  switch (a[0]) {
    case 2: case 5: case 9: case 19: case 25: case 37: return {a[1], 4, true};  // GET_PDEATHSIG, GET_UNALIGN, ...
    case 16: return {a[1], 16, true};  // PR_GET_NAME
    case 35: return a[1] == 15 ? Block{a[2], 4, true} : Block{0, 0, true};   // PR_SET_MM: PR_SET_MM_MAP_SIZE
    case 40: return {a[1], 8, true};   // PR_GET_TID_ADDRESS
    case 62: return a[1] == 0 ? Block{a[4], 8, true} : Block{0, 0, true};    // PR_SCHED_CORE: PR_SCHED_CORE_GET
    case 0x41555856: return {a[1], a[2], true, true};  // PR_GET_AUXV
    case 22: case 59: return {0, 0, false, false, true};  // PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH
    default: return {0, 0, true};
  }
}

Block futex_output(const uint64_t* a) {
  switch (a[1] & 127) {
    case 0: case 1: case 3: case 4: case 9: case 10: return {0, 0, true};
    case 5: return {a[4], 4, true};    // FUTEX_WAKE_OP changes the second word
    default: return {0, 0, false};
  }
}

// System V IPC: include/uapi/linux/ipc.h, sem.h, shm.h, msg.h.
Block semctl_output(const uint64_t* a) {
  switch (a[2] & 0xff) {
    case 2: case 18: case 20: return {a[3], 104, true};  // IPC_STAT, SEM_STAT, SEM_STAT_ANY: struct semid64_ds
    case 3: case 19: return {a[3], 40, true};            // IPC_INFO, SEM_INFO
    case 13: {                                           // GETALL: one short a semaphore
      uint64_t about[13] = {};
      if (failed(native(66, a[0], 0, 2, about))) return {0, 0, true};
      return {a[3], about[10] * 2, true};  // sem_nsems
    }
    default: return {0, 0, true};
  }
}
Block shmctl_output(const uint64_t* a) {
  switch (a[1] & 0xff) {
    case 2: case 13: case 15: return {a[2], 112, true};  // IPC_STAT, SHM_STAT, SHM_STAT_ANY
    case 3: return {a[2], 72, true};
    case 14: return {a[2], 48, true};
    default: return {0, 0, true};
  }
}
Block msgctl_output(const uint64_t* a) {
  switch (a[1] & 0xff) {
    case 2: case 11: case 13: return {a[2], 120, true};
    case 3: case 12: return {a[2], 32, true};
    default: return {0, 0, true};
  }
}

Block keyctl_output(const uint64_t* a) {
  switch (a[0]) {
    case 6: case 11: case 17: case 23: return {a[2], a[3], true, true};  // DESCRIBE, READ, GET_SECURITY, DH_COMPUTE
    case 24: return {a[4], 56, true};                           // PKEY_QUERY
    case 25: case 26: case 27: return {a[4], ~0ull, true, true};  // PKEY_ENCRYPT, PKEY_DECRYPT, PKEY_SIGN
    case 31: return {a[1], a[2], true, true};                   // CAPABILITIES
    default: return {0, 0, true};
  }
}

Block seccomp_output(const uint64_t* a) {
  switch (a[0]) {
    case 2: return {0, 0, true};       // GET_ACTION_AVAIL
    case 3: return {a[2], 6, true};    // GET_NOTIF_SIZES
    default: return {0, 0, false, false, true};  // filters would judge the shim's own calls
  }
}

Block output_of(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case 16: return ioctl_output(a[1] & 0xffffffff, a[2]);
    case 31: return shmctl_output(a);
    case 66: return semctl_output(a);
    case 71: return msgctl_output(a);
    case 250: return keyctl_output(a);
    case 317: return seccomp_output(a);
    case 72: return fcntl_output(a[1] & 0xffffffff, a[2]);
    case 157: return prctl_output(a);
    case 202: return futex_output(a);
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
    if (frame->rax == 157 && a[0] == 15) native(157, 15, a[1], 0, 0, 0);  // PR_SET_NAME: shown by debuggers
    replay_call(frame, area, call_info(frame->rax));
    return true;
  }
  Block out = output_of(frame);
  if (out.harmful) {
    record_rules(frame, area);
    return true;
  }
  CallInfo info = call_info(frame->rax);
  if (frame->rax == 202 && (a[1] & 127) % 9 != 0) info.flags |= kQuick;  // only FUTEX_WAIT and FUTEX_WAIT_BITSET wait
  if (frame->rax == 440 || frame->rax == 317 || frame->rax == 31 || frame->rax == 66 || frame->rax == 71 || frame->rax == 250) info.flags |= kQuick;
  if (frame->rax == 3 || frame->rax == 33 || frame->rax == 292 || frame->rax == 436) info.flags |= kQuick;
  if (frame->rax == 16 || (frame->rax == 72 && a[1] != 7 && a[1] != 38)) info.flags |= kQuick;
  for (;;) {
    Recorded done = make_call(frame, area, info);
    const bool not_made = done.result == kNotMade;
    if (not_made && !done.stolen) {
      if (signals_deliver(frame, area, Moment::before_call)) return false;
      continue;
    }
    if (not_made) done.result = -4;
    if (control.mode != kModeRecord) {  // another thread ended the recording meanwhile
      if (not_made) pass_through(frame, area);
      else frame->rax = (uint64_t)done.result;
      return true;
    }
    if (frame->rax == 202 && (a[1] & 127) % 9 == 0 && group_member()) robust_woken(a[0]);
    const bool filled = !failed(done.result);
    Block inner = {0, 0, true};
    if (filled && (!out.known || (frame->rax == 16 && !ioctl_inner_output(a, &inner)))) {
      end_at_call(frame);
      frame->rax = (uint64_t)done.result;
      return true;
    }
    if (filled && frame->rax == 157 && a[0] == 40) friday_copy_out((void*)a[1], &area->clear_tid, 8);  // the shim keeps it
    EventWriter writer(done.stolen ? kReturn : kCall, area, (uint16_t)frame->rax, a, info.arity);
    if (out.by_result && filled) out.size = min(out.size, (uint64_t)done.result);
    const bool seen = probed([&] {
      if (filled && out.address) writer.memory((void*)out.address, out.size);
      if (filled && inner.address) writer.memory((void*)inner.address, inner.size);
      if (failed(done.result) || frame->rax != 72 || !is_lock(a[1])) return;
      SyncPart part = {*(const int16_t*)a[2] == 2 /* F_UNLCK */ ? kLetsGo : kAcquires, 0};
      writer.part(kSync, &part, sizeof part);
    });
    if (!seen) {
      end_at_call(frame, done.result, kGone);
      return true;
    }
    if (!failed(done.result) && frame->rax == 72 && ((a[1] & 0xffffffff) == 0 || (a[1] & 0xffffffff) == 1030))
      channel_duplicate((int)a[0], (int)done.result);
    const bool restart = not_made || (done.result == -4 && restarts(info, frame, area));
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
  long result = -9 /* EBADF */;
  if (frame->rax == 436) {  // close_range
    result = a[0] < own ? native(436, a[0], own - 1, a[2]) : 0;
    if (result == 0 && own < a[1]) result = native(436, own + 1, a[1], a[2]);
  }
  EventWriter writer(kCall, area, (uint16_t)frame->rax, a, call_info(frame->rax).arity);
  writer.commit(result, 0, entry, ticks_now());
  frame->rax = (uint64_t)result;
}

// close, close_range, dup2, dup3: those that would disturb the shim's own descriptor are not made as they are.
void run_descriptor(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t call = frame->rax, from = a[0], to = a[1], own = (uint64_t)own_socket();
  const bool range = call == 436, closes = range || call == 3;
  if (control.mode == kModeReplay) return (void)replay_call(frame, area, call_info(call));
  if (call == 3 && !collector_owns((int)from)) channel_forget((int)from);
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
  else record_failed(frame, area, -22 /* EINVAL */);
}

// The shim reads the time-stamp counter all the time, and changes code that it has made writable: a program cannot forbid either to itself.
// PR_SET_MDWE lasts, also over execve(2); it is refused as by kernels before 6.3.
bool forbids_shim(const CallFrame* frame) {
  return frame->rdi == 65 /* PR_SET_MDWE */ || (frame->rdi == 26 /* PR_SET_TSC */ && (uint32_t)frame->rsi == 2 /* PR_TSC_SIGSEGV */);
}

void run_prctl(CallFrame* frame, ThreadArea* area) {
  if (control.mode == kModeReplay || !forbids_shim(frame)) run_block(frame, area);
  else record_failed(frame, area, -22 /* EINVAL */);
}

long local_invalid(CallFrame*, ThreadArea*) { return -22; }

long local_arch_prctl(CallFrame* frame, ThreadArea*) {
  const uint64_t* a = arguments_of(frame);
  // ARCH_SET_GS, ARCH_GET_GS: %gs is the shim's, and 0 as far as the program can tell.
  if (a[0] == 0x1001) return a[1] ? -22 : 0;
  if (a[0] == 0x1004) {
    const uint64_t base = 0;
    friday_copy_out((void*)a[1], &base, sizeof base);
    return 0;
  }
  if (a[0] == 0x1012) return -19;  // ARCH_SET_CPUID: ENODEV, as where the processor cannot; the shim asks it itself
  return native(158, a[0], a[1]);
}
long local_robust_list(CallFrame* frame, ThreadArea* area) {
  if (frame->rsi != 24) return -22;
  area->robust_list = frame->rdi;
  return control.mode == kModeReplay ? 0 : native(273, frame->rdi, 24);
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
  if (!of) return -3;  // ESRCH
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
    case 16: codes[0] = a[1] & 0xffffffff, codes[1] = ioctl_command(a); break;
    case 56: codes[0] = a[0] & ~0xffull; break;  // without the exit signal
    case 72: codes[0] = a[1] & 0xffffffff; break;
    case 157: case 317: codes[0] = a[0]; break;
    case 202: codes[0] = a[1] & 127; break;
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
  if (call == 202) return !futex_inherits(arguments_of(frame));
  return call == 3 || call == 33 || call == 292 || call == 436 || call == 16 || call == 72 || call == 157 || call == 59 ||
         call == 322 || call == 31 || call == 66 || call == 71 || call == 250 || call == 317 || call == 440 || call == 97 ||
         call == 160 || call == 302;
}

bool local_call(CallFrame* frame, ThreadArea* area) {
  Local function = nullptr;
  switch (frame->rax) {
    case 13: function = do_sigaction; break;
    case 14: function = do_sigprocmask; break;
    case 131: function = do_sigaltstack; break;
    case 157:
      if (!forbids_shim(frame)) return false;
      function = local_invalid;
      break;
    case 158: function = local_arch_prctl; break;
    case 218: function = local_tid_address; break;
    case 273: function = local_robust_list; break;
    case 274: function = local_get_robust_list; break;
    case 97: case 160: case 302: function = local_limit; break;
    default: return false;
  }
  frame->rax = (uint64_t)function(frame, area);
  return true;
}

bool special_call(CallFrame* frame, ThreadArea* area) {
  switch (frame->rax) {
    case 3: case 33: case 292: case 436: run_descriptor(frame, area); break;
    case 9: frame->rax = (uint64_t)do_mmap(frame, area); break;
    case 10: frame->rax = (uint64_t)do_mprotect(frame, area); break;
    case 12: frame->rax = (uint64_t)do_brk(frame, area); break;
    case 25: frame->rax = (uint64_t)do_mremap(frame, area); break;
    case 28: frame->rax = (uint64_t)do_madvise(frame, area); break;
    case 13: run_local(frame, area, do_sigaction); break;
    case 14: run_local(frame, area, do_sigprocmask); break;
    case 131: run_local(frame, area, do_sigaltstack); break;
    case 158: run_local(frame, area, local_arch_prctl); break;
    case 218: run_local(frame, area, local_tid_address); break;
    case 273: run_local(frame, area, local_robust_list); break;
    case 274: run_local(frame, area, local_get_robust_list); break;
    case 15: {
      if (control.mode == kModeReplay) {
        replay_consume(replay_expect(frame, area, kCall, 15));
      } else {
        EventWriter writer(kCall, area, 15, nullptr, 0);
        uint64_t now = ticks_now();
        writer.commit(0, input_hash(call_info(15), frame), now, now);
      }
      do_sigreturn(frame, area);
      if (!another_handler(frame, area)) sigreturn_finish(frame);
      break;
    }
    case 16: case 31: case 66: case 71: case 72: case 250: case 317: run_block(frame, area); break;
    case 202:
      if (futex_inherits(arguments_of(frame))) do_futex_inheriting(frame, area);
      else run_block(frame, area);
      break;
    case 157: run_prctl(frame, area); break;
    case 30: frame->rax = (uint64_t)do_shmat(frame, area); break;
    case 67: frame->rax = (uint64_t)do_shmdt(frame, area); break;
    case 440: run_process_madvise(frame, area); break;
    case 97: case 160: case 302: do_limit(frame, area); break;
    case 206: frame->rax = (uint64_t)do_io_setup(frame, area); break;
    case 207: frame->rax = (uint64_t)do_io_destroy(frame, area); break;
    case 56: case 57: case 58: frame->rax = (uint64_t)do_clone(frame, area); break;
    case 60: do_thread_exit(frame, area); break;
    case 231: do_exit_group(frame, area); break;
    case 59: case 322: do_exec(frame, area); break;
    default: {
      end_at_call(frame);
      pass_through(frame, area);
    }
  }
  return frame->full;
}

}  // namespace friday::shim
