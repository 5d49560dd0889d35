// One system call of the program, from its saved registers to its result: recorded, replayed, or passed through. What
// the table (calls.def) says in full is done here; the rest is in special.cc and its neighbours.
#include <asm/poll.h>
#include <asm/socket.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/magic.h>

#include "core/shim/kernel_structs.h"
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

static_assert(__builtin_offsetof(CallFrame, rip) == 120 && __builtin_offsetof(CallFrame, full) == 152);
static_assert(__builtin_offsetof(ThreadArea, trap_rip) == 24 && __builtin_offsetof(ThreadArea, frame) == 32);
static_assert(__builtin_offsetof(ThreadArea, pending_head) == 144 &&
              __builtin_offsetof(ThreadArea, pending_tail) == 148);
static_assert(__builtin_offsetof(ThreadArea, yield_kind) == 2336 && kYieldLoop == 6);
static_assert(__builtin_offsetof(ImageRecord, rip) == 16 && __builtin_offsetof(ImageRecord, rsp) == 24);

void write_iov(EventWriter& writer, const IoVec* iov, uint64_t count, long result) {
  uint64_t left = result > 0 ? (uint64_t)result : 0;
  for (uint64_t i = 0; i < count && left; i++) {
    uint64_t n = min(iov[i].length, left);
    writer.memory((void*)iov[i].base, n);
    left -= n;
  }
}

namespace {

enum : uint64_t {
  kMsgOutOfBand = 1,
  kMsgPeek = 2,
  kMsgTruncated = 0x20,
  kMsgErrorQueue = 0x2000
};  // MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_ERRQUEUE

void write_message(EventWriter& writer, const MsgHeader* m, long result, uint32_t name_room) {
  write_iov(writer, (const IoVec*)m->iov, m->iov_count, result);
  writer.memory(&m->name_length, 4);
  writer.memory(&m->control_length, 8);
  writer.memory(&m->flags, 4);
  if (m->name) writer.memory((void*)m->name, min(m->name_length, name_room));
  if (m->control) writer.memory((void*)m->control, m->control_length);
}

// Of a message of recvmmsg(2) what is not its payload.
void write_about(EventWriter& writer, const MsgHeader& m) {
  constexpr uint32_t kLongestAddress =
      128;  // the kernel's own limit; what of it the program gave no room for is its old bytes
  if (m.name) writer.memory((void*)m.name, min(m.name_length, kLongestAddress));
  if (m.control) writer.memory((void*)m.control, m.control_length);
}

// The pipe fills the buffers of a vmsplice(2) that reads from it; the other way it only looks at them.
bool fills(int pipe) { return (native(sys::fcntl, pipe, F_GETFL, 0) & O_ACCMODE) == 0; }

bool is_own(uint64_t pid) {
  if (pid == (uint64_t)native(sys::getpid)) return true;
  for (uint32_t n = 0; n < control.thread_count; n++)
    if (area_of(n)->alive && area_of(n)->tid == pid) return true;
  return false;
}

// A call that came to a page which is not there has written what lies before it.
bool reached_in_part(const CallFrame* frame, long result) {
  return result == -EFAULT || (frame->rax == sys::mincore && result == -ENOMEM);
}

// What can be written of `size` bytes at `address`, up to the first page that cannot: that much the kernel may have
// written.
void write_reached(EventWriter& writer, uint64_t address, uint64_t size) {
  if (!readable(address, size)) size = address >= 4096 && address < 0x7ffffffff000 ? 0x7ffffffff000 - address : 0;
  uint64_t end = address;
  while (end < address + size && probed([&] { __atomic_fetch_or((uint8_t*)end, 0, __ATOMIC_RELAXED); }))
    end = min(page_up(end + 1), address + size);
  if (end != address) writer.memory((void*)address, end - address);
}

void write_reached(EventWriter& writer, const IoVec* iov, uint64_t count) {
  for (uint64_t i = 0; i < count; i++) {
    IoVec one;
    if (!probed([&] { one = iov[i]; })) return;
    write_reached(writer, (uint64_t)one.base, one.length);
  }
}

void write_reached(EventWriter& writer, const CallInfo& info, const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  for (const Operand& out : info.outputs) {
    const uint64_t address = a[out.argument], other = a[out.other];
    MsgHeader message;
    switch (out.shape) {
      case Shape::none: return;
      case Shape::ret:
        write_reached(writer, address, frame->rax == sys::sched_getaffinity ? a[1] : a[out.argument + 1]);
        break;
      case Shape::ret_n: write_reached(writer, address, (uint32_t)other * (uint64_t)out.size); break;
      case Shape::fix: write_reached(writer, address, out.size); break;
      case Shape::count: write_reached(writer, address, other * out.size); break;
      case Shape::ret_cap:
      case Shape::argument: write_reached(writer, address, other); break;
      case Shape::pages: write_reached(writer, address, (other + 4095) / 4096); break;
      case Shape::fdset: write_reached(writer, address, fdset_bytes(a)); break;
      case Shape::iov: write_reached(writer, (const IoVec*)address, other); break;
      case Shape::own_iov:
        if (is_own(a[0])) write_reached(writer, (const IoVec*)address, other);
        break;
      case Shape::mmsg:
      case Shape::msg:
        if (probed([&] { message = *(const MsgHeader*)address; }))
          write_reached(writer, (const IoVec*)message.iov, message.iov_count);
        break;
      default: break;
    }
  }
}

// A value-result length, and the bytes that it counts: `offered` was room for so many. The kernel tells the length also
// where no address is given.
void write_length(EventWriter& writer, const CallFrame* frame, const Operand& out, uint32_t offered) {
  const uint64_t* a = arguments_of(frame);
  const uint32_t* length = (const uint32_t*)a[out.other];
  if (!readable((uint64_t)length, 4)) return;
  writer.memory(length, 4);
  if (!readable(a[out.argument], 1)) return;
  const bool filter =
      frame->rax == sys::getsockopt && a[1] == SOL_SOCKET && a[2] == SO_GET_FILTER /* counts instructions */;
  writer.memory((void*)a[out.argument], (size_t)min(*length, offered) * (filter ? 8 : 1));
}

// How many of its outputs a call has written that came to `result`: as a rule a failed one none.
unsigned outputs_written(const CallInfo& info, const CallFrame* frame, long result) {
  constexpr unsigned kAll = sizeof info.outputs / sizeof info.outputs[0];
  if (!failed(result)) return kAll;
  switch (frame->rax) {
    case sys::getsockopt: return result == -ERANGE;  // the length that it would take
    case sys::capget:
    case sys::capset: return result == -EINVAL;        // the version they want
    case sys::sched_setattr: return result == -E2BIG;  // the size
    case sys::io_submit:
    case sys::waitid: return 1;  // of waitid a siginfo_t of nobody
  }
  return (info.flags & kAlways) && result != -EINVAL ? kAll : 0;
}

}  // namespace

// `before`: for value-result lengths, what the program offered: [0] LEN, [1] a message's name length.
void write_outputs(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result,
                   const uint32_t* before) {
  if (reached_in_part(frame, result)) return write_reached(writer, info, frame);
  unsigned left = outputs_written(info, frame, result);
  const uint64_t* a = arguments_of(frame);
  for (const Operand& out : info.outputs) {
    if (out.shape == Shape::none || left-- == 0) break;
    uint64_t address = a[out.argument];
    if (out.shape == Shape::length) write_length(writer, frame, out, before[0]);
    if (out.shape == Shape::length || !readable(address, 1)) continue;
    void* p = (void*)address;
    switch (out.shape) {
      case Shape::ret:
        if (result > 0) writer.memory(p, (size_t)result);
        break;
      case Shape::ret_n:
        if (result > 0) writer.memory(p, min((size_t)result, (size_t)(uint32_t)a[out.other]) * out.size);
        break;
      case Shape::ret_cap:
        if (result > 0) writer.memory(p, min((size_t)result, (size_t)a[out.other]));
        break;
      case Shape::fix: writer.memory(p, out.size); break;
      case Shape::count: writer.memory(p, a[out.other] * out.size); break;
      case Shape::argument: writer.memory(p, a[out.other]); break;
      case Shape::pages: writer.memory(p, (a[out.other] + 4095) / 4096); break;
      case Shape::fdset: writer.memory(p, fdset_bytes(a)); break;
      case Shape::iov: write_iov(writer, (IoVec*)p, a[out.other], result); break;
      case Shape::msg: write_message(writer, (MsgHeader*)p, result, before[1]); break;
      case Shape::mmsg_len:
        for (long i = 0; i < result; i++) writer.memory(&((MmsgHeader*)p)[i].length, 4);
        break;
      case Shape::mmsg:
        for (long i = 0; i < result; i++) {
          const MmsgHeader& m = ((MmsgHeader*)p)[i];
          write_iov(writer, (const IoVec*)m.header.iov, m.header.iov_count, m.length);
        }
        if (result > 0) writer.memory(p, (size_t)result * sizeof(MmsgHeader));
        for (long i = 0; i < result; i++) write_about(writer, ((MmsgHeader*)p)[i].header);
        break;
      case Shape::message_text:
        if (result >= 0) writer.memory(p, (size_t)result + 8);
        break;
      case Shape::handle:
        if (!failed(result) || result == -EOVERFLOW) {
          writer.memory(p, result ? 8 : handle_bytes(address));
          writer.memory((void*)a[3], a[4] & 1 /* AT_HANDLE_MNT_ID_UNIQUE */ ? 8 : 4);
        }
        break;
      case Shape::aio_events:
        if (result > 0) aio_write_events(writer, p, result);
        break;
      case Shape::iocbs: aio_write_keys(writer, address, a[out.other], result); break;
      case Shape::nodes: writer.memory(p, nodes_bytes(a[out.other])); break;
      case Shape::spliced:
        if (fills((int)a[0])) write_iov(writer, (IoVec*)p, a[out.other], result);
        break;
      case Shape::own_iov:
        if (is_own(a[0])) write_iov(writer, (IoVec*)p, a[out.other], result);
        break;
      case Shape::xattr: {
        const XattrArguments* x = (const XattrArguments*)p;
        if (result > 0) writer.memory((void*)x->value, min((uint32_t)result, x->size));
        break;
      }
      case Shape::caps: writer.memory(p, *(uint32_t*)a[0] == kCapabilitiesOne ? 12 : 24); break;
      default: break;
    }
  }
}

static void note_lengths(const CallInfo& info, const CallFrame* frame, uint32_t* before) {
  const uint64_t* a = arguments_of(frame);
  before[0] = before[1] = 0;
  for (const Operand& out : info.outputs) {
    if (out.shape == Shape::none) return;
    if (out.shape == Shape::length && readable(a[out.other], 4)) probed([&] { before[0] = *(uint32_t*)a[out.other]; });
    if (out.shape == Shape::msg && readable(a[out.argument], 1))
      probed([&] { before[1] = ((MsgHeader*)a[out.argument])->name_length; });
  }
}

static bool is_clock(uint64_t call) {
  return call == sys::clock_gettime || call == sys::gettimeofday || call == sys::time;
}

// The clocks that the real vdso answers without entering the kernel. False: it has to be asked, which also tells
// EFAULT.
static bool read_clock(const CallFrame* frame, long* result) {
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

static void lend_for_call(const CallFrame* frame, ThreadArea* area, const CallInfo& info, const Recorded& done) {
  area->call_hash = done.hash;
  area->call_ticks = done.entry;
  area->call_number = (uint32_t)frame->rax;
  token_lend(area, info.flags & kQuick && !(is_coded(info) && waits_by_code(frame)));
}

// A change of a file that is mapped takes place while nobody looks. But what splice(2) takes from a pipe somebody may
// have to write first: others are let go on until it is there. If one did, the call is made anew.
static long make_change(CallFrame* frame, ThreadArea* area, const CallInfo& info, Recorded* done) {
  constexpr uint64_t kNonBlocking = 2 /* SPLICE_F_NONBLOCK */;
  const uint64_t* a = arguments_of(frame);
  const bool waits =
      frame->rax == sys::splice && !(a[5] & kNonBlocking) && !(native(sys::fcntl, a[0], F_GETFL, 0) & O_NONBLOCK);
  if (!waits) return interruptible_call(area, frame);
  const uint64_t at_once[6] = {a[0], a[1], a[2], a[3], a[4], a[5] | kNonBlocking};
  for (;;) {
    const long result = unless_poked(area, [&] { return friday_interruptible(area, sys::splice, at_once); });
    if (result != -EAGAIN) return result;
    struct {
      int fd;
      short events, revents;
    } pipe = {(int)a[0], POLLIN, 0};
    const uint64_t wait[6] = {(uint64_t)&pipe, 1, (uint64_t)-1};
    lend_for_call(frame, area, info, *done);
    const long ready = unless_poked(area, [&] { return friday_interruptible(area, sys::poll, wait); });
    done->stolen = !token_retake(area);
    if (failed(ready) || ready == kNotMade) return ready;
    if (done->stolen) return kNotMade;
  }
}

Recorded make_call(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  Recorded done;
  const uint32_t files = group_files();
  done.changed = files ? shared_to_change(frame) : ChangedFile{};
  done.hash = input_hash(info, frame);
  done.stolen = false;
  done.entry = ticks_now();
  trace_header()->running = kInCall;
  trace_header()->dies_of = signals_own_death(frame, area);
  const bool shared = (live_threads > 1 || group_member()) && !done.changed.object;
  if (shared) lend_for_call(frame, area, info, done);
  done.result = done.changed.object ? make_change(frame, area, info, &done) : interruptible_call(area, frame);
  done.exit = ticks_now();
  trace_header()->dies_of = 0;
  if (!done.changed.object && group_files() != files) done.changed = shared_changed(frame);  // mapped meanwhile
  if (shared) done.stolen = !token_retake(area);
  else trace_header()->running = kComputing;
  return done;
}

namespace {

// The hash of the `bytes` that a call has moved, chained to `seed`. What was gathered from several buffers is one run
// of bytes.
uint64_t hash_of_moved(const Operand& payload, const uint64_t* a, uint64_t bytes, uint64_t seed) {
  if (payload.shape != Shape::iov && payload.shape != Shape::msg)
    return hash_run((char*)a[payload.argument], min(bytes, a[2]), seed);
  const MsgHeader* m = payload.shape == Shape::msg ? (const MsgHeader*)a[payload.argument] : nullptr;
  const IoVec* iov = m ? (const IoVec*)m->iov : (const IoVec*)a[payload.argument];
  const uint64_t count = m ? m->iov_count : a[payload.other];
  if (count == 1) return hash_run((char*)iov[0].base, min(bytes, iov[0].length), seed);
  return hash_gathered(&iov[0].base, count, bytes, seed);
}

// Of a datagram that the program sends with its IP header, which the kernel completes, what follows that header;
// `bytes` becomes its length.
uint64_t hash_behind_header(const Operand& payload, const uint64_t* a, uint64_t* bytes) {
  static char datagram[1 << 16];
  const IoVec whole = {a[payload.argument], *bytes};
  const MsgHeader* m = payload.shape == Shape::msg ? (const MsgHeader*)a[payload.argument] : nullptr;
  const IoVec* iov = m                             ? (const IoVec*)m->iov
                     : payload.shape == Shape::iov ? (const IoVec*)a[payload.argument]
                                                   : &whole;
  const uint64_t count = m ? m->iov_count : payload.shape == Shape::iov ? a[payload.other] : 1;
  uint64_t filled = 0;
  for (uint64_t i = 0; i < count && filled < sizeof datagram; i++) {
    const uint64_t n = min(iov[i].length, sizeof datagram - filled);
    memcpy(datagram + filled, (const void*)iov[i].base, n);
    filled += n;
  }
  const uint64_t header = filled ? (uint64_t)(datagram[0] & 15) * 4 : 0;
  if (header > filled) return 0;
  *bytes = filled - header;
  return hash_run(datagram + header, filled - header, 0);
}

// sendmmsg(2), recvmmsg(2): each message is a transfer.
void note_messages(EventWriter& writer, const MmsgHeader* m, int fd, long count, Moved moved) {
  const bool datagrams = channel_is_datagram(fd), in = moved.direction == format::kIn;
  const uint16_t flags = moved.flags;
  for (long i = 0; i < count; i++) {
    const MsgHeader& h = m[i].header;
    if (!in || datagrams)
      moved.hash = hash_gathered((uint64_t*)h.iov, h.iov_count, m[i].length, datagrams ? 0 : channel_hash(fd));
    const uint16_t cut = in && (h.flags & kMsgTruncated) ? kTruncated : 0;
    const uint16_t end = in && !datagrams && !m[i].length ? kEndOfStream : 0;
    moved.flags = flags | cut | end;
    moved.length = m[i].length;
    moved.peer = (void*)h.name;
    moved.peer_length = h.name ? h.name_length : 0;
    moved.message = (uint32_t)i;
    channel_transfer(writer, fd, moved);
  }
}

// Which way the bytes went: that of vmsplice(2) the pipe's mode says.
bool is_incoming(const CallInfo& info, const uint64_t* a) {
  return (info.flags & kOut) && (info.flags & kIn) ? fills((int)a[0]) : info.flags & kIn;
}

// The bytes that a call has moved through the channel behind argument 0: how many, their hash, from or to whom.
void note_transfer(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Recorded& done) {
  const uint64_t* a = arguments_of(frame);
  const int fd = (int)a[0];
  const bool in = is_incoming(info, a);
  const Operand& payload = in ? info.outputs[0] : info.inputs[0];
  const Operand& address = in ? info.outputs[1] : info.inputs[1];
  const uint64_t asked = info.flags & kFlags3 ? a[3] : info.flags & kFlags2 ? a[2] : 0;
  if (asked & kMsgErrorQueue) return;  // what stands there is no part of what the other side sent
  Moved moved = {in ? format::kIn : format::kOut, (uint64_t)done.result};
  moved.flags = (asked & kMsgPeek ? kPeek : 0) | (asked & kMsgOutOfBand ? kOutOfBand : 0);
  if (payload.shape == Shape::mmsg)
    return note_messages(writer, (const MmsgHeader*)a[payload.argument], fd, done.result, moved);
  if (payload.shape == Shape::msg) {
    const MsgHeader* m = (const MsgHeader*)a[payload.argument];
    moved.peer = (void*)m->name;
    moved.peer_length = m->name ? m->name_length : 0;
    if (in && (m->flags & kMsgTruncated)) moved.flags |= kTruncated;
  } else if (address.shape == Shape::buffer && a[address.argument]) {
    moved.peer = (void*)a[address.argument], moved.peer_length = (uint32_t)a[address.other];
  } else if (address.shape == Shape::length && a[address.argument] && a[address.other]) {
    moved.peer = (void*)a[address.argument], moved.peer_length = *(uint32_t*)a[address.other];
  }
  const bool datagrams = channel_is_datagram(fd),
             buffer = payload.shape == Shape::ret || payload.shape == Shape::ret_cap;
  if (in && done.result == 0 && !(buffer && a[2] == 0)) moved.flags |= kEndOfStream;
  // TCP drops what it is told to cut off. What vmsplice(2) lends to a pipe the program may still change.
  moved.seen = in ? datagrams || !(asked & kMsgTruncated) : !(info.flags & kIn);
  if (!in && channel_sends_header(fd)) moved.hash = hash_behind_header(payload, a, &moved.length);
  else if (moved.seen && (!in || datagrams))
    moved.hash = hash_of_moved(payload, a, moved.length, datagrams ? 0 : channel_hash(fd));
  channel_transfer(writer, fd, moved);
}

// Bytes that the kernel has moved from one channel to another, and the program has not seen.
void note_copy(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result) {
  const uint64_t* a = arguments_of(frame);
  if (a[copies_length(info.flags)] == 0) return;
  Moved moved = {format::kIn, (uint64_t)result};
  moved.seen = false;
  moved.flags = (info.flags & kKeepsSource ? kPeek : 0) | (result == 0 ? kEndOfStream : 0);
  channel_transfer(writer, (int)a[copies_from(info.flags)], moved);
  moved.direction = format::kOut;
  moved.flags = 0;
  if (result) channel_transfer(writer, (int)a[copies_to(info.flags)], moved);
}

// The two descriptors that pipe(2) or socketpair(2) has made.
const int* new_pair(const CallInfo& info, const uint64_t* a) { return (const int*)a[info.outputs[0].argument]; }

// semop(2), semtimedop(2): raising a semaphore lets others go on, all else waits for them.
void note_semaphores(EventWriter& writer, const uint64_t* a) {
  struct Operation {
    uint16_t number;
    int16_t change;
    int16_t flags;
  };
  SyncPart part = {kLetsGo, 0};
  for (uint64_t i = 0; i < a[2]; i++)
    if (((const Operation*)a[1])[i].change <= 0) part.role = kAcquires;
  writer.part(kSync, &part, sizeof part);
}

void note_descriptors(EventWriter& writer, const CallInfo& info, const CallFrame* frame, long result) {
  const uint64_t* a = arguments_of(frame);
  long call = (long)frame->rax;
  if (call == sys::semop || call == sys::semtimedop) note_semaphores(writer, a);
  if (call == sys::fcntl) note_fcntl(writer, a, result);
  if (info.flags & kDuplicates) channel_duplicate((int)a[0], (int)result);
  if (info.flags & kNamed) channel_opened(writer, (int)result);
  if (info.flags & kBinds) channel_opened(writer, (int)a[0]);
  if (info.flags & kOpensPair)
    for (int i = 0; i < 2; i++) channel_opened(writer, new_pair(info, a)[i]);
  if (call == sys::wait4 && result > 0) {
    WaitPart wait = {(uint32_t)result, a[1] ? *(uint32_t*)a[1] : 0};
    writer.part(kWait, &wait, sizeof wait);
  }
  if (call == sys::waitid && readable(a[2], 128)) {
    const int* about = (const int*)a[2];  // siginfo_t: si_signo, si_errno, si_code, -, si_pid, si_uid, si_status
    const int how = about[2], status = about[6];
    if (!about[4] || how < 1 || how > 3) return;  // CLD_EXITED, CLD_KILLED, CLD_DUMPED
    WaitPart wait = {(uint32_t)about[4], (uint32_t)(how == 1 ? status << 8 : how == 3 ? status | 0x80 : status)};
    writer.part(kWait, &wait, sizeof wait);
  }
}

// A socket with a timeout never starts a call again (signal(7)).
bool has_timeout(int fd, bool in) {
  uint64_t time[2] = {0, 0};
  uint32_t size = sizeof time;
  return !failed(native(sys::getsockopt, fd, SOL_SOCKET, in ? SO_RCVTIMEO : 21, time, &size)) && (time[0] || time[1]);
}

// A ChannelRecord is a record of its own and must stand before the event that uses it.
void prepare_channels(const CallInfo& info, const CallFrame* frame, long result) {
  const uint64_t* a = arguments_of(frame);
  long call = (long)frame->rax;
  if (failed(result)) {
    if (call == sys::connect && result == -EINPROGRESS) {
      // The peer is not known yet: the next transfer writes the record once more.
      channel_changed((int)a[0]);
      channel_prepare((int)a[0]);
      channel_changed((int)a[0]);
    }
    return;
  }
  if (info.flags & (kIn | kOut)) return channel_prepare((int)a[0]);
  if (info.inputs[0].shape == Shape::iocbs) return aio_prepare_channels(a, result);
  if (info.flags & kCopies) {
    channel_prepare((int)a[copies_from(info.flags)]);
    channel_prepare((int)a[copies_to(info.flags)]);
    return;
  }
  if (info.flags & kBinds) {
    channel_changed((int)a[0]);
    channel_prepare((int)a[0]);
  }
  if (info.flags & kOpens) channel_forget((int)result);
  if (info.flags & kNamed) channel_prepare((int)result);
  if (info.flags & kOpensPair)
    for (int i = 0; i < 2; i++) channel_forget(new_pair(info, a)[i]), channel_prepare(new_pair(info, a)[i]);
}

// A clock that is read without the kernel: nothing blocks, so the token is not lent, and it is one point in time.
// False: it has to be a call like others, if only because it is somebody else's turn.
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
    write_outputs(writer, info, frame, result, nullptr);
    writer.commit(result, 0, now, now);
  }
  frame->rax = (uint64_t)result;
  if (signals_pending(area)) signals_deliver(frame, area, Moment::after_call);
  return true;
}

// A call that reaches memory which no trace shows changing: another process's, or a process's by its file in /proc.
// Null: it does not, else what is said of it where the recording ends. It has been made.
const char* reaches_foreign_memory(const CallFrame* frame, const CallInfo& info, long result) {
  const uint64_t call = frame->rax;
  if (call == sys::process_vm_writev) return result > 0 && !is_own(arguments_of(frame)[0]) ? info.name : nullptr;
  const bool opens = call == sys::open || call == sys::creat || call == sys::openat || call == sys::openat2;
  if (!opens || failed(result) || !(native(sys::fcntl, result, F_GETFL, 0) & 3 /* O_WRONLY, O_RDWR */)) return nullptr;
  uint64_t about[15] = {};  // struct statfs
  if (failed(native(sys::fstatfs, result, about)) || about[0] != PROC_SUPER_MAGIC) return nullptr;
  static char path[kPathBytes];
  path_of_descriptor((int)result, path, sizeof path);
  const size_t length = length_of(path);
  constexpr char kFile[] = "/mem";
  if (length < 4 || memcmp(path + length - 4, kFile, 4) != 0) return nullptr;
  return "of a process's memory, for writing";
}

}  // namespace

void end_at_call(CallFrame* frame, long result, const char* why) {
  trace_end(kEndUnhandled, (int)frame->rax, why);
  frame->rax = (uint64_t)result;
}

namespace {

// One try at a table call. True: the call must be made again (interrupted, no handler was due after all).
bool record_once(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  uint32_t before[2];
  note_lengths(info, frame, before);
  const bool coded = is_coded(info);
  Block out = coded ? coded_output(frame) : Block(), inner;
  if (info.inputs[0].shape == Shape::iocbs) aio_note_submitted(arguments_of(frame));
  if (frame->rax == sys::msync) state_synced(frame, area);
  Recorded done = make_call(frame, area, info);
  const bool not_made = done.result == kNotMade;
  if (info.inputs[0].shape == Shape::iocbs) aio_forget_refused(arguments_of(frame), done.result);
  if (not_made && !done.stolen) return !signals_deliver(frame, area, Moment::before_call);
  if (not_made) done.result = -EINTR;  // its entry is in the log: it counts as interrupted, and is made again
  if (control.mode != kModeRecord) {   // another thread ended the recording meanwhile
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
  if (coded && !failed(done.result) && !coded_complete(frame, area, done.result, &out, &inner)) {
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
    if (!coded) write_outputs(writer, info, frame, done.result, before);
    if (info.flags & kPathIn) {
      const char* path = (const char*)arguments_of(frame)[info.inputs[0].argument];
      size_t length = 0;
      if (readable((uint64_t)path, 1) && probed([&] { length = length_of(path); })) writer.part(kPath, path, length);
    }
    if (!failed(done.result)) {
      if (info.flags & (kIn | kOut)) note_transfer(writer, info, frame, done);
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

// A call that Friday does not handle ends the recording; a number that not even the kernel knows changes nothing.
void record_unknown(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  if (info.arity == 0) {
    const uint64_t* a = arguments_of(frame);
    uint64_t entry = ticks_now();
    if (native((long)frame->rax, a[0], a[1], a[2], a[3], a[4], a[5]) == -ENOSYS) {
      EventWriter writer(kCall, area, (uint16_t)frame->rax, a, 0);
      writer.commit(-ENOSYS, 0, entry, ticks_now());
      frame->rax = (uint64_t)-38;
      return;
    }
  }
  trace_end(kEndUnhandled, (int)frame->rax, info.name);
  pass_through(frame, area);
}

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

// What is done in place of a call whose code says that it would harm the recording. False: nothing.
bool record_instead(CallFrame* frame, ThreadArea* area) {
  if (const long error = refused_for_shim(frame)) record_failed(frame, area, error);
  else if (rules_calls(frame)) record_rules(frame, area);
  else return false;
  return true;
}

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
    case kRefuse: record_failed(frame, area, -ENOSYS); break;
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

}  // namespace

void record_described(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  while (record_once(frame, area, info)) {}
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

// A transfer's hash runs over blocks of 4096 bytes, each block's hash the seed of the next, so that what is gathered
// from several buffers hashes like one run of bytes (docs/trace-format.md, transfer hashes).
uint64_t hash_run(const char* data, uint64_t size, uint64_t seed) {
  for (; size > kHashBlock; data += kHashBlock, size -= kHashBlock) seed = hash_bytes(data, kHashBlock, seed);
  return hash_bytes(data, size, seed);
}

uint64_t hash_gathered(const uint64_t* iov_words, uint64_t count, uint64_t limit, uint64_t seed) {
  const IoVec* iov = (const IoVec*)iov_words;
  char block[kHashBlock];
  uint64_t filled = 0;
  for (uint64_t i = 0; i < count && limit; i++) {
    const char* from = (const char*)iov[i].base;
    uint64_t left = min(iov[i].length, limit);
    limit -= left;
    while (left) {
      if (filled == sizeof block) {
        seed = hash_bytes(block, filled, seed);
        filled = 0;
      }
      uint64_t n = min(left, sizeof block - filled);
      memcpy(block + filled, from, n);
      filled += n;
      from += n;
      left -= n;
    }
  }
  return hash_bytes(block, filled, seed);
}

void pass_through(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  long call = (long)frame->rax;
  if (shim_has_left()) {  // where its code could not be given back
    frame->rax = (uint64_t)native(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    return;
  }
  if (!area->native && rules_calls(frame)) {
    if (const long said = control.mode == kModePassThrough ? rules_refused(frame) : 0) {
      frame->rax = said == kRulesAsBefore ? 0 : (uint64_t)said;
      return;
    }
    if (can_leave(area)) leave_at_call();
    process_seals(area);
  }
  if (const char* why = area->native ? nullptr : reason_to_leave(frame)) {
    if (can_leave(area)) leave_at_call();
    frame->rax = (uint64_t)refuse_instead(frame, why);
    return;
  }
  if (call == sys::clone || call == sys::fork || call == sys::vfork) {
    frame->rax = (uint64_t)do_clone(frame, area);
    return;
  }
  if (call_info(call).rule == kRefuse) {
    frame->rax = (uint64_t)-38;
    return;
  }
  // What the shim keeps itself stays its own: the kernel knows nothing of the program's masks and handlers.
  if (call == sys::rt_sigreturn) {
    do_sigreturn(frame, area);
    if (!signals_pending(area) || !signals_deliver(frame, area, Moment::anywhere)) sigreturn_finish(frame);
    return;
  }
  if (local_call(frame, area)) {
    if (signals_pending(area)) signals_deliver(frame, area, Moment::after_call);
    return;
  }
  // Without a call where the program makes none by itself: a filter may not allow it.
  long now = 0;
  bool read = false;
  if (is_clock(call) && !area->native && probed([&] { read = read_clock(frame, &now); }) && read) {
    frame->rax = (uint64_t)now;
    return;
  }
  if (call == sys::exit) do_thread_exit(frame, area);
  if (call == sys::futex && futex_inherits(a))
    return do_futex_inheriting(frame, area);  // words and waiters are in that form
  if (area->native && (call == sys::mmap || call == sys::mprotect || call == sys::munmap || call == sys::mremap ||
                       call == sys::madvise)) {
    frame->rax = (uint64_t)native_mapping(call, a);
    return;
  }
  const bool executes = call == sys::execve || call == sys::execveat;
  if (executes) token_spare(area, true);
  long result;
  while ((result = executes ? exec_call(area, call, a) : interruptible_call(area, frame)) == kNotMade)
    if (signals_deliver(frame, area, Moment::before_call)) break;
  if (executes) token_spare(area, false);
  if (result == kNotMade) return;
  if (result == -EINTR) signals_note_mask(frame, area);
  frame->rax = (uint64_t)result;
  if (result == -EINTR && restarts(call_info(call), frame, area)) {
    frame->rax = (uint64_t)call;
    signals_deliver(frame, area, Moment::before_call);
  } else if (signals_pending(area)) {
    signals_deliver(frame, area, Moment::after_call);
  }
}

// Signals recorded around a special call are delivered here; replay_call does so by itself for all others.
static void replay_dispatch(CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  if (info.rule != kSpecial || special_is_plain(frame)) {
    if (info.rule == kSpecial) special_call(frame, area);
    else replay_call(frame, area, info);
    return;
  }
  replay_begin(area);
  const EventRecord* next = replay_peek();
  if (is_signal_of(next, area) && (next->header.flags & kFlagAtEntry)) {
    signals_deliver(frame, area, Moment::before_call);
    return;
  }
  special_call(frame, area);
  if (!frame->full && replay_signal_follows(area)) signals_deliver(frame, area, Moment::after_call);
}

// Of the others each lends the token; a new process has its own, and behind the return of a handler the registers are
// not this call's.
static bool keeps_token(const CallInfo& info, uint64_t call) {
  return info.rule != kEmulated && info.rule != kUnknown && call != sys::rt_sigreturn && call != sys::clone &&
         call != sys::fork && call != sys::vfork;
}

extern "C" int friday_dispatch(CallFrame* frame) {
  ThreadArea* area = me();
  frame->previous = area->frame;
  area->frame = frame;
  signals_step_on(frame, area);
  if (control.mode != kModeRecord) find_site(frame);  // for whoever looks at a parked thread
  const CallInfo& info = call_info(frame->rax);
  const bool keeps = keeps_token(info, frame->rax);
  switch (area->native ? kModePassThrough : control.mode) {
    case kModeRecord:
      if (state_every) state_note(frame, area);
      record_call(frame, area, info);
      if (keeps) yield_behind_call(frame, area);
      break;
    case kModeReplay:
      replay_dispatch(frame, area, info);
      if (keeps) yield_behind_call(frame, area);
      break;
    default: pass_through(frame, area); break;
  }
  area->frame = frame->previous;
  return 0;
}

}  // namespace friday::shim
