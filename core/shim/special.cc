// Calls that the table cannot describe in full: calls that could close the shim's own descriptor, calls that change
// only what the shim itself keeps, and the distribution of all others to their handlers.
#include <asm/prctl.h>
#include <linux/close_range.h>
#include <linux/fcntl.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/shaping.h"
#include "core/shim/signals.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

using Local = long (*)(CallFrame*, ThreadArea*);

// Calls `function`, and returns -EFAULT if a pointer of the program cannot be followed.
long reached(Local function, CallFrame* frame, ThreadArea* area) {
  long result;
  return probed([&] { result = function(frame, area); }) ? result : -EFAULT;
}

// Records or replays a call that the shim carries out itself, in the same way while recording and at replay.
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

// A call on the shim's own descriptor, which does not exist as far as the program can tell.
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

// close(2), close_range(2), dup2(2), dup3(2). None of them may close the shim's own descriptor.
void run_descriptor(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint64_t call = frame->rax, from = a[0], to = a[1], own = (uint64_t)own_socket();
  const CallInfo& info = call_info(call);
  const bool closes = info.flags & kCloses, range = info.flags & kClosesRange;
  if (control.mode == kModeReplay) return (void)replay_call(frame, area, info);
  if (shaping()) {
    const bool other = closes || ((int)from != (int)to && !failed(native(sys::fcntl, from, F_GETFD, 0)));
    if (!range && other) shape_closes(closes ? (int)from : (int)to);
    if (range && ((uint32_t)a[2] & ~CLOSE_RANGE_UNSHARE) == 0)
      for (uint64_t fd = from; fd <= to && fd < kMaxDescriptors; fd++) shape_closes((int)fd);
  }
  if (closes && !collector_owns((int)from)) channel_forget((int)from);
  // With CLOSE_RANGE_CLOEXEC the call closes nothing now, and with flags that the kernel does not know it fails.
  if (range && ((uint32_t)a[2] & ~CLOSE_RANGE_UNSHARE) == 0)
    for (uint64_t fd = from; fd <= to && fd < kMaxDescriptors; fd++) channel_forget((int)fd);
  if (range ? from <= own && own <= to : collector_owns((int)from)) return run_around_own(frame, area);
  if (!closes && !range && collector_owns((int)to)) collector_move();
  record_described(frame, area, info);
}

long local_refused(CallFrame* frame, ThreadArea* area) { return refused_for_shim(frame, area); }

long local_arch_prctl(CallFrame* frame, ThreadArea*) {
  const uint64_t* a = arguments_of(frame);
  // The shim uses %gs; as far as the program can tell, its base is 0.
  if (a[0] == ARCH_SET_GS) return a[1] ? -EINVAL : 0;
  if (a[0] == ARCH_GET_GS) {
    const uint64_t base = 0;
    friday_copy_out((void*)a[1], &base, sizeof base);
    return 0;
  }
  if (a[0] == ARCH_SET_CPUID) return -ENODEV;  // as with processors that cannot disable cpuid, which the shim executes
  return native(sys::arch_prctl, a[0], a[1]);
}
long local_robust_list(CallFrame* frame, ThreadArea* area) {
  if (frame->rsi != sizeof(robust_list_head)) return -EINVAL;
  area->robust_list = frame->rdi;
  return control.mode == kModeReplay ? 0 : native(sys::set_robust_list, frame->rdi, sizeof(robust_list_head));
}
long local_tid_address(CallFrame* frame, ThreadArea* area) {
  area->clear_tid = frame->rdi;
  return (long)area->tid;
}

long local_get_robust_list(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const ThreadArea* of = a[0] ? living_thread((uint32_t)a[0]) : area;
  if (!of) return -ESRCH;
  const uint64_t size = sizeof(robust_list_head);
  friday_copy_out((void*)a[1], &of->robust_list, 8);
  friday_copy_out((void*)a[2], &size, 8);
  return 0;
}

// Delivers a signal that the return from a handler has unblocked. False: there is none.
bool another_handler(CallFrame* frame, ThreadArea* area) {
  if (control.mode != kModeReplay) return signals_pending(area) && signals_deliver(frame, area, Moment::anywhere);
  return replay_signal_follows(area) && signals_deliver(frame, area, Moment::anywhere);
}
}  // namespace

bool special_is_plain(const CallFrame* frame) {
  const uint64_t call = frame->rax;
  if (call == sys::futex) return !futex_inherits(arguments_of(frame));
  switch (call) {
    case sys::close:
    case sys::dup2:
    case sys::dup3:
    case sys::close_range:
    case sys::execve:
    case sys::execveat:
    case sys::getrlimit:
    case sys::setrlimit:
    case sys::prlimit64: return true;
    default: return false;
  }
}

bool local_call(CallFrame* frame, ThreadArea* area) {
  Local function = nullptr;
  switch (frame->rax) {
    case sys::rt_sigaction: function = do_sigaction; break;
    case sys::rt_sigprocmask: function = do_sigprocmask; break;
    case sys::sigaltstack: function = do_sigaltstack; break;
    case sys::ptrace:
    case sys::prctl:
      if (!refused_for_shim(frame, area)) return false;
      function = local_refused;
      break;
    case sys::arch_prctl: function = local_arch_prctl; break;
    case sys::set_tid_address: function = local_tid_address; break;
    case sys::set_robust_list: function = local_robust_list; break;
    case sys::get_robust_list: function = local_get_robust_list; break;
    case sys::getrlimit:
    case sys::setrlimit:
    case sys::prlimit64: function = local_limit; break;
    default: return false;
  }
  frame->rax = (uint64_t)function(frame, area);
  return true;
}

bool special_call(CallFrame* frame, ThreadArea* area) {
  switch (frame->rax) {
    case sys::close:
    case sys::dup2:
    case sys::dup3:
    case sys::close_range: run_descriptor(frame, area); break;
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
    case sys::futex:
      if (futex_inherits(arguments_of(frame))) do_futex_inheriting(frame, area);
      else if (control.mode == kModeReplay) replay_call(frame, area, call_info(sys::futex));
      else record_described(frame, area, call_info(sys::futex));
      break;
    case sys::shmat: frame->rax = (uint64_t)do_shmat(frame, area); break;
    case sys::shmdt: frame->rax = (uint64_t)do_shmdt(frame, area); break;
    case sys::getrlimit:
    case sys::setrlimit:
    case sys::prlimit64: do_limit(frame, area); break;
    case sys::io_setup: frame->rax = (uint64_t)do_io_setup(frame, area); break;
    case sys::io_destroy: frame->rax = (uint64_t)do_io_destroy(frame, area); break;
    case sys::clone:
    case sys::fork:
    case sys::vfork: frame->rax = (uint64_t)do_clone(frame, area); break;
    case sys::exit: do_thread_exit(frame, area); break;
    case sys::exit_group: do_exit_group(frame, area); break;
    case sys::execve:
    case sys::execveat: do_exec(frame, area); break;
    default: {
      end_at_call(frame);
      pass_through(frame, area);
    }
  }
  return frame->full;
}

}  // namespace friday::shim
