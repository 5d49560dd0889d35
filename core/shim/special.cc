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
    if (result != event->result) diverge(event, kDivergedNative, 0, (uint64_t)event->result, (uint64_t)result, frame, area, kCall);
    replay_consume(event);
    frame->rax = (uint64_t)result;
    return;
  }
  uint64_t entry = ticks_now();
  uint64_t arguments[6];
  memcpy(arguments, arguments_of(frame), sizeof arguments);
  long result = reached(function, frame, area);
  EventWriter writer(kCall, area, call, arguments, info.arity);
  writer.event->header.flags |= kFlagNative;
  writer.commit(result, 0, entry, ticks_now());
  frame->rax = (uint64_t)result;
}

// Outputs of a call decided by its code argument: at most one block of memory.
struct Block {
  uint64_t address, size;
  bool known;
  bool by_result = false;  // no more than the result says
};

Block ioctl_output(uint64_t code, uint64_t address) {
  switch (code) {
    case 0x5401: return {address, 36, true};   // TCGETS
    case 0x5402: case 0x5403: case 0x5404: case 0x540b: case 0x5421: case 0x5450: case 0x5451: case 0x540e: case 0x5410:
    case 0x5414: case 0x5422: return {0, 0, true};  // TCSETS*, TCFLSH, FIONBIO, FIONCLEX, FIOCLEX, TIOCSCTTY, ...
    case 0x540f: case 0x5411: case 0x541b: case 0x5429: return {address, 4, true};  // TIOCGPGRP, TIOCOUTQ, FIONREAD, TIOCGSID
    case 0x5413: return {address, 8, true};    // TIOCGWINSZ
    case 0x8905: return {address, 4, true};    // SIOCATMARK
    case 0x8906: case 0x8907: return {address, 16, true};  // SIOCGSTAMP
    case 0x8910: case 0x8913: case 0x8915: case 0x8917: case 0x8919: case 0x891b: case 0x891d: case 0x8921: case 0x8927: case 0x8933: case 0x8942:
      return {address, 40, true};              // SIOCGIF*: struct ifreq
  }
  // Codes that say themselves what they move (_IOR, _IOW, _IOWR).
  uint64_t direction = code >> 30 & 3, size = code >> 16 & 0x3fff;
  if (direction & 2) return {address, size, true};
  if (direction == 1) return {0, 0, true};
  return {0, 0, false};
}

Block fcntl_output(uint64_t code, uint64_t address) {
  switch (code) {
    case 5: case 36: return {address, 32, true};  // F_GETLK, F_OFD_GETLK
    case 16: return {address, 8, true};           // F_GETOWN_EX
    case 1036: case 1038: return {address, 8, true};  // F_GET_RW_HINT, F_GET_FILE_RW_HINT
    default: return {0, 0, true};
  }
}

Block prctl_output(const uint64_t* a) {
  switch (a[0]) {
    case 2: case 5: case 9: case 19: case 25: case 37: return {a[1], 4, true};  // GET_PDEATHSIG, GET_UNALIGN, ...
    case 16: return {a[1], 16, true};  // PR_GET_NAME
    case 22: case 59: return {0, 0, false};  // PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH
    default: return {0, 0, true};
  }
}

Block futex_output(const uint64_t* a) {
  switch (a[1] & 127) {
    case 0: case 1: case 3: case 4: case 9: case 10: return {0, 0, true};
    case 5: return {a[4], 4, true};    // FUTEX_WAKE_OP changes the second word
    default: return {0, 0, false};     // priority inheritance and the like
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
    case 6: case 11: case 17: return {a[2], a[3], true, true};  // DESCRIBE, READ, GET_SECURITY
    default: return {0, 0, true};
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
    case 72: return fcntl_output(a[1] & 0xffffffff, a[2]);
    case 157: return prctl_output(a);
    case 202: return futex_output(a);
    default: return {0, 0, true};
  }
}

// Made while recording, fed at replay; one output block.
void run_block(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay) {
    if (frame->rax == 157 && a[0] == 15) native(157, 15, a[1], 0, 0, 0);  // PR_SET_NAME: shown by debuggers
    replay_call(frame, area, call_info(frame->rax));
    return;
  }
  Block out = output_of(frame);
  if (!out.known) {
    trace_end(kEndUnhandled, (int)frame->rax, call_info(frame->rax).name);
    pass_through(frame, area);
    return;
  }
  CallInfo info = call_info(frame->rax);
  if (frame->rax == 202 && (a[1] & 127) % 9 != 0) info.flags |= kQuick;  // only FUTEX_WAIT and FUTEX_WAIT_BITSET wait
  if (frame->rax == 31 || frame->rax == 66 || frame->rax == 71 || frame->rax == 250) info.flags |= kQuick;
  if (frame->rax == 16 || (frame->rax == 72 && a[1] != 7 && a[1] != 38)) info.flags |= kQuick;
  for (;;) {
    Recorded done = make_call(frame, area, info);
    const bool not_made = done.result == kNotMade;
    if (not_made && !done.stolen) {
      if (signals_deliver(frame, area, Moment::before_call)) return;
      continue;
    }
    if (not_made) done.result = -4;
    EventWriter writer(done.stolen ? kReturn : kCall, area, (uint16_t)frame->rax, a, info.arity);
    if (out.by_result && done.result >= 0) out.size = min(out.size, (uint64_t)done.result);
    if (!failed(done.result) && out.address) writer.memory((void*)out.address, out.size);
    if (!failed(done.result) && frame->rax == 72 && ((a[1] & 0xffffffff) == 0 || (a[1] & 0xffffffff) == 1030))
      channel_duplicate((int)a[0], (int)done.result);
    const bool restart = not_made || (done.result == -4 && (info.flags & kRestart) && signals_pending(area) && handler_restarts(area));
    if (restart) writer.event->header.flags |= kFlagRestarted;
    writer.commit(done.result, done.hash, done.entry, done.exit);
    if (restart) {
      if (signals_deliver(frame, area, Moment::before_call)) return;
      continue;
    }
    frame->rax = (uint64_t)done.result;
    return;
  }
}

// Calls that would disturb the shim's own descriptor: it is not there as far as the program can tell.
void run_descriptor(CallFrame* frame, ThreadArea* area) {
  uint64_t* a = &frame->rdi;
  if (control.mode == kModeReplay) {
    replay_call(frame, area, call_info(frame->rax));
    return;
  }
  const CallInfo& info = call_info(frame->rax);
  const uint16_t call = (uint16_t)frame->rax;
  uint64_t entry = ticks_now();
  long result;
  if (call == 3) {
    if (collector_owns((int)a[0])) {
      result = -9;
    } else {
      channel_forget((int)a[0]);
      result = native(3, a[0]);
    }
  } else if (call == 436) {
    // close_range: around our descriptor.
    uint64_t low = a[0], high = a[1], own = (uint64_t)collector_socket;
    result = 0;
    if (own >= low && own <= high) {
      if (low < own) result = native(436, low, own - 1, a[2]);
      if (result == 0 && own < high) result = native(436, own + 1, high, a[2]);
    } else {
      result = native(436, low, high, a[2]);
    }
    if (!(a[2] & 4)) for (uint64_t fd = low; fd <= high && fd < 65536; fd++) channel_forget((int)fd);
  } else {  // dup2, dup3
    if (collector_owns((int)a[0])) {
      result = -9;
    } else {
      if (collector_owns((int)a[1])) collector_move((int)a[1]);
      result = native(call, a[0], a[1], a[2]);
      if (!failed(result) && a[0] != a[1]) channel_duplicate((int)a[0], (int)a[1]);
    }
  }
  EventWriter writer(kCall, area, call, a, info.arity);
  writer.commit(result, 0, entry, ticks_now());
  frame->rax = (uint64_t)result;
}

long local_arch_prctl(CallFrame* frame, ThreadArea*) {
  const uint64_t* a = arguments_of(frame);
  if (a[0] == 0x1001 || a[0] == 0x1004) return -22;  // ARCH_SET_GS, ARCH_GET_GS: %gs is the shim's
  return native(158, a[0], a[1]);
}
long local_robust_list(CallFrame* frame, ThreadArea* area) {
  area->robust_list = frame->rdi;
  return frame->rsi == 24 ? 0 : -22;
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
  if (control.mode != kModeReplay) return signals_pending(area) && signals_deliver(frame, area, Moment::handler_return);
  const EventRecord* next = replay_peek();
  const bool due = next && next->header.type == kSignal && next->header.thread == area->number && !(next->header.flags & kFlagAtEntry);
  return due && signals_deliver(frame, area, Moment::handler_return);
}

// ---- exec: the new program must find the shim again, whatever environment it is given

constexpr const char* kInherited[] = {"LD_PRELOAD", kSocketVariable, "GLIBC_TUNABLES"};
char inherited[3][1024];  // "NAME=VALUE" as this program found them

bool names(const char* entry, const char* name) {
  size_t n = length_of(name);
  return memcmp(entry, name, n) == 0 && entry[n] == '=';
}

// execve(2), or execveat(2) whose arguments stand one later.
long exec_with_shim(long call, const uint64_t* a) {
  const uint64_t* last = call == 59 ? a + 2 : a + 3;
  char** given = (char**)*last;
  unsigned count = 0;
  if (!probed([&] { while (given && given[count]) count++; }) || count > 8000) return native(call, a[0], a[1], a[2], a[3], a[4]);
  char* list[count + 4];
  for (unsigned i = 0; i < count; i++) list[i] = given[i];
  for (unsigned k = 0; k < 3; k++) {
    bool there = !inherited[k][0];
    for (unsigned i = 0; i < count && !there; i++)
      if (!probed([&] { there = names(list[i], kInherited[k]); })) return -14;
    if (!there) list[count++] = inherited[k];
  }
  list[count] = nullptr;
  return call == 59 ? native(59, a[0], a[1], list) : native(322, a[0], a[1], a[2], list, a[4]);
}

}  // namespace

void exec_remember(char** environment) {
  for (; *environment; environment++)
    for (unsigned k = 0; k < 3; k++)
      if (names(*environment, kInherited[k]) && length_of(*environment) < sizeof inherited[k])
        memcpy(inherited[k], *environment, length_of(*environment) + 1);
}

bool special_is_plain(uint64_t call) {
  return call == 3 || call == 33 || call == 292 || call == 436 || call == 16 || call == 72 || call == 157 || call == 202 || call == 59 ||
         call == 322 || call == 31 || call == 66 || call == 71 || call == 250;
}

bool local_call(CallFrame* frame, ThreadArea* area) {
  Local function = nullptr;
  switch (frame->rax) {
    case 13: function = do_sigaction; break;
    case 14: function = do_sigprocmask; break;
    case 131: function = do_sigaltstack; break;
    case 158: function = local_arch_prctl; break;
    case 218: function = local_tid_address; break;
    case 273: function = local_robust_list; break;
    case 274: function = local_get_robust_list; break;
    default: return false;
  }
  frame->rax = (uint64_t)function(frame, area);
  return true;
}

bool special_call(CallFrame* frame, ThreadArea* area) {
  switch (frame->rax) {
    case 3: case 33: case 292: case 436: run_descriptor(frame, area); break;
    case 9: frame->rax = (uint64_t)do_mmap(frame, area); break;
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
        writer.commit(0, 0, now, now);
      }
      do_sigreturn(frame, area);
      if (!another_handler(frame, area)) sigreturn_finish(frame);
      break;
    }
    case 16: case 31: case 66: case 71: case 72: case 157: case 202: case 250: run_block(frame, area); break;
    case 206: frame->rax = (uint64_t)do_io_setup(frame, area); break;
    case 207: frame->rax = (uint64_t)do_io_destroy(frame, area); break;
    case 56: case 57: case 58: frame->rax = (uint64_t)do_clone(frame, area); break;
    case 60: do_thread_exit(frame, area); break;
    case 231: do_exit_group(frame, area); break;
    case 59: case 322: {
      // A successful exec ends this image; the trace ends with its last event and the new program starts its own. A
      // failed one is an ordinary failed call.
      if (control.mode == kModeReplay) {
        replay_call(frame, area, call_info(frame->rax));
        break;
      }
      const uint64_t* a = arguments_of(frame);
      uint64_t entry = ticks_now();
      long result = exec_with_shim((long)frame->rax, a);
      EventWriter writer(kCall, area, (uint16_t)frame->rax, a, call_info(frame->rax).arity);
      writer.commit(result, 0, entry, ticks_now());
      frame->rax = (uint64_t)result;
      break;
    }
    default: {
      trace_end(kEndUnhandled, (int)frame->rax, call_info(frame->rax).name);
      pass_through(frame, area);
    }
  }
  return frame->full;
}

}  // namespace friday::shim
