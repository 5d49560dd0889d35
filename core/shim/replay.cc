// Replays the events of the trace: decides which thread may run, waits at the gates for other nodes, compares what the
// program does with what it did, and writes the recorded outputs to its memory.
#include <linux/futex.h>

#include "core/shim/calls.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

SharedSchedule* const shared = (SharedSchedule*)kScheduleAddress;

bool is_event(uint16_t type) { return type >= kCall && type < kBranches; }

uint64_t shared_pages;  // offset of the first kSharedPages record after the last event that was consumed; 0: none

void publish(uint64_t done) {
  Progress& mine = shared->progress[control.node_slot];
  __atomic_store_n(&mine.done, done, __ATOMIC_RELEASE);
  __atomic_fetch_add(&mine.futex, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&mine.waiters, __ATOMIC_SEQ_CST)) native(sys::futex, &mine.futex, FUTEX_WAKE, 0x7fffffff);
}

void wait_for(const Gate& gate) {
  Progress& other = shared->progress[gate.slot];
  while (__atomic_load_n(&other.done, __ATOMIC_ACQUIRE) < gate.done) {
    __atomic_fetch_add(&other.waiters, 1, __ATOMIC_SEQ_CST);
    uint32_t seen = __atomic_load_n(&other.futex, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&other.done, __ATOMIC_ACQUIRE) < gate.done)
      native(sys::futex, &other.futex, FUTEX_WAIT, seen, 0, 0, 0);
    __atomic_fetch_sub(&other.waiters, 1, __ATOMIC_SEQ_CST);
  }
}

// The node stands before event control.event: publishes its progress if this is a post, and waits at the event's gates.
void pass_gates() {
  if (!control.schedule) return;
  const NodeSchedule* mine = (const NodeSchedule*)control.schedule;
  const uint64_t* posts = (const uint64_t*)mine->posts;
  if (posts[control.post] <= control.event) {
    while (posts[control.post] <= control.event) control.post++;
    publish(control.event);
  }
  const Gate* gates = (const Gate*)mine->gates;
  while (gates[control.gate].event <= control.event) {
    wait_for(gates[control.gate]);
    control.gate++;
  }
}

}  // namespace

void trap(TrapReason reason, int detail) {
  control.trap_reason = reason;
  control.trap_thread = me()->number;
  control.trap_detail = detail;
  friday_trap_instruction();
}

void replay_fail(const char* what, long detail) {
  memset(control.text, 0, sizeof control.text);
  memcpy(control.text, what, min(length_of(what), sizeof control.text - 1));
  for (;;) trap(kTrapFailed, (int)detail);
}

EventRecord* replay_peek() {
  for (;;) {
    if (control.cursor + sizeof(RecordHeader) > control.trace_end) return nullptr;
    RecordHeader* record = (RecordHeader*)(kWindowAddress + control.cursor);
    if (record->type == kEndRecord) return nullptr;
    if (is_event(record->type)) return (EventRecord*)record;
    if (record->type == kSharedPages && !shared_pages) shared_pages = control.cursor;
    control.cursor += record->size;
  }
}

bool replay_yield_follows(const ThreadArea* area, YieldKind kind) {
  const EventRecord* next = replay_peek();
  return next && next->header.type == kYield && next->header.thread == area->number && next->call == kind;
}

const SharedPagesRecord* replay_shared_pages(uint64_t* offset) {
  if (!*offset) *offset = shared_pages;
  while (*offset && *offset < control.cursor) {
    const RecordHeader* record = (const RecordHeader*)(kWindowAddress + *offset);
    *offset += record->size;
    if (record->type == kSharedPages) return (const SharedPagesRecord*)record;
  }
  return nullptr;
}

void replay_forked() { shared_pages = 0; }

// The end of a node has gates like an event, so that it comes after what other nodes did before it.
void replay_end_of_trace() {
  while (!replay_peek()) {
    pass_gates();
    trap(kTrapEndOfTrace, 0);
  }
}

void replay_exit(int code) {
  pass_gates();
  for (;;) trap(kTrapExit, code);
}

void replay_end_if_cut() {
  if (control.cut) replay_end_of_trace();
}

void replay_consume(EventRecord* event) {
  shared_pages = 0;
  robust_apply(event, false);
  control.cursor += event->header.size;
  control.event = event->index + 1;
  area_of(event->header.thread)->sequence++;
  const EventRecord* next = replay_peek();
  if (next) robust_apply(next, true);
  if (!next) replay_end_if_cut();
  if (!next || next->header.type != kYield) return;
  if (next->call == kYieldLoop) loops_expect(next);
  if (next->call == kYieldSpin) trap(kTrapSpin, 0);
}

const void* replay_part(const EventRecord* event, PartKind kind, unsigned nth, PartHeader* header) {
  const char* p = (const char*)(event + 1) + event->argument_count * 8;
  for (unsigned i = 0; i < event->part_count; i++) {
    const PartHeader* part = (const PartHeader*)p;
    if (part->kind == kind && nth-- == 0) {
      if (header) *header = *part;
      return part + 1;
    }
    p += sizeof *part + align8(part->size);
  }
  return nullptr;
}

// Whether what the call of this event reads depends on payload that was inferred.
static bool is_unchecked(uint64_t event) {
  const NodeSchedule* node = (const NodeSchedule*)control.schedule;
  const uint64_t* events = (const uint64_t*)node->unchecked;
  uint64_t low = 0, high = node->unchecked_count;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (events[middle] < event) low = middle + 1;
    else high = middle;
  }
  return low < node->unchecked_count && events[low] == event;
}

void replay_apply(const EventRecord* event) {
  if (event->header.flags & kFlagClock) {
    const uint64_t words[] = {event->input_hash, event->return_ticks};
    friday_copy_out((void*)((const uint64_t*)(event + 1))[clock_argument(event->call)], words, sizeof words);
  }
  const char* p = (const char*)(event + 1) + event->argument_count * 8;
  for (unsigned i = 0; i < event->part_count; i++) {
    const PartHeader* part = (const PartHeader*)p;
    if (part->kind == kMemory && part->size) {
      friday_copy_out((void*)part->address, part + 1, part->size);
      if (control.restoring) restore_received(event, part->address, part->size);
    }
    p += sizeof *part + align8(part->size);
  }
}

void diverge(EventRecord* expected, uint32_t kind, uint32_t which, uint64_t want, uint64_t got, CallFrame* frame,
             ThreadArea* area, uint32_t type) {
  DivergenceReport& d = control.divergence;
  d.kind = kind;
  d.which = which;
  d.event = control.event;
  d.expected_type = expected->header.type;
  d.actual_type = type;
  d.expected_call = expected->call;
  d.actual_call = frame ? (uint32_t)frame->rax : 0;
  d.expected_thread = expected->header.thread;
  d.actual_thread = area->number;
  d.expected = want;
  d.actual = got;
  for (;;) trap(kTrapDiverged, (int)kind);
}

void replay_same(EventRecord* event, uint64_t want, uint64_t got, CallFrame* frame, ThreadArea* area) {
  if (got != want) diverge(event, kDivergedNative, 0, want, got, frame, area, kCall);
}

bool replay_signal_follows(const ThreadArea* area) {
  const EventRecord* next = replay_peek();
  return is_signal_of(next, area) && !(next->header.flags & kFlagAtEntry);
}

void replay_hand_over() {
  replay_end_of_trace();
  EventRecord* next = replay_peek();
  ThreadArea* area = area_of(next->header.thread);
  if (!area_is_of(area, next->header.thread))
    diverge(next, kDivergedAbsent, 0, next->header.thread, me()->number, me()->frame, me(),
            me()->in_call ? kRelease : kThreadExit);
  control.turn = next->header.thread;
  __atomic_store_n(&area->go, 1, __ATOMIC_RELEASE);
  if (area != me()) native(sys::futex, &area->go, FUTEX_WAKE_PRIVATE, 1);
}

void replay_wait(ThreadArea* area) {
  while (control.turn != area->number || !__atomic_load_n(&area->go, __ATOMIC_ACQUIRE))
    native(sys::futex, &area->go, FUTEX_WAIT_PRIVATE, 0, 0, 0, 0);
}

// What the program does before its first event happens at the time of that event, so it waits for the event's gates.
void replay_start() {
  const EventRecord* next = replay_peek();
  if (!next) return;
  if (next->header.type == kYield && next->call == kYieldLoop) loops_expect(next);
  pass_gates();
}

void replay_begin(ThreadArea* area) {
  replay_wait(area);
  replay_end_of_trace();
  pass_gates();
  stop_if_wanted();
}

void stop_if_wanted() {
  while (control.event >= control.stop_at_event) trap(kTrapStopEvent, 0);
}

// `type` kCall also accepts kRelease: then the other threads run until the return of the call, which is what is
// returned.
EventRecord* replay_expect(CallFrame* frame, ThreadArea* area, RecordType type, uint16_t call) {
  replay_begin(area);
  EventRecord* event = replay_peek();
  if (parent_is_due(area, event)) resume_parent(frame, area);
  if (event->header.thread != area->number)
    diverge(event, kDivergedThread, 0, event->header.thread, area->number, frame, area, type);
  const bool released = type == kCall && event->header.type == kRelease;
  if (event->header.type != type && !released)
    diverge(event, kDivergedType, 0, event->header.type, type, frame, area, type);
  if (event->call != call) diverge(event, kDivergedCall, 0, event->call, call, frame, area, type);
  const uint64_t* want = (const uint64_t*)(event + 1);
  const uint64_t* got = arguments_of(frame);
  if (type == kCall)
    for (unsigned i = 0; i < event->argument_count; i++)
      if (want[i] != got[i]) diverge(event, kDivergedArgument, i, want[i], got[i], frame, area, type);
  if (type == kCall) {
    uint64_t hash = input_hash(call_info(call), frame);
    const uint64_t expected = event->header.flags & kFlagClock ? 0 : event->input_hash;
    if (hash != expected && !is_unchecked(event->index))
      diverge(event, kDivergedInput, 0, expected, hash, frame, area, type);
    if (control.restoring) restore_sent(frame);
  }
  if (event->header.flags & kFlagState) {
    uint64_t want, got = 0;
    const StatePart* state;
    for (unsigned n = 0; (state = (const StatePart*)replay_part(event, kState, n, nullptr)); n++)
      if (unsigned part = state_differs(state, frame, &want, &got))
        diverge(event, kDivergedState, part, want, got, frame, area, type);
  }
  if (!released) return event;
  area->in_call = 1;
  area->go = 0;
  replay_consume(event);
  replay_hand_over();
  replay_begin(area);
  area->in_call = 0;
  event = replay_peek();
  if (parent_is_due(area, event)) resume_parent(frame, area);
  if (event->header.thread != area->number || event->header.type != kReturn || event->call != call)
    diverge(event, kDivergedType, 0, event->header.type, kReturn, frame, area, kReturn);
  return event;
}

long replay_call(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  for (;;) {
    replay_begin(area);
    EventRecord* event = replay_peek();
    if (is_signal_of(event, area) && (event->header.flags & kFlagAtEntry)) {
      signals_deliver(frame, area, Moment::before_call);
      return 0;
    }
    const uint64_t call = frame->rax;
    event = replay_expect(frame, area, kCall, (uint16_t)call);
    long result = event->result;
    if (info.rule == kNative) {
      long here = native_mapping((long)call, arguments_of(frame));
      replay_same(event, (uint64_t)result, (uint64_t)here, frame, area);
    }
    const bool restart = event->header.flags & kFlagRestarted;
    replay_apply(event);
    shared_replay_changes(event, frame);
    if ((call == sys::personality || call == sys::setrlimit || call == sys::prlimit64) && !failed(result))
      replay_setting(frame, area);
    replay_thread_name(area, call, arguments_of(frame), result);
    replay_consume(event);
    const bool signal = replay_signal_follows(area);
    if (restart) {
      if (is_signal_of(replay_peek(), area)) {
        signals_deliver(frame, area, Moment::before_call);
        return 0;
      }
      continue;
    }
    if (signal && result == -EINTR) signals_note_mask(frame, area);
    frame->rax = (uint64_t)result;
    if (signal) signals_deliver(frame, area, Moment::after_call);
    return result;
  }
}

}  // namespace friday::shim
