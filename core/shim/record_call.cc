// Records a call of the program: makes it, with the token lent if others may run meanwhile, and writes its event with
// what it has written to memory (outputs.cc) and moved through channels (transfers.cc). special.cc has the calls that
// the table does not describe in full.
#include <asm/poll.h>
#include <asm/socket.h>
#include <linux/fcntl.h>
#include <linux/magic.h>

#include "core/shim/calls.h"
#include "core/shim/chaos.h"
#include "core/shim/collector.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

void lend_for_call(const CallFrame* frame, ThreadArea* area, const CallInfo& info, const Recorded& done,
                   Turn turn = Turn::usual) {
  area->call_hash = done.hash;
  area->call_number = (uint32_t)frame->rax;
  const bool quick = info.flags & kQuick && !(is_coded(info) && waits_by_code(frame));
  token_lend(area, turn == Turn::usual ? quick : turn == Turn::longer);
}

// Makes a call that changes a file which is mapped as shared memory. The token is kept, so that no other process reads
// the file meanwhile. But splice(2) may wait for bytes that another thread or process must write into the pipe: the
// token is lent until the pipe has some. If another one has run then, the call is to be made again (kNotMade).
long make_change(CallFrame* frame, ThreadArea* area, const CallInfo& info, Recorded* done) {
  constexpr uint64_t kNonBlocking = 2 /* SPLICE_F_NONBLOCK */;
  const uint64_t* a = arguments_of(frame);
  const bool waits =
      frame->rax == sys::splice && !(a[5] & kNonBlocking) && !(native(sys::fcntl, a[0], F_GETFL, 0) & O_NONBLOCK);
  if (!waits) return interruptible_call(area, frame);
  const uint64_t at_once[6] = {a[0], a[1], a[2], a[3], a[4], a[5] | kNonBlocking};
  for (;;) {
    const long result = unless_poked(area, [&](bool) { return friday_interruptible(area, sys::splice, at_once); });
    if (result != -EAGAIN) return result;
    struct {
      int fd;
      short events, revents;
    } pipe = {(int)a[0], POLLIN, 0};
    const uint64_t wait[6] = {(uint64_t)&pipe, 1, (uint64_t)-1};
    lend_for_call(frame, area, info, *done);
    const long ready = unless_poked(area, [&](bool) { return friday_interruptible(area, sys::poll, wait); });
    done->stolen = !token_retake(area);
    if (failed(ready) || ready == kNotMade) return ready;
    if (done->stolen) return kNotMade;
  }
}

}  // namespace

Recorded make_call(CallFrame* frame, ThreadArea* area, const CallInfo& info, uint64_t since, const FirstLook& first) {
  Recorded done;
  const uint32_t files = on_standby ? 0 : group_files();
  done.changed = files ? shared_to_change(frame) : ChangedFile{};
  if (first.taken) done.hash = first.hash, done.contents = first.contents;
  else done.hash = input_hash(info, frame, &done.contents);
  done.stolen = false;
  done.entry = ticks_now();
  area->call_ticks = since ? since : done.entry;
  trace_header()->running = kInCall;
  trace_header()->dies_of = signals_own_death(frame, area);
  const Shaped shaped = shaping() ? shape_call(frame, area, info, &done.result) : Shaped::no;
  if (shaped == Shaped::taken) {
    done.exit = ticks_now();
    trace_header()->dies_of = 0;
    trace_header()->running = kComputing;
    return done;
  }
  const bool shared = (live_threads > 1 || group_member()) && !done.changed.object;
  ChaosPlan plan;
  const bool chaos = __builtin_expect(chaos_key != 0, 0) && !done.changed.object;
  if (chaos) plan = chaos_plan(frame, area, info, shared);
  if (shared && part_is_called()) {
    const PartTogether begun = part_together(frame, area, done.hash);
    done.stolen = begun == PartTogether::failed_after_release;
    done.result = kNotMade;
    done.exit = ticks_now();
    if (begun != PartTogether::failed) return done;
  }
  if (shared) lend_for_call(frame, area, info, done, plan.turn);
  if (shaped == Shaped::waits) shape_drain(frame, info);
  done.result = chaos                  ? chaos_call(area, frame, info, plan)
                : done.changed.object  ? make_change(frame, area, info, &done)
                : info.flags & kPathIn ? call_with_path(area, frame, info)
                                       : interruptible_call(area, frame, since != 0);
  done.exit = ticks_now();
  if (shaping()) shape_moved(frame, area, info, done.result);
  trace_header()->dies_of = 0;
  // A process may have mapped the file during the call.
  if (!done.changed.object && !on_standby && group_files() != files) done.changed = shared_changed(frame);
  if (shared) done.stolen = !token_retake(area);
  else trace_header()->running = kComputing;
  return done;
}

bool is_clock(uint64_t call) { return call == sys::clock_gettime || call == sys::gettimeofday || call == sys::time; }

bool read_clock(const CallFrame* frame, long* result) {
  switch (frame->rax) {
    case sys::clock_gettime:
      if (!vdso_clock_gettime || frame->rdi > 1) return false;
      *result = vdso_clock_gettime((long)frame->rdi, (void*)frame->rsi);
      return true;
    case sys::gettimeofday:
      if (!vdso_gettimeofday) return false;
      *result = vdso_gettimeofday((void*)frame->rdi, (void*)frame->rsi);
      return true;
    case sys::time:
      if (!vdso_time) return false;
      *result = vdso_time((void*)frame->rdi);
      return true;
  }
  return false;
}

void end_at_call(CallFrame* frame, long result, const char* why) {
  trace_end(kEndUnhandled, (int)frame->rax, why);
  frame->rax = (uint64_t)result;
}

namespace {

// Whether the socket has a timeout. With one, an interrupted call is never made again (signal(7)).
bool has_timeout(int fd, bool in) {
  uint64_t time[2] = {0, 0};
  uint32_t size = sizeof time;
  return !failed(native(sys::getsockopt, fd, SOL_SOCKET, in ? SO_RCVTIMEO : SO_SNDTIMEO, time, &size)) &&
         (time[0] || time[1]);
}

// Records the reading of a clock through the vdso. The token is not lent, and one time stamp is enough. False: it must
// be recorded like other calls, because the vdso cannot answer it or somebody waits for the token.
bool record_clock(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  if (token_overdue()) return false;
  const uint64_t now = ticks_now();
  long result;
  bool read = false;
  if (!probed([&] { read = read_clock(frame, &result); }) || !read) return false;
  EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), info.arity);
  const uint64_t* words = (const uint64_t*)arguments_of(frame)[clock_argument((uint16_t)frame->rax)];
  const bool plain =
      frame->rax == sys::clock_gettime || (frame->rax == sys::gettimeofday && !frame->rsi /* no time zone */);
  if (plain && result == 0 && words) {
    writer.commit_clock(words, now);
  } else {
    write_outputs(writer, info, frame, result, {});
    writer.commit(result, 0, now, now);
  }
  frame->rax = (uint64_t)result;
  if (signals_pending(area)) signals_deliver(frame, area, Moment::after_call);
  return true;
}

// Whether the call, which has been made, can change memory without an event of the process that it belongs to: memory
// of another process that may be recorded, or /proc/PID/mem opened for writing. Returns the text for the end of the
// recording, null if it cannot.
const char* reaches_foreign_memory(const CallFrame* frame, const CallInfo& info, long result) {
  const uint64_t call = frame->rax;
  if (call == sys::process_vm_writev) {
    const uint64_t pid = arguments_of(frame)[0];
    return result > 0 && !is_own(pid) && shim_in(pid) != ShimIn::no ? info.name : nullptr;
  }
  const bool opens = call == sys::open || call == sys::creat || call == sys::openat || call == sys::openat2;
  if (!opens || failed(result) || !(native(sys::fcntl, result, F_GETFL, 0) & 3 /* O_WRONLY, O_RDWR */)) return nullptr;
  uint64_t about[15] = {};  // struct statfs
  if (failed(native(sys::fstatfs, result, about)) || about[0] != PROC_SUPER_MAGIC) return nullptr;
  static char path[kPathBytes];
  path_of_descriptor((int)result, path, sizeof path);
  const size_t length = length_of(path);
  constexpr char kFile[] = "/mem";
  if (length < 4 || memcmp(path + length - 4, kFile, 4) != 0) return nullptr;
  const char* behind = path;
  const uint64_t pid = process_in(behind);
  if (pid && !is_own(pid) && shim_in(pid) == ShimIn::no) return nullptr;
  return "of a process's memory, for writing";
}

// Makes and records a call that the table describes. Returns true if it must be made again, because it was interrupted
// by a signal that turned out to have no handler, or for a part. `since` as for make_call(). `first` becomes taken if
// no event tells of it.
bool record_once(CallFrame* frame, ThreadArea* area, const CallInfo& info, uint64_t since, FirstLook* first) {
  const Offered offered = note_offered(info, frame);
  const bool coded = is_coded(info);
  Block out = coded ? coded_output(frame) : Block(), inner;
  if (info.inputs[0].shape == Shape::iocbs) aio_note_submitted(arguments_of(frame));
  if (frame->rax == sys::msync) state_synced(frame, area);
  area->poked = kMayBeginPart;
  Recorded done = make_call(frame, area, info, since, *first);
  area->poked = 0;
  const bool not_made = done.result == kNotMade;
  if (info.inputs[0].shape == Shape::iocbs) aio_forget_refused(arguments_of(frame), done.result);
  *first = {not_made && !done.stolen, done.hash, done.contents};
  // What the kernel has written before it was interrupted is in memory when a handler is entered.
  const bool written = info.flags & kAlways && signals_pending(area);
  if (first->taken && !written) return !signals_deliver(frame, area, Moment::before_call);
  first->taken = false;
  if (not_made) done.result = -EINTR;  // its release event is written, so it is recorded as interrupted and made again
  if (control.mode != kModeRecord) {   // another thread has ended the recording meanwhile
    if (not_made) pass_through(frame, area);
    else frame->rax = (uint64_t)done.result;
    return false;
  }
  if (const char* what = reaches_foreign_memory(frame, info, done.result)) {
    if (frame->rax == sys::process_vm_writev) collector_send(kReached, 0, (int)frame->rdi, nullptr);
    end_at_call(frame, done.result, what);
    return false;
  }
  if (frame->rax == sys::futex && futex_waits(arguments_of(frame)) && group_member())
    robust_woken(arguments_of(frame)[0]);
  const bool wrote = !failed(done.result) || (done.result == -EFAULT && !out.known);
  if (coded && wrote && !coded_complete(frame, area, done.result, &out, &inner)) {
    end_at_call(frame);
    frame->rax = (uint64_t)done.result;
    return false;
  }
  if (done.result == -EINTR && !not_made) signals_note_mask(frame, area);
  prepare_channels(info, frame, done.result);
  SharedChanges changes;
  if (done.changed.object && !failed(done.result)) changes = shared_record_changes(frame, done.changed, done.result);
  if (!changes.known) {
    end_at_call(frame, done.result, "into a mapped file that cannot be read back");
    return false;
  }
  EventWriter writer(done.stolen ? kReturn : kCall, area, (uint16_t)frame->rax, arguments_of(frame), info.arity);
  const bool seen = probed([&] {
    if (coded && !failed(done.result)) {
      writer.memory((void*)out.address, out.size);
      writer.memory((void*)inner.address, inner.size);
    }
    if (keeps_schedule && info.flags & kIn) write_beginning(writer, info, frame, done.result);
    else if (!coded) write_outputs(writer, info, frame, done.result, offered);
    else if (done.result == -EFAULT) write_reached_coded(writer, frame, out);
    if (info.flags & kPathIn) {
      const char* path = (const char*)arguments_of(frame)[info.inputs[0].argument];
      size_t length = 0;
      if (readable((uint64_t)path, 1) && probed([&] { length = length_of(path); })) writer.part(kPath, path, length);
    }
    if (!failed(done.result)) {
      if (info.flags & (kIn | kOut)) note_transfer(writer, info, frame, done);
      if (info.flags & kOut) note_output(writer, info, frame, done);
      if (info.flags & kCopies) note_copy(writer, info, frame, done.result);
      note_descriptors(writer, info, frame, done.result);
      for (unsigned n = 0; n < changes.count; n++)
        writer.part(kSharedWrite, &changes.steps[n], sizeof changes.steps[n]);
    }
  });
  if (!seen) {
    end_at_call(frame, done.result, kGone);
    return false;
  }
  const bool restart = not_made || (done.result == -EINTR && restarts(info, frame, area));
  if (restart) writer.event->header.flags |= kFlagRestarted;
  writer.commit(done.result, done.hash, done.entry, done.exit);
  if (restart) return !signals_deliver(frame, area, Moment::before_call);
  frame->rax = (uint64_t)done.result;
  if (signals_pending(area)) signals_deliver(frame, area, Moment::after_call);
  return false;
}

// A call that Friday does not handle ends the recording, unless the kernel does not know its number either.
void record_unknown(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  if (info.arity == 0) {
    const uint64_t* a = arguments_of(frame);
    uint64_t entry = ticks_now();
    if (native((long)frame->rax, a[0], a[1], a[2], a[3], a[4], a[5]) == -ENOSYS) {
      EventWriter writer(kCall, area, (uint16_t)frame->rax, a, 0);
      writer.commit(-ENOSYS, 0, entry, ticks_now());
      frame->rax = (uint64_t)-ENOSYS;
      return;
    }
  }
  trace_end(kEndUnhandled, (int)frame->rax, info.name);
  pass_through(frame, area);
}

// Such a filter applies to the shim's calls as well, so the recording ends, unless the kernel refuses the filter.
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

void count_refused(uint32_t call) {
  for (RefusedCall& entry : trace_header()->refused) {
    if (entry.count && entry.call != call) continue;
    entry.call = call;
    if (entry.count != ~0u) entry.count++;
    return;
  }
}

// Handles a call whose code says that it would harm the recording. False: it is no such call.
bool record_instead(CallFrame* frame, ThreadArea* area) {
  if (const long error = refused_for_shim(frame, area)) {
    if (error == -ENOSYS) count_refused((uint32_t)frame->rax);
    record_failed(frame, area, error);
    return true;
  }
  if (asks_to_be_traced(frame)) {
    if (area->borrowed) {
      vfork_traced(area) = true;
      record_failed(frame, area, 0);
      return true;
    }
    end_at_call(frame);
    leave_at_call();
  }
  if (!rules_calls(frame)) return false;
  record_rules(frame, area);
  return true;
}

}  // namespace

void record_call(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  if (signals_pending(area) && frame->rax != sys::rt_sigreturn && signals_deliver(frame, area, Moment::before_call))
    return;
  if (group_member()) robust_mapping_call(frame);
  if (info.rule != kEmulated)
    if (const char* why = reason_to_leave(frame)) {
      if (!can_leave(area)) return record_failed(frame, area, refuse_instead(frame, why));
      trace_end(kEndRefused, 0, why);
      leave_at_call();
    }
  switch (info.rule) {
    case kEmulated:
      if ((is_coded(info) || info.inputs[0].shape == Shape::coded) && record_instead(frame, area)) break;
      if (is_clock(frame->rax) && record_clock(frame, area, info)) break;
      record_described(frame, area, info);
      break;
    case kRefuse:
      count_refused((uint32_t)frame->rax);
      record_failed(frame, area, -ENOSYS);
      break;
    case kNative: {
      uint64_t entry = ticks_now();
      const uint64_t* a = arguments_of(frame);
      long result = native((long)frame->rax, a[0], a[1], a[2], a[3], a[4], a[5]);
      record_native(area, (uint16_t)frame->rax, a, info.arity, result, entry);
      frame->rax = (uint64_t)result;
      break;
    }
    case kSpecial:
      special_call(frame, area);
      if (signals_pending(area) && !frame->full && control.mode == kModeRecord)
        signals_deliver(frame, area, Moment::after_call);
      break;
    case kUnknown: record_unknown(frame, area, info); break;
  }
}

void record_described(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  uint64_t since = 0;
  FirstLook first;
  while (record_once(frame, area, info, since, &first)) {
    since = 0;
    if (!part_wanted()) continue;
    since = area->call_ticks;
    uint8_t before[sizeof trace_header()->node_uuid];
    memcpy(before, trace_header()->node_uuid, sizeof before);
    part_begin(frame, area);
    if (memcmp(before, trace_header()->node_uuid, sizeof before) != 0) first.taken = false;  // the image has it all
  }
}

void record_failed(CallFrame* frame, ThreadArea* area, long error) {
  const CallInfo& info = call_info(frame->rax);
  const uint64_t now = ticks_now();
  EventWriter writer(kCall, area, (uint16_t)frame->rax, arguments_of(frame), info.arity);
  writer.commit(error, input_hash(info, frame), now, now);
  frame->rax = (uint64_t)error;
}

bool restarts(const CallInfo& info, const CallFrame* frame, const ThreadArea* area) {
  if (!(info.flags & kRestart) || !signals_pending(area) || !handler_restarts(area)) return false;
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::futex: return a[3] == 0 || !futex_waits(a);  // without a timeout
    case sys::accept:
    case sys::accept4:
    case sys::recvmmsg: return !has_timeout((int)a[0], true);
    case sys::connect: return !has_timeout((int)a[0], false);
    default: return !(info.flags & (kIn | kOut)) || !has_timeout((int)a[0], info.flags & kIn);
  }
}

}  // namespace friday::shim
