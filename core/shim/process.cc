// Creates and ends threads and processes. A new thread begins in the shim, waits for its first turn of the token, and
// then enters the program. Thread ids in the program's memory are the recorded ones, while recording and at replay: the
// shim stores them itself, and removes the clone(2) flags by which the kernel would. A forked child has a trace of its
// own.
#include <asm/prctl.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/signal.h>

#include "core/shim/calls.h"
#include "core/shim/chaos.h"
#include "core/shim/collector.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

// Flags that are passed on to the kernel for a new process.
constexpr uint64_t kNamespaces =
    CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
constexpr uint64_t kPassedOn = kNamespaces | CLONE_FS | CLONE_PARENT | CLONE_SYSVSEM | CLONE_IO | CLONE_PIDFD;

bool forked;

void store_tid(uint64_t address, uint32_t tid) {
  if (address) friday_copy_out((void*)address, &tid, 4);
}

CloneRequest request_of(const CallFrame* frame) {
  if (frame->rax == sys::vfork) return {CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0};
  if (frame->rax == sys::fork) return {SIGCHLD, 0, 0, 0, 0};
  return {frame->rdi, frame->rsi, frame->rdx, frame->r10, frame->r8};
}

long thread_refused(const CallFrame* frame, ThreadArea* area, uint64_t entry, long error) {
  if (control.mode == kModeRecord) {
    EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), call_info(frame->rax).arity);
    writer.commit(error, 0, entry, ticks_now());
  }
  return error;
}

long new_thread(CallFrame* frame, ThreadArea* area, const CloneRequest& c) {
  const uint64_t entry = ticks_now();
  EventRecord* event = nullptr;
  if (control.mode == kModeReplay) event = replay_expect(frame, area, kCall, (uint16_t)frame->rax);
  if (event && failed(event->result)) {
    long result = event->result;
    replay_consume(event);
    return result;
  }
  // After the end of the recording the new thread does not wait for a token: it may run and end before this one goes
  // on. So the kernel stores the ids then.
  const bool plain = control.mode == kModePassThrough;
  const ChildPart* recorded = event ? (const ChildPart*)replay_part(event, kChild, 0, nullptr) : nullptr;
  if (event && !recorded) replay_fail("the trace does not name the thread that a call has created", (int)event->index);
  ThreadArea* child = recorded ? area_create(recorded->thread) : area_create_next();
  if (!child) {
    if (event) replay_fail("there is no room for a thread", (int)recorded->thread);
    return thread_refused(frame, area, entry, -EAGAIN);
  }
  child->signal_mask = area->signal_mask;
  if (event) replay_thread_started(area, child);
  child->altstack[1] = SS_DISABLE;
  child->clear_tid = !plain && c.flags & CLONE_CHILD_CLEARTID ? c.child_tid : 0;
  CallFrame* start = (CallFrame*)(child->stack_top - sizeof(CallFrame) - 8);
  *start = *frame;
  start->rax = 0;
  if (c.stack) start->rsp = c.stack;
  start->previous = nullptr;
  child->frame = start;
  child->alive = 1;
  __atomic_fetch_add(&live_threads, 1, __ATOMIC_SEQ_CST);
  // A replay makes no pidfd.
  const uint64_t own =
      plain ? 0 : CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | (event ? CLONE_PIDFD : 0);
  const bool tells = plain || (c.flags & ~own & CLONE_PIDFD);
  long tid = friday_clone((long)(c.flags & ~own), start, child, tells ? (long)c.parent_tid : 0,
                          plain ? (long)c.child_tid : 0, (long)c.tls);
  if (failed(tid)) {
    __atomic_fetch_sub(&live_threads, 1, __ATOMIC_SEQ_CST);
    if (event) replay_fail("a thread could not be created", tid);
    area_not_used(child);
    return thread_refused(frame, area, entry, tid);
  }
  long result = event ? event->result : tid;
  if (plain) return tid;
  child->tid = (uint32_t)result;
  // The thread stores this too, but at replay it exists from this event on, even if it has not run yet.
  child->kernel_tid = (uint32_t)tid;
  if (c.flags & CLONE_PARENT_SETTID) store_tid(c.parent_tid, child->tid);
  if (c.flags & CLONE_CHILD_SETTID) store_tid(c.child_tid, child->tid);
  if (event) {
    replay_apply(event);
    replay_consume(event);
  } else if (control.mode == kModeRecord) {
    EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), call_info(frame->rax).arity);
    ChildPart part = {child->number, child->tid, {}};
    writer.part(kChild, &part, sizeof part);
    if (c.flags & CLONE_PIDFD) writer.memory((void*)c.parent_tid, 4);
    writer.commit(result, 0, entry, ticks_now());
  }
  return result;
}

// In a new process, of which the calling thread is the only one.
void become_only_thread(ThreadArea* area) {
  areas_forked(area);
  if (area->borrowed) {
    const int socket = own_socket();
    area->borrowed = 0;
    own_socket() = socket;
  }
  area->kernel_tid = (uint32_t)native(sys::gettid);
  area->look_timer = 0;
  area->loops_next = 0;
  loops_let(area, 0);
  robust_forked(area);
  token_start(area);
}

// Moves a descriptor to a higher number, because the program may expect to get the lowest free one.
void move_up(int* fd) {
  const long high = native(sys::fcntl, *fd, F_DUPFD, own_socket() + 1);
  if (failed(high)) return;
  native(sys::close, *fd);
  *fd = (int)high;
}

long fork_recording(CallFrame* frame, ThreadArea* area, const CloneRequest& c) {
  const uint64_t entry = ticks_now();
  ForkReply reply = {};
  int trace_fd = -1, socket_fd = -1;
  const bool follow = collector_fork(&reply, &trace_fd, &socket_fd);
  if (follow && c.flags & CLONE_PIDFD) move_up(&trace_fd), move_up(&socket_fd);
  // The child may end at once, and its exit signal may kill this process. That must not happen before the fork is in
  // the trace. The shim's own calls are exempt from dispatch, so SIGSYS can wait, too, if it is that signal.
  const uint64_t everything = (c.flags & 0xff) == SIGSYS ? ~0ull : kAllButDispatch;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, 0, 8);
  long pid = native(sys::clone, c.flags & (kPassedOn | 0xff), 0, c.flags & CLONE_PIDFD ? c.parent_tid : 0, 0, 0);
  if (pid == 0) {
    thread_arm(area);
    forked = true;
    become_only_thread(area);
    shape_forked();
    area->pending_head = area->pending_tail;  // pending signals are the parent's
    held_forget(area);
    signals_apply_mask(area);
    area->tid = (uint32_t)native(sys::getpid);
    trace_detach();
    part_look_again();
    if (!follow || !trace_attach(trace_fd)) {
      control.mode = kModePassThrough;
      standby_ends();
      group_forget();
      if (follow)
        collector_send(kNotice, 0, 0,
                       "a child process had no address space left for its trace, and may lack it for itself: the limit "
                       "(ulimit -v) counts what Friday maps, too");
      // The socket is the parent's, and a program that is executed from here must not use it.
      native(sys::close, own_socket());
      own_socket() = -1;
    } else if (group_forked()) {
      collector_adopt(socket_fd);
      native(sys::close, trace_fd);
      trace_header()->pid = area->tid;
      trace_header()->running = kComputing;
      if (!trace_header()->on_standby && !keeps_schedule) standby_ends();
      collector_send(kForked, 0, (int)area->tid, nullptr);
      area->sequence = 0;
      chaos_key = reply.chaos_key;
      clock_calibrate();
      group_enter(area, nullptr);
      EventWriter writer(kThreadStart, area, (uint16_t)frame->rax, nullptr, 0);
      ChildPart part = {area->number, area->tid, {}};
      writer.part(kChild, &part, sizeof part);
      uint64_t now = ticks_now();
      writer.commit((long)area->tid, 0, now, now);
    }
    if (c.flags & CLONE_CHILD_SETTID) store_tid(c.child_tid, area->tid);
    if (c.flags & CLONE_CHILD_CLEARTID) area->clear_tid = c.child_tid;
    if (c.stack) frame->rsp = c.stack;
    return 0;
  }
  if (follow) {
    native(sys::close, trace_fd);
    native(sys::close, socket_fd);
  }
  if (!failed(pid) && (c.flags & CLONE_PARENT_SETTID)) store_tid(c.parent_tid, (uint32_t)pid);
  EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), call_info(frame->rax).arity);
  if (!failed(pid)) {
    ChildPart part = {0, (uint32_t)pid, {}};
    memcpy(part.node_uuid, reply.node_uuid, sizeof part.node_uuid);
    writer.part(kChild, &part, sizeof part);
    if (c.flags & CLONE_PIDFD) writer.memory((void*)c.parent_tid, 4);
  }
  writer.commit(pid, 0, entry, ticks_now());
  signals_rest(area);
  // If the collector made no trace, it has told the user why.
  if (!follow && reply.ok && !failed(pid))
    collector_send(kNotice, 0, 0, "a child process is not recorded: no descriptor was left for its trace");
  return pid;
}

long fork_replaying(CallFrame* frame, ThreadArea* area, const CloneRequest& c) {
  EventRecord* event = replay_expect(frame, area, kCall, (uint16_t)frame->rax);
  long result = event->result;
  if (failed(result)) {
    replay_consume(event);
    return result;
  }
  // The parent completes the event before the child exists, so that both have the same state of the shim up to here.
  // If the recorded parent was killed after this event, the child still exists.
  const uint32_t cut = control.cut;
  control.cut = 0;
  replay_consume(event);
  // With SIGCHLD, whatever the program's exit signal is, because only then does ptrace(2) report a fork to the core.
  long pid = native(sys::clone, SIGCHLD, 0, 0, 0, 0);
  if (failed(pid)) replay_fail("a process could not be forked", pid);
  if (pid) {
    // The child's id and pidfd are stored in the parent's memory only, unless they share it there.
    replay_apply(event);
    if (c.flags & CLONE_PARENT_SETTID) store_tid(c.parent_tid, (uint32_t)result);
    control.cut = cut;
    replay_end_if_cut();
    return result;
  }
  thread_arm(area);
  become_only_thread(area);
  replay_forked();
  // The core maps this process's own trace and sets cursor, event, trace_end, schedule and node_slot; or it ends this
  // process, if the node is not wanted.
  trap(kTrapForkChild, 0);
  control.gate = control.post = 0;
  control.turn = area->number;
  area->go = 1;
  area->sequence = 0;
  replay_begin(area);
  event = replay_peek();
  if (event->header.type != kThreadStart)
    diverge(event, kDivergedType, 0, event->header.type, kThreadStart, frame, area, kThreadStart);
  area->tid = (uint32_t)event->result;
  replay_consume(event);
  if (c.flags & CLONE_CHILD_SETTID) store_tid(c.child_tid, area->tid);
  if (c.flags & CLONE_CHILD_CLEARTID) area->clear_tid = c.child_tid;
  if (c.stack) frame->rsp = c.stack;
  return 0;
}

}  // namespace

bool is_forked() { return forked; }

static bool sealed;
// The selector of Syscall User Dispatch, which the kernel reads at calls from outside the shim: 1 raises SIGSYS
// (SYSCALL_DISPATCH_FILTER_BLOCK), 0 lets them be made.
static uint8_t dispatch_blocks = 1;

// A filter may not allow the calls that the shim makes in addition to the program's; the return from its handler of
// planted instructions is one, so these are restored. What the shim does in the kernel's place when a thread ends, the
// kernel does again for the calling thread. It cannot be told so for other threads; if there are any, their calls are
// still caught.
void process_seals(ThreadArea* area) {
  sealed = true;
  loops_let(area, 0);
  instructions_give_back();
  if (!catch_all_only && live_threads == 1) dispatch_blocks = 0;
  if (area->clear_tid) native(sys::set_tid_address, area->clear_tid);
  area->clear_tid = area->robust_list = 0;
}

void thread_arm(ThreadArea* area) {
  native(sys::arch_prctl, ARCH_SET_GS, area);
  uint64_t signal_stack[3] = {(uint64_t)area + kSignalStackAt, 0, kSignalStackSize};
  native(sys::sigaltstack, signal_stack, 0);
  native(sys::prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, control.text_low, control.text_high - control.text_low,
         &dispatch_blocks);
  area->kernel_tid = (uint32_t)native(sys::gettid);
}

extern "C" void friday_thread_main(ThreadArea* area) {
  if (area->borrowed) vfork_child(area);
  thread_arm(area);
  CallFrame* frame = area->frame;
  if (control.mode != kModeReplay) signals_apply_mask(area);
  if (control.mode == kModeReplay) {
    replay_begin(area);
    EventRecord* event = replay_peek();
    if (event->header.type != kThreadStart || event->header.thread != area->number)
      diverge(event, kDivergedType, 0, event->header.type, kThreadStart, frame, area, kThreadStart);
    replay_consume(event);
  } else if (on_standby) {
    standby_first_turn(area);
  } else {
    token_acquire(area);
  }
  thread_begins(area);
}

void thread_begins(ThreadArea* area) {
  CallFrame* const frame = area->frame;
  if (recording()) {
    EventWriter writer(kThreadStart, area, sys::clone, nullptr, 0);
    uint64_t now = ticks_now();
    writer.commit((long)area->tid, 0, now, now);
  }
  area->frame = nullptr;
  friday_leave(frame);
}

long do_clone(CallFrame* frame, ThreadArea* area) {
  CloneRequest c = request_of(frame);
  if (area->native) return -ENOSYS;  // a function that a debugger calls creates no threads or processes
  if (c.flags & CLONE_THREAD) return new_thread(frame, area, c);
  if (control.mode != kModeReplay) signals_expect_exit((int)(c.flags & 0xff));
  if (is_vfork(c) && !area->borrowed) return do_vfork(frame, area, c);
  // The recording ends at a process that goes on sharing its memory or its descriptors with this one.
  if (control.mode == kModeRecord && c.flags & (CLONE_VM | CLONE_FILES) && !area->borrowed) end_at_call(frame);
  if (control.mode == kModePassThrough && c.flags & CLONE_VM && !area->borrowed) return new_thread(frame, area, c);
  if (control.mode == kModeReplay) return fork_replaying(frame, area, c);
  if (control.mode == kModeRecord) return fork_recording(frame, area, c);
  long pid = native(sys::clone, c.flags & ~(CLONE_VM | CLONE_VFORK), 0, c.parent_tid, c.child_tid, 0);
  if (pid == 0) {
    thread_arm(area);
    become_only_thread(area);
    if (c.stack) frame->rsp = c.stack;
  }
  return pid;
}

void do_thread_exit(CallFrame* frame, ThreadArea* area) {
  if (area->borrowed) return end_vfork_child(frame, area);
  if (control.mode == kModeRecord && shaping()) shape_waits(area);
  const bool replay = control.mode == kModeReplay;
  if (replay) {
    EventRecord* event = replay_expect(frame, area, kThreadExit, sys::exit);
    robust_thread_ends(area);
    if (area->clear_tid) store_tid(area->clear_tid, 0);
    replay_consume(event);
  } else {
    robust_thread_ends(area);
    // When the kernel follows the list, its memory may already be in use by another thread.
    if (area->robust_list && !sealed) native(sys::set_robust_list, 0, 24);
    if (area->clear_tid) {
      store_tid(area->clear_tid, 0);
      native(sys::futex, area->clear_tid, FUTEX_WAKE, 0x7fffffff, 0, 0, 0);
    }
    if (control.mode == kModeRecord) {
      EventWriter writer(kThreadExit, area, sys::exit, arguments_of(frame), 1);
      uint64_t now = ticks_now();
      writer.commit(0, 0, now, now);
    }
  }
  area->robust_list = 0;
  if (sealed) area->alive = 0;  // it keeps its area, since the filter may not allow to unmap anything
  else area_ends(area);
  if (__atomic_sub_fetch(&live_threads, 1, __ATOMIC_SEQ_CST) == 0 && !replay)
    trace_end(kEndExit, (int)frame->rdi, nullptr);
  if (replay) {
    if (live_threads) replay_hand_over();
    else replay_exit((int)frame->rdi);
  } else if (!sealed) {
    token_leave(area);
  }
  if (sealed) native(sys::exit, frame->rdi);
  const uint64_t everything = ~0ull;
  const int code = (int)frame->rdi;
  native(sys::rt_sigprocmask, SIG_BLOCK, &everything, 0, 8);
  if (!replay) signals_hand_on(area);
  if (area->look_timer && !replay) native(sys::timer_delete, area->look_timer - 1);
  area_leave(area, code);
}

// All threads end with the process.
static void each_thread_ends() {
  for (uint32_t n = 0; n < control.area_count; n++)
    if (area_at(n)->alive) robust_thread_ends(area_at(n));
}

void do_exit_group(CallFrame* frame, ThreadArea* area) {
  if (area->borrowed) return end_vfork_child(frame, area);
  if (control.mode == kModeReplay) {
    EventRecord* event = replay_expect(frame, area, kCall, sys::exit_group);
    each_thread_ends();
    replay_consume(event);
    replay_exit((int)frame->rdi);
  }
  if (control.mode == kModeRecord) {
    if (shaping()) shape_waits(area);
    EventWriter writer(kCall, area, sys::exit_group, arguments_of(frame), 1);
    state_final(writer, frame, area);
    each_thread_ends();
    uint64_t now = ticks_now();
    writer.commit(0, 0, now, now);
    trace_end(kEndExit, (int)frame->rdi, nullptr);
    group_leave();
  }
  native(sys::exit_group, frame->rdi);
}

}  // namespace friday::shim
