#include "core/shim/shaping.h"

#include <asm/poll.h>
#include <asm/socket.h>
#include <linux/fcntl.h>
#include <linux/futex.h>
#include <linux/mman.h>
#include <linux/signal.h>

#include "core/shim/collector.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/trace.h"

namespace friday::shim {

namespace {

ShapeArea* const shapes = &((TokenArea*)kTokensAddress)->shapes;

constexpr uint16_t kNotShaped = 0xffff;
constexpr uint64_t kMostQueued = 64u << 20;  // bytes behind which a sender waits, as for room in a kernel's buffer
constexpr uint32_t kStreamSocket = 1, kDatagramSocket = 2;  // SOCK_STREAM, SOCK_DGRAM
constexpr uint32_t kInet = 2, kInet6 = 10;                  // AF_INET, AF_INET6
constexpr uint32_t kMostAddress = 128;                      // bytes: sockaddr_storage
// What a thread has received and not handled: ends, as in `end_of`. More of them count as handled at once.
constexpr unsigned kMostUnhandled = 15;
struct Unhandled {
  uint16_t count;
  uint16_t ends[kMostUnhandled];
};
constexpr uint32_t kThreads = 1 << 12;

// A program has memory for this only in a recording in which messages are held back: it may have little (RLIMIT_DATA).
struct Tables {
  uint16_t end_of[kMaxDescriptors];  // index in ShapeArea::end + 1; 0: not looked up yet; kNotShaped
  bool inherited[kMaxDescriptors];   // it was there when the process was forked
  bool datagrams[kMaxDescriptors];   // of one that has an entry: it is a socket of datagrams
  Unhandled unhandled[kThreads];     // by ThreadArea::slot
  uint16_t
      busy[kMaxShapedEnds + 1];  // by entry of a socket of datagrams: threads that have not handled what they have got
  char packet[kMostHeldBytes];   // a run of bytes of a message; copied, since a word may stand in two buffers
};
Tables* const tables = (Tables*)(kWorkspaceAddress + (1ull << 30));
uint32_t is_mapped, is_shaping;  // not 0: they are mapped; they are in use

Unhandled* of_thread(const ThreadArea* area) {
  return area->slot < kThreads ? &tables->unhandled[area->slot] : nullptr;
}

// The entry of an inode, by its number from 1; 0: all entries are in use.
uint16_t entry_of(uint64_t inode) {
  const ShapedEnd* end = shaped_end(*shapes, inode);
  if (!end) __atomic_store_n(&shapes->full, 1, __ATOMIC_SEQ_CST);
  return end ? (uint16_t)(end - shapes->end + 1) : 0;
}

ShapedEnd* end_at(uint16_t entry) { return &shapes->end[entry - 1]; }

uint16_t look_up(int fd) {
  FileStat st;
  if (failed(native(sys::fstat, fd, &st))) return 0;
  const uint32_t type = st.mode & kFileType;
  const uint32_t kind = type == kSocketFile ? socket_option(fd, SO_TYPE) : 0;
  const uint32_t domain = kind == kDatagramSocket ? socket_option(fd, SO_DOMAIN) : 0;
  const bool datagrams = domain == kInet || domain == kInet6;
  if (type != kFifo && kind != kStreamSocket && !datagrams) return kNotShaped;
  tables->datagrams[fd] = datagrams;
  const uint16_t entry = entry_of(st.inode);
  return entry ? entry : kNotShaped;
}

// The end behind a descriptor; null if it is neither a stream nor a socket of datagrams.
ShapedEnd* shaped(int fd) {
  if (fd < 0 || fd >= kMaxDescriptors || me()->borrowed) return nullptr;
  if (!tables->end_of[fd]) tables->end_of[fd] = look_up(fd);
  return !tables->end_of[fd] || tables->end_of[fd] == kNotShaped ? nullptr : end_at(tables->end_of[fd]);
}

bool is_waited_for(const ShapedEnd* end) {
  return __atomic_load_n(&end->taken, __ATOMIC_SEQ_CST) != __atomic_load_n(&end->passed, __ATOMIC_SEQ_CST);
}

// The buffers of a call that sends.
struct Buffers {
  const IoVec* iov = nullptr;
  uint64_t count = 0, size = 0;
  IoVec one = {};
  bool plain = true;  // false: there is more in the message than bytes
};

Buffers buffers_of(const CallFrame* frame, const CallInfo& info) {
  const uint64_t* a = arguments_of(frame);
  const Operand& payload = info.inputs[0];
  Buffers out;
  out.plain = !(message_flags(info, a) & (kMsgOutOfBand | kMsgZeroCopy)) && frame->rax != sys::pwrite64 &&
              frame->rax != sys::pwritev && frame->rax != sys::pwritev2;
  switch (payload.shape) {
    case Shape::buffer:
      out.one = {a[payload.argument], a[payload.other]};
      out.iov = nullptr;
      out.count = 1;
      break;
    case Shape::iov:
      out.iov = (const IoVec*)a[payload.argument];
      out.count = a[payload.other];
      out.plain &= !(info.flags & kIn);  // vmsplice(2) lends pages
      break;
    case Shape::msg: {
      const MsgHeader* m = (const MsgHeader*)a[payload.argument];
      out.iov = (const IoVec*)m->iov;
      out.count = m->iov_count;
      out.plain &= !m->control_length;
      break;
    }
    default: out.plain = false; return out;
  }
  constexpr uint64_t kMostBuffers = 1024;  // UIO_MAXIOV
  if (out.count > kMostBuffers) out.plain = false, out.count = 0;
  for (uint64_t i = 0; i < out.count; i++) out.size += out.iov ? out.iov[i].length : out.one.length;
  return out;
}

uint64_t copy_to_packet(const Buffers& from, uint64_t at) {
  uint64_t filled = 0;
  for (uint64_t i = 0; i < from.count && filled < sizeof tables->packet; i++) {
    const IoVec& each = from.iov ? from.iov[i] : from.one;
    if (at >= each.length) {
      at -= each.length;
      continue;
    }
    const uint64_t n = min(each.length - at, sizeof tables->packet - filled);
    memcpy(tables->packet + filled, (const char*)each.base + at, n);
    filled += n;
    at = 0;
  }
  return filled;
}

bool contains(const char* text, uint64_t size, const HoldWord& word) {
  const uint32_t length = min<uint32_t>(word.length, sizeof word.bytes);
  if (!length) return true;
  for (uint64_t at = 0; at + length <= size; at++)
    if (text[at] == word.bytes[0] && memcmp(text + at, word.bytes, length) == 0) return true;
  return false;
}

// Whether the message, of whose bytes the first ones are in `packet`, may be one that must wait.
bool is_candidate(uint64_t size) {
  const uint32_t count = min(shapes->word_count, kMaxHoldWords);
  for (uint32_t i = 0; i < count; i++)
    if (contains(tables->packet, size, shapes->word[i])) return true;
  return false;
}

// Whether the kernel would refuse to send, or would end the program: then it shall do so.
bool is_broken(int fd) {
  FileStat st;
  const bool pipe = !failed(native(sys::fstat, fd, &st)) && (st.mode & kFileType) == kFifo;
  const bool tells_errors = pipe || tables->datagrams[fd];
  struct {
    int fd;
    short events, revents;
  } peer = {fd, 0, 0};
  native(sys::poll, &peer, 1, 0);  // of a stream POLLERR may mean that there is something in its error queue
  return peer.revents & (POLLHUP | POLLNVAL | (tells_errors ? POLLERR : 0));
}

// Tells the collector if `count` is as large as was wanted.
void tell_if_wanted(ShapedEnd* end, uint64_t count, uint64_t* wanted) {
  uint64_t limit = __atomic_load_n(wanted, __ATOMIC_SEQ_CST);
  if (limit && count >= limit &&
      __atomic_compare_exchange_n(wanted, &limit, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    collector_send(kHandled, 0, 0, nullptr, end->inode);
}

void note_received(ShapedEnd* end, uint64_t bytes) {
  tell_if_wanted(end, __atomic_add_fetch(&end->received, bytes, __ATOMIC_SEQ_CST), &end->wanted_received);
}

void tell_handled(ShapedEnd* end) {
  const uint64_t received = __atomic_load_n(&end->received, __ATOMIC_SEQ_CST);
  uint64_t before = __atomic_load_n(&end->handled, __ATOMIC_SEQ_CST);
  do {
    if (received <= before) return;
  } while (!__atomic_compare_exchange_n(&end->handled, &before, received, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  tell_if_wanted(end, received, &end->wanted_handled);
}

// One of those ends at which the thread has received something: that is handled. Of datagrams that several threads take
// from one socket none counts as handled before all threads are done.
void handle_at(Unhandled* own, unsigned i) {
  const uint16_t entry = own->ends[i];
  own->ends[i] = own->ends[--own->count];
  if (tables->busy[entry] && __atomic_sub_fetch(&tables->busy[entry], 1, __ATOMIC_SEQ_CST)) return;
  tell_handled(end_at(entry));
}

// What the thread has received of this end is handled.
void handle(ThreadArea* area, uint16_t entry) {
  Unhandled* own = of_thread(area);
  for (unsigned i = 0; own && i < own->count; i++)
    if (own->ends[i] == entry) return handle_at(own, i);
}

// The collector has ended, and with it what the program believes sent.
[[noreturn]] void end_without_collector() {
  constexpr char kText[] =
      "friday: the recorder has ended while it held back messages of this program, which are lost\n";
  constexpr int kErrors = 2;
  native(sys::write, kErrors, kText, sizeof kText - 1);
  native(sys::kill, native(sys::getpid), SIGKILL);
  native(sys::exit_group, 1);
  __builtin_unreachable();
}

// Whether the collector's end of the socket is closed.
bool collector_is_gone() {
  struct {
    int fd;
    short events, revents;
  } socket = {own_socket(), POLLRDHUP, 0};
  return native(sys::poll, &socket, 1, 0) == 1 && socket.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

// Gives a piece to the collector, and waits if that has no room for it. False: the collector has ended, and had nothing
// of this end, so that the program's call is made as usual.
bool give_piece(const HeldMessage& held, ShapedEnd* end) {
  const bool is_first = !is_waited_for(end);
  __atomic_add_fetch(&end->taken, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&end->queued, held.size, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&end->sent, held.size, __ATOMIC_SEQ_CST);  // so that their difference stays the same
  while (!collector_hold(held)) {
    if (collector_is_gone() && is_first) {
      __atomic_sub_fetch(&end->taken, 1, __ATOMIC_SEQ_CST);
      __atomic_sub_fetch(&end->sent, held.size, __ATOMIC_SEQ_CST);
      __atomic_sub_fetch(&end->queued, held.size, __ATOMIC_SEQ_CST);
      return false;
    }
    if (collector_is_gone()) end_without_collector();
    const long pause[2] = {0, 1'000'000};
    native(sys::nanosleep, pause, 0);
  }
  return true;
}

// Gives the message to the collector; `given` is how many bytes of it.
void give(int fd, ShapedEnd* end, const Buffers& from, uint64_t* given) {
  while (*given < from.size) {
    const uint64_t size = copy_to_packet(from, *given);
    HeldMessage held = {fd, end->inode, end->sent, from.size, 0, tables->packet, size, nullptr, 0};
    if (*given == 0) held.flags |= kFirstPiece;
    if (*given + size == from.size) held.flags |= kLastPiece;
    if (!give_piece(held, end)) return;
    *given += size;
  }
}

// Waits until the collector has sent what it has of this end.
void await_passed(ShapedEnd* end) {
  for (;;) {
    const uint32_t passed = __atomic_load_n(&end->passed, __ATOMIC_SEQ_CST);
    if (passed == __atomic_load_n(&end->taken, __ATOMIC_SEQ_CST)) return;
    if (collector_is_gone()) end_without_collector();
    const long timeout[2] = {0, 100'000'000};
    native(sys::futex, &end->passed, FUTEX_WAIT, passed, timeout, 0, 0);
  }
}

// What the call has to come behind is to be sent now.
Shaped behind_all(ShapedEnd* end, const char* call) {
  if (!is_waited_for(end)) return Shaped::no;
  if (!collector_send(kLetGo, 0, 0, call, end->inode) && collector_is_gone()) end_without_collector();
  return Shaped::waits;
}

// shutdown(2): the collector does it behind what it has.
Shaped shut(const uint64_t* a, long* result) {
  constexpr uint64_t kRead = 0, kBoth = 2;  // SHUT_RD, SHUT_RDWR
  const int fd = (int)a[0];
  ShapedEnd* end = shaped(fd);
  if (!end || !is_waited_for(end) || a[1] == kRead || a[1] > kBoth) return Shaped::no;
  if (a[1] == kBoth && failed(native(sys::shutdown, fd, kRead))) return Shaped::no;
  if (tables->datagrams[fd]) return behind_all(end, "shutdown");
  if (!give_piece({fd, end->inode, end->sent, 0, kShutsDown, nullptr, 0, nullptr, 0}, end)) return Shaped::no;
  *result = 0;
  return Shaped::taken;
}

// The address that a call sends a datagram to; the length is 0 if it names none.
struct SentTo {
  char bytes[kMostAddress];
  uint32_t length;
};

SentTo address_of(const CallFrame* frame, const CallInfo& info) {
  const uint64_t* a = arguments_of(frame);
  constexpr unsigned kAddress = 4, kLength = 5;  // of sendto(2)
  SentTo out = {};
  uint64_t from = 0, length = 0;
  if (frame->rax == sys::sendto) from = a[kAddress], length = a[kLength];
  if (info.inputs[0].shape == Shape::msg) {
    const MsgHeader* m = (const MsgHeader*)a[info.inputs[0].argument];
    from = m->name, length = m->name_length;
  }
  if (!from || length > kMostAddress) return out;
  memcpy(out.bytes, (const char*)from, length);
  out.length = (uint32_t)length;
  return out;
}

// The address that a connected socket sends to; 0: it is not connected.
uint32_t peer_of(int fd, char (&address)[kMostAddress]) {
  uint32_t length = sizeof address;
  return failed(native(sys::getpeername, fd, address, &length)) ? 0 : length;
}

// Whether more calls make one datagram with this one (MSG_MORE, UDP_CORK in udp(7)).
bool is_part(int fd, const CallFrame* frame, const CallInfo& info) {
  constexpr int kUdp = 17, kCork = 1;  // IPPROTO_UDP, UDP_CORK
  uint32_t corked = 0, size = sizeof corked;
  if (message_flags(info, arguments_of(frame)) & kMsgMore) return true;
  return !failed(native(sys::getsockopt, fd, kUdp, kCork, &corked, &size)) && corked;
}

Shaped send_datagram(const CallFrame* frame, const CallInfo& info, ShapedEnd* end, long* result) {
  const int fd = (int)arguments_of(frame)[0];
  if (!__atomic_load_n(&shapes->on, __ATOMIC_SEQ_CST)) return Shaped::no;
  Buffers from;
  SentTo to = {};
  const bool readable = probed([&] {
    from = buffers_of(frame, info);
    if (!from.plain || from.size > sizeof tables->packet) return;
    to = address_of(frame, info);
    copy_to_packet(from, 0);
  });
  if (!readable || !from.plain || !from.size || from.size > sizeof tables->packet) return Shaped::no;
  if (!is_candidate(from.size) || is_broken(fd) || is_part(fd, frame, info)) return Shaped::no;
  to.length = to.length ? to.length : peer_of(fd, to.bytes);
  if (!to.length) return Shaped::no;  // the call will fail
  if (!give_piece({fd, end->inode, end->sent, from.size, kFirstPiece | kLastPiece | kDatagram, tables->packet,
                   from.size, to.bytes, to.length},
                  end))
    return Shaped::no;
  *result = (long)from.size;
  return Shaped::taken;
}

Shaped send(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long* result) {
  const int fd = (int)arguments_of(frame)[0];
  ShapedEnd* end = shaped(fd);
  if (!end) return Shaped::no;
  if (shapes->handled_when == kHandledAtAnswer) tell_handled(end);
  else handle(area, tables->end_of[fd]);
  if (tables->datagrams[fd]) return send_datagram(frame, info, end, result);
  const bool waits = is_waited_for(end), on = __atomic_load_n(&shapes->on, __ATOMIC_SEQ_CST);
  if (!waits && !on) return Shaped::no;
  Buffers from;
  uint64_t first = 0;
  const bool readable = probed([&] {
    from = buffers_of(frame, info);
    if (from.plain) first = copy_to_packet(from, 0);
  });
  if (!readable) return Shaped::no;  // the call will fail with EFAULT
  if (!from.plain) return behind_all(end, info.name);
  if (!from.size || (!waits && !is_candidate(first)) || is_broken(fd)) return Shaped::no;
  // A sender that is faster than its receiver waits at last, as it does without us.
  const bool blocks = !(native(sys::fcntl, fd, F_GETFL, 0) & O_NONBLOCK);
  if (waits && ((!on && blocks) || __atomic_load_n(&end->queued, __ATOMIC_RELAXED) > kMostQueued))
    return behind_all(end, info.name);
  uint64_t given = 0;
  probed([&] { give(fd, end, from, &given); });  // of a buffer that ends early, as much as there is
  if (!given) return Shaped::no;
  *result = (long)given;
  return Shaped::taken;
}

// The first bytes, at most sizeof AwaitedDatagram::bytes, of a datagram that a call has received.
uint64_t copy_received(const uint64_t* a, const Operand& payload, uint64_t which, uint64_t length, char* to) {
  IoVec one = {a[payload.argument], length};
  const IoVec* iov = &one;
  uint64_t count = 1, filled = 0;
  if (payload.shape == Shape::iov) iov = (const IoVec*)a[payload.argument], count = a[payload.other];
  if (payload.shape == Shape::msg || payload.shape == Shape::mmsg) {
    const MsgHeader* m = payload.shape == Shape::msg ? (const MsgHeader*)a[payload.argument]
                                                     : &((const MmsgHeader*)a[payload.argument])[which].header;
    iov = (const IoVec*)m->iov;
    count = m->iov_count;
  }
  length = min(length, sizeof AwaitedDatagram::bytes);
  for (uint64_t i = 0; i < count && filled < length; i++) {
    const uint64_t n = min(length - filled, iov[i].length);
    memcpy(to + filled, (const char*)iov[i].base, n);
    filled += n;
  }
  return filled;
}

// Notes the first of those awaited that the datagram is. Whether there is one.
bool note_awaited(const ShapedEnd* end, uint64_t ordinal, uint64_t length, const char* bytes, uint64_t known) {
  for (;;) {
    AwaitedDatagram* first = nullptr;
    for (AwaitedDatagram& each : shapes->awaited)
      if (__atomic_load_n(&each.inode, __ATOMIC_SEQ_CST) == end->inode &&
          !__atomic_load_n(&each.received, __ATOMIC_SEQ_CST) && each.length == length &&
          memcmp(each.bytes, bytes, known) == 0 && (!first || each.order < first->order))
        first = &each;
    uint64_t none = 0;
    if (!first) return false;
    const uint64_t order = __atomic_load_n(&first->order, __ATOMIC_SEQ_CST);
    if (!__atomic_compare_exchange_n(&first->received, &none, ordinal, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    if (order == first->order && memcmp(first->bytes, bytes, known) == 0) return true;
    __atomic_store_n(&first->received, 0, __ATOMIC_SEQ_CST);  // it has become the entry of another one meanwhile
  }
}

void note_datagrams(ShapedEnd* end, const uint64_t* a, const Operand& payload, long result) {
  const uint64_t count = payload.shape == Shape::mmsg ? (uint64_t)result : 1;
  bool awaited = false;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t ordinal = __atomic_add_fetch(&end->received, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&shapes->awaited_count, __ATOMIC_SEQ_CST)) continue;
    probed([&] {
      const uint64_t length =
          payload.shape == Shape::mmsg ? ((const MmsgHeader*)a[payload.argument])[i].length : (uint64_t)result;
      char bytes[sizeof AwaitedDatagram::bytes] = {};
      const uint64_t known = copy_received(a, payload, i, length, bytes);
      awaited |= note_awaited(end, ordinal, length, bytes, known);
    });
  }
  if (awaited) collector_send(kHandled, 0, 0, nullptr, end->inode);
  tell_if_wanted(end, __atomic_load_n(&end->received, __ATOMIC_SEQ_CST), &end->wanted_received);
}

// How many bytes a call has moved, of which the result may be a number of messages.
uint64_t moved_bytes(const uint64_t* a, const Operand& payload, long result) {
  if (payload.shape != Shape::mmsg) return (uint64_t)result;
  uint64_t sum = 0;
  for (long i = 0; i < result; i++) sum += ((const MmsgHeader*)a[payload.argument])[i].length;
  return sum;
}

}  // namespace

bool shaping() { return __builtin_expect(is_shaping != 0, 0); }

void shape_begins() {
  if (!shapes->handled_when || is_shaping) return;
  if (is_mapped) {
    memset(tables->end_of, 0, sizeof tables->end_of);
    memset(tables->inherited, 0, sizeof tables->inherited);
    memset(tables->unhandled, 0, sizeof tables->unhandled);
    memset(tables->busy, 0, sizeof tables->busy);
    is_shaping = 1;
    return;
  }
  const long place = native(sys::mmap, tables, sizeof *tables, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE, -1, 0);
  if (place != (long)tables) return;
  limits_count(sizeof *tables);
  is_mapped = is_shaping = 1;
}

void shape_stands_by() {
  if (!is_shaping) return;
  shape_ends();
  is_shaping = 0;
}

bool shape_may_wait(const CallFrame* frame, const CallInfo& info) {
  if (polls(frame->rax) || info.flags & kAccepts) return true;
  switch (frame->rax) {
    case sys::nanosleep:
    case sys::clock_nanosleep:
    case sys::pause:
    case sys::rt_sigsuspend:
    case sys::rt_sigtimedwait:
    case sys::wait4:
    case sys::waitid: return true;
    default: return info.flags & kIn && channel_carries((int)frame->rdi);  // not what reads a file
  }
}

Shaped shape_call(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long* result) {
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == sys::shutdown) return shut(a, result);
  if (info.flags & kCopies) {
    ShapedEnd* end = shaped((int)a[copies_to(info.flags)]);
    return end ? behind_all(end, info.name) : Shaped::no;
  }
  if (info.flags & kOut) return send(frame, area, info, result);
  if (!shape_may_wait(frame, info)) return Shaped::no;
  shape_waits_in(frame, area, info);
  // Who waits for the answer to what is lost would wait for ever.
  if (ShapedEnd* end = info.flags & kIn ? shaped((int)a[0]) : nullptr)
    if (is_waited_for(end) && collector_is_gone()) end_without_collector();
  return Shaped::no;
}

void shape_drain(const CallFrame* frame, const CallInfo& info) {
  const uint64_t* a = arguments_of(frame);
  if (ShapedEnd* end = shaped((int)a[info.flags & kCopies ? copies_to(info.flags) : 0])) await_passed(end);
}

void shape_moved(const CallFrame* frame, ThreadArea* area, const CallInfo& info, long result) {
  const uint64_t* a = arguments_of(frame);
  if (result <= 0) return;
  if (info.flags & kCopies) {
    if (ShapedEnd* end = shaped((int)a[copies_to(info.flags)]))
      __atomic_add_fetch(&end->sent, (uint64_t)result, __ATOMIC_SEQ_CST);
    ShapedEnd* end = info.flags & kKeepsSource ? nullptr : shaped((int)a[copies_from(info.flags)]);
    if (!end) return;
    note_received(end, (uint64_t)result);
    return tell_handled(end);
  }
  if (!(info.flags & (kIn | kOut))) return;
  const int fd = (int)a[0];
  ShapedEnd* end = shaped(fd);
  if (!end) return;
  const bool datagrams = tables->datagrams[fd];
  if (info.flags & kOut) {
    if (datagrams) return;
    const uint64_t bytes = moved_bytes(a, info.inputs[0], result);
    __atomic_add_fetch(&end->sent, bytes, __ATOMIC_SEQ_CST);
    return;
  }
  if (message_flags(info, a) & kMsgPeek) return;
  if (datagrams) note_datagrams(end, a, info.outputs[0], result);
  else note_received(end, moved_bytes(a, info.outputs[0], result));
  Unhandled* own = of_thread(area);
  if (shapes->handled_when == kHandledAtAnswer) return;
  const uint16_t entry = tables->end_of[fd];
  const bool at_once = shapes->handled_when == kHandledAtReceipt || !own || own->count == kMostUnhandled;
  if (at_once && tables->busy[entry]) return;  // with what another thread has received
  if (at_once) return tell_handled(end);
  for (unsigned i = 0; i < own->count; i++)
    if (own->ends[i] == entry) return;
  own->ends[own->count++] = entry;
  if (datagrams) __atomic_add_fetch(&tables->busy[entry], 1, __ATOMIC_SEQ_CST);
}

void shape_waits(ThreadArea* area) {
  Unhandled* own = of_thread(area);
  while (own && own->count) handle_at(own, own->count - 1u);
}

void shape_waits_in(const CallFrame* frame, ThreadArea* area, const CallInfo& info) {
  struct Polled {
    int fd;
    short events, revents;
  };
  const uint64_t* a = arguments_of(frame);
  int only = info.flags & kIn ? (int)a[0] : -1;
  const bool takes_list = frame->rax == sys::poll || frame->rax == sys::ppoll;
  if (takes_list && a[1] == 1) probed([&] { only = ((const Polled*)a[0])->fd; });
  if (only < 0 || !shaped(only)) return shape_waits(area);
  handle(area, tables->end_of[only]);
}

// The duplicate that the collector has keeps the connection open, so that the descriptor would stay in the program's
// epoll sets, which hold open files (epoll(7)). A forked child shares these with its parent, whose descriptor is still
// in them.
void shape_closes(int fd) {
  if (fd < 0 || fd >= kMaxDescriptors || me()->borrowed) return;
  const uint16_t entry = tables->end_of[fd];
  const bool own = !tables->inherited[fd];
  shape_forget(fd);
  if (!entry || entry == kNotShaped || !is_waited_for(end_at(entry))) return;
  if (collector_is_gone()) end_without_collector();
  if (!own) return;
  each_descriptor(
      [](int other, int closed) {
        constexpr int kDelete = 2;  // EPOLL_CTL_DEL
        char path[32];
        path_of_descriptor(other, path, sizeof path);
        if (equal(path, "anon_inode:[eventpoll]")) native(sys::epoll_ctl, other, kDelete, closed, 0);
      },
      fd);
}

void shape_forget(int fd) {
  if (!shaping() || fd < 0 || fd >= kMaxDescriptors) return;
  if (tables->end_of[fd]) tables->end_of[fd] = 0;  // a store would take memory for each page of the table
  if (tables->inherited[fd]) tables->inherited[fd] = false;
}

void shape_forked() {
  if (!shaping()) return;
  memset(tables->unhandled, 0, sizeof tables->unhandled);
  memset(tables->busy, 0, sizeof tables->busy);
  for (int fd = 0; fd < kMaxDescriptors; fd++)
    if (tables->end_of[fd]) tables->inherited[fd] = true;
}

void shape_ends() {
  for (uint16_t entry : tables->end_of)
    if (entry && entry != kNotShaped && behind_all(end_at(entry), "out of the recording") == Shaped::waits)
      await_passed(end_at(entry));
}

}  // namespace friday::shim
