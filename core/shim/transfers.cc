// What a call has done to channels: the bytes that it has moved, with the hash by which sender and receiver are
// matched, and the descriptors that it has created. Both refer to channels, whose ChannelRecords are written before the
// event.
#include <linux/fcntl.h>

#include "core/shim/calls.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/schedule.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

uint64_t gathered_contents(const uint64_t* iov_words, uint64_t count, uint64_t limit) {
  const IoVec* iov = (const IoVec*)iov_words;
  if (count == 1) return hash_bytes((const void*)iov[0].base, min(iov[0].length, limit), 0);
  GatheredHash hash;
  for (uint64_t i = 0; i < count && limit; i++) {
    const uint64_t n = min(iov[i].length, limit);
    hash.add((const void*)iov[i].base, n);
    limit -= n;
  }
  return hash.end();
}

namespace {

// The block_hash of the `bytes` that a call has moved. What was gathered from several buffers is one run of bytes.
uint64_t contents_of_moved(const Operand& payload, const uint64_t* a, uint64_t bytes) {
  if (payload.shape != Shape::iov && payload.shape != Shape::msg)
    return hash_bytes((void*)a[payload.argument], min(bytes, a[2]), 0);
  const MsgHeader* m = payload.shape == Shape::msg ? (const MsgHeader*)a[payload.argument] : nullptr;
  return m ? gathered_contents((uint64_t*)m->iov, m->iov_count, bytes)
           : gathered_contents((uint64_t*)a[payload.argument], a[payload.other], bytes);
}

uint64_t room_of(const IoVec* iov, uint64_t count) {
  uint64_t room = 0;
  for (uint64_t i = 0; i < count; i++) room += iov[i].length;
  return room;
}

// The size of the buffers into which a call receives.
uint64_t room_of(const Operand& payload, const uint64_t* a) {
  if (payload.shape != Shape::iov && payload.shape != Shape::msg) return a[2];
  const MsgHeader* m = payload.shape == Shape::msg ? (const MsgHeader*)a[payload.argument] : nullptr;
  const IoVec* iov = m ? (const IoVec*)m->iov : (const IoVec*)a[payload.argument];
  return room_of(iov, m ? m->iov_count : a[payload.other]);
}

// With MSG_TRUNC, the kernel says how long a datagram was, even if the buffers were too small for it.
void cut(Moved* moved, uint64_t room) {
  if (moved->length <= room) return;
  moved->full_length = moved->length;
  moved->length = room;
  moved->flags |= kTruncated;
}

// For a datagram that the program sends with its IP header: the hash of what follows the header, and in `bytes` its
// length. The header is left out because the kernel changes fields of it.
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
  return run_hash(hash_bytes(datagram + header, filled - header, 0), 0);
}

// sendmmsg(2), recvmmsg(2): each message is a transfer of its own.
void note_messages(EventWriter& writer, const MmsgHeader* m, int fd, long count, Moved moved) {
  const bool datagrams = channel_is_datagram(fd), in = moved.direction == format::kIn;
  const uint16_t flags = moved.flags;
  for (long i = 0; i < count; i++) {
    const MsgHeader& h = m[i].header;
    moved.flags = flags;
    moved.length = m[i].length;
    moved.full_length = 0;
    if (in && datagrams) cut(&moved, room_of((const IoVec*)h.iov, h.iov_count));
    if (!in || datagrams)
      moved.hash =
          run_hash(gathered_contents((uint64_t*)h.iov, h.iov_count, moved.length), datagrams ? 0 : channel_hash(fd));
    if (in && (h.flags & kMsgTruncated)) moved.flags |= kTruncated;
    if (in && !datagrams && !m[i].length) moved.flags |= kEndOfStream;
    moved.peer = (void*)h.name;
    moved.peer_length = h.name ? h.name_length : 0;
    moved.message = (uint16_t)i;
    channel_transfer(writer, fd, moved);
  }
}

// Whether the program has received the bytes. For vmsplice(2) that depends on which end of the pipe it was given.
bool is_incoming(const CallInfo& info, const uint64_t* a) {
  return (info.flags & kOut) && (info.flags & kIn) ? fills((int)a[0]) : info.flags & kIn;
}

// The two descriptors that pipe(2) or socketpair(2) has created.
const int* new_pair(const CallInfo& info, const uint64_t* a) { return (const int*)a[info.outputs[0].argument]; }

// semop(2), semtimedop(2): increments release others, any other operation may have waited for them.
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

}  // namespace

void note_transfer(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Recorded& done) {
  const uint64_t* a = arguments_of(frame);
  const int fd = (int)a[0];
  const bool in = is_incoming(info, a);
  const Operand& payload = in ? info.outputs[0] : info.inputs[0];
  const Operand& address = in ? info.outputs[1] : info.inputs[1];
  const uint64_t asked = message_flags(info, a);
  if (asked & kMsgErrorQueue) return;  // an error message of the kernel's, not bytes that the peer has sent
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
  if (in && datagrams) cut(&moved, room_of(payload, a));
  // With MSG_TRUNC, TCP discards the bytes (tcp(7)). Pages that vmsplice(2) has put into a pipe the program may still
  // change, so their hash would say nothing.
  // A schedule does not look at what vmsplice(2) has read.
  moved.seen =
      in ? (datagrams || !(asked & kMsgTruncated)) && !(keeps_schedule && info.flags & kOut) : !(info.flags & kIn);
  if (!in && channel_sends_header(fd)) moved.hash = hash_behind_header(payload, a, &moved.length);
  else if (moved.seen && (!in || datagrams)) {
    const bool hashed = !in && done.contents.length == moved.length;
    moved.hash = run_hash(hashed ? done.contents.hash : contents_of_moved(payload, a, moved.length),
                          datagrams ? 0 : channel_hash(fd));
  }
  channel_transfer(writer, fd, moved);
}

uint64_t output_limit;

void note_output(EventWriter& writer, const CallInfo& info, const CallFrame* frame, const Recorded& done) {
  const uint64_t* a = arguments_of(frame);
  const Operand& payload = info.inputs[0];
  const bool buffer = payload.shape == Shape::buffer, message = payload.shape == Shape::msg;
  const bool output = output_limit && (a[0] == 1 || a[0] == 2);
  if ((!output && !keeps_schedule) || done.result <= 0) return;
  if (!buffer && !message && payload.shape != Shape::iov) return;
  // Another thread that has run meanwhile may have changed the buffer.
  const uint64_t length = (uint64_t)done.result;
  if (done.stolen && (done.contents.length != length || contents_of_moved(payload, a, length) != done.contents.hash))
    return;
  FileHeader* header = trace_header();
  const uint64_t limit = output_limit + header->committed / 2;
  uint64_t kept = output && header->output < limit ? min(length, limit - header->output) : 0;
  if (keeps_schedule && kept < first_bytes) kept = min<uint64_t>(length, first_bytes);
  if (!kept) return;
  char* place = (char*)writer.part_space(kOutput, kept);
  if (!place) return;
  if (output) header->output += kept;
  if (buffer) {
    memcpy(place, (const void*)a[payload.argument], kept);
    return;
  }
  const MsgHeader* m = message ? (const MsgHeader*)a[payload.argument] : nullptr;
  const IoVec* iov = m ? (const IoVec*)m->iov : (const IoVec*)a[payload.argument];
  const uint64_t count = m ? m->iov_count : a[payload.other];
  uint64_t filled = 0;
  for (uint64_t i = 0; i < count && filled < kept; i++) {
    const uint64_t n = min(iov[i].length, kept - filled);
    memcpy(place + filled, (const void*)iov[i].base, n);
    filled += n;
  }
}

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

void prepare_channels(const CallInfo& info, const CallFrame* frame, long result) {
  const uint64_t* a = arguments_of(frame);
  long call = (long)frame->rax;
  if (failed(result)) {
    if (call == sys::connect && result == -EINPROGRESS) {
      // The connection does not exist yet, so the next transfer describes the channel again.
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

}  // namespace friday::shim
