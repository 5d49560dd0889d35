// vfork(2), which posix_spawn(3), system(3) and popen(3) use. Until the child executes a program or ends, it runs in
// its parent's memory, and the thread that created it waits. The parent finds in memory what the child has stored
// there, so a replay must make the same stores.
//
// So the child is no node of its own. It acts as the thread that created it: it uses the thread's area and its token,
// and its events are in the same trace. While recording the child is a real process, on its own part of the thread's
// stack in the shim. At replay there is no process: the thread returns from the call as the child, and returns from it
// a second time as the parent when the trace says so, with all registers as they were at the call. The program that the
// child executes is a node (exec.cc).
//
// A child has copies of some things although it shares memory: signal dispositions and masks, and descriptors. For what
// the shim keeps of these in memory, the parent's values are saved and restored.
#include <asm/prctl.h>
#include <linux/sched.h>
#include <linux/signal.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

// What the parent gets back when it goes on. Lies in the thread's area, behind the ThreadArea.
struct Kept {
  CallFrame frame;  // its registers at the call
  uint64_t stack_top, clear_tid, robust_list, altstack[3], signal_mask;
  uint32_t kernel_tid, pending_head, pending_tail;
  unsigned char pending[sizeof ThreadArea::pending];
  uint64_t actions[kActionWords];
  CloneRequest request;
  uint64_t entry;           // ticks at the call
  uint64_t thread_pointer;  // at replay: the parent's base of %fs, if the child has its own (CLONE_SETTLS)
  int socket;               // the child's own descriptor of the collector's socket
  bool traced;              // the child has asked to be traced (ptrace(2))
  uint8_t node_uuid[16];    // of the program that the child executes
  alignas(64) uint8_t state[kMostState];  // at replay: the parent's extended state
};
constexpr uint64_t kKeptAt = 0x1000;
static_assert(sizeof(ThreadArea) <= kKeptAt && kKeptAt + sizeof(Kept) <= kHeldAt);
constexpr uint64_t kChildStackTop = 0x28000;  // in the area: the child's part of the stack is below, the parent's above

Kept* kept_of(ThreadArea* area) { return (Kept*)((uint64_t)area + kKeptAt); }

// Copies those fields of a ThreadArea that the child must not change, from it or to it.
template <typename From, typename To>
void copy_own(const From& from, To& to) {
  to.stack_top = from.stack_top;
  to.clear_tid = from.clear_tid;
  to.robust_list = from.robust_list;
  memcpy(to.altstack, from.altstack, sizeof to.altstack);
  to.signal_mask = from.signal_mask;
  to.kernel_tid = from.kernel_tid;
  to.pending_head = from.pending_head;
  to.pending_tail = from.pending_tail;
  memcpy(to.pending, from.pending, sizeof to.pending);
}

void keep(ThreadArea* area, const CallFrame* frame, const CloneRequest& c) {
  Kept* k = kept_of(area);
  k->frame = *frame;
  copy_own(*area, *k);
  signals_keep(k->actions);
  k->socket = own_socket();
  k->request = c;
  k->traced = false;
  memset(k->node_uuid, 0, sizeof k->node_uuid);
}

void give_back(ThreadArea* area) {
  const Kept* k = kept_of(area);
  area->borrowed = 0;
  area->in_call = 0;
  area->probe = 0;
  copy_own(*k, *area);
  signals_give_back(k->actions);
}

// Changes the thread's area for the child, when it has begun.
void become_child(ThreadArea* area, uint32_t pid) {
  const CloneRequest& c = kept_of(area)->request;
  area->pending_head = area->pending_tail;
  held_forget(area);
  area->robust_list = 0;
  area->clear_tid = c.flags & CLONE_CHILD_CLEARTID ? c.child_tid : 0;
  if (c.flags & CLONE_PARENT_SETTID) friday_copy_out((void*)c.parent_tid, &pid, 4);
  if (c.flags & CLONE_CHILD_SETTID) friday_copy_out((void*)c.child_tid, &pid, 4);
}

long replay_vfork(CallFrame* frame, ThreadArea* area, const CloneRequest& c) {
  EventRecord* event = replay_expect(frame, area, kCall, (uint16_t)frame->rax);
  const long result = event->result;
  if (result == 0) {
    keep(area, frame, c);
    Kept* k = kept_of(area);
    memset(k->state, 0, sizeof k->state);
    friday_xsave(k->state, state_mask());
    area->borrowed = 1;
    const ChildPart* child = (const ChildPart*)replay_part(event, kChild, 0, nullptr);
    if (!child) replay_fail("the event of a vfork child has no pid; number of the event", (long)event->index);
    replay_apply(event);
    become_child(area, child->pid);
    if (c.flags & CLONE_SETTLS) {
      native(sys::arch_prctl, ARCH_GET_FS, &k->thread_pointer);
      native(sys::arch_prctl, ARCH_SET_FS, c.tls);
    }
    if (c.stack) frame->rsp = c.stack;
  }
  replay_consume(event);
  return result;
}

}  // namespace

// A child that also shares descriptors or signal handlers with its parent is handled as a fork.
bool is_vfork(const CloneRequest& c) {
  return (c.flags & (CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_SIGHAND)) == (CLONE_VM | CLONE_VFORK);
}

int& vfork_socket(ThreadArea* area) { return kept_of(area)->socket; }
bool& vfork_traced(ThreadArea* area) { return kept_of(area)->traced; }
uint8_t* vfork_node(ThreadArea* area) { return kept_of(area)->node_uuid; }

long do_vfork(CallFrame* frame, ThreadArea* area, const CloneRequest& c) {
  if (control.mode == kModeReplay) return replay_vfork(frame, area, c);
  Kept* k = kept_of(area);
  k->entry = ticks_now();
  keep(area, frame, c);
  area->stack_top = (uint64_t)area + kChildStackTop;
  CallFrame* start = (CallFrame*)(area->stack_top - sizeof(CallFrame) - 8);
  *start = *frame;
  start->rax = 0;
  start->previous = nullptr;
  if (c.stack) start->rsp = c.stack;
  area->borrowed = 1;
  const uint64_t everything = kAllButDispatch;
  native(sys::rt_sigprocmask, SIG_SETMASK, &everything, 0, 8);
  const uint64_t own = CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
  const long pid =
      friday_clone((long)(c.flags & ~own), start, area, c.flags & CLONE_PIDFD ? (long)c.parent_tid : 0, 0, (long)c.tls);
  // From here on the child does not use this memory any more.
  give_back(area);
  area->frame = frame;
  signals_apply_mask(area);
  if (control.mode == kModePassThrough) token_wait_no_more(area);
  if (control.mode != kModeRecord) return pid;
  if (!failed(pid)) token_keep(area);
  EventWriter writer(failed(pid) ? kCall : kReturn, area, (uint16_t)frame->rax, arguments_of(frame),
                     call_info(frame->rax).arity);
  ChildPart part = {0, (uint32_t)pid, {}};
  memcpy(part.node_uuid, k->node_uuid, sizeof part.node_uuid);
  if (!failed(pid)) writer.part(kChild, &part, sizeof part);
  writer.commit(pid, 0, k->entry, ticks_now());
  return pid;
}

// Where the child begins, on its own part of the stack.
void vfork_child(ThreadArea* area) {
  thread_arm(area);
  const uint32_t pid = (uint32_t)native(sys::getpid);
  const Kept* k = kept_of(area);
  CallFrame* start = (CallFrame*)(area->stack_top - sizeof(CallFrame) - 8);
  become_child(area, pid);
  if (control.mode == kModeRecord) {
    EventWriter writer(kCall, area, (uint16_t)k->frame.rax, arguments_of(&k->frame), call_info(k->frame.rax).arity);
    ChildPart part = {0, pid, {}};
    writer.part(kChild, &part, sizeof part);
    if (k->request.flags & CLONE_PIDFD) writer.memory((void*)k->request.parent_tid, 4);
    writer.commit(0, 0, k->entry, ticks_now());
  }
  area->frame = nullptr;
  signals_apply_mask(area);
  if (on_standby) token_give_up(area);
  friday_leave(start);
}

bool parent_is_due(const ThreadArea* area, const EventRecord* next) {
  return area->borrowed && next && next->header.type == kReturn && next->header.thread == area->number &&
         next->call == (uint16_t)kept_of((ThreadArea*)area)->frame.rax;
}

void resume_parent(CallFrame* frame, ThreadArea* area) {
  give_back(area);
  friday_xrstor(kept_of(area)->state, state_mask());
  if (kept_of(area)->request.flags & CLONE_SETTLS) native(sys::arch_prctl, ARCH_SET_FS, kept_of(area)->thread_pointer);
  EventRecord* event = replay_peek();
  *frame = kept_of(area)->frame;
  frame->rax = (uint64_t)event->result;
  area->frame = frame;
  replay_consume(event);
  if (replay_signal_follows(area)) signals_deliver(frame, area, Moment::after_call);
  area->frame = frame->previous;
  friday_leave(frame);
}

// exit(2) or exit_group(2) by the child.
void end_vfork_child(CallFrame* frame, ThreadArea* area) {
  if (control.mode == kModeReplay) {
    replay_consume(replay_expect(frame, area, kCall, (uint16_t)frame->rax));
    replay_begin(area);
    if (!parent_is_due(area, replay_peek()))
      replay_fail("a vfork child has ended, but its parent's return is not the next event", (long)control.event);
    resume_parent(frame, area);
  }
  if (control.mode == kModeRecord) {
    EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), 1);
    const uint64_t now = ticks_now();
    writer.commit(0, 0, now, now);
  }
  native((long)frame->rax, frame->rdi);
}

}  // namespace friday::shim
