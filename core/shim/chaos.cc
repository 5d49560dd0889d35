// What chaos does to a call. The rules that keep it harmless are here:
//   - Only bytes of TCP connections, Unix stream sockets and pipes are cut, and never those of a call with flags such
//   as
//     MSG_WAITALL or MSG_PEEK. A write that goes at once into a pipe or a Unix socket arrives in one piece, so there a
//     call is never cut to less than PIPE_BUF bytes.
//   - A blocking write is never cut: it returns when all is written.
//   - A program that was told how much there is, or that it would be told only once, may rely on getting all of it: it
//     uses epoll(7) with EPOLLET, FIONREAD, MSG_PEEK or SO_RCVLOWAT. From then on nothing is cut in this process.
//   - A wait takes kLongestHold or kLongestDelay at the most, kLongestAtOnce in a call that the program made
//     non-blocking, and all waits together not more than a part of the time that has passed.
#include "core/shim/chaos.h"

#include <asm/ioctls.h>
#include <asm/poll.h>
#include <asm/socket.h>
#include <linux/eventpoll.h>
#include <linux/fcntl.h>
#include <linux/in.h>
#include <linux/limits.h>

#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

uint64_t chaos_key;

namespace {

// AF_UNIX, AF_INET, AF_INET6 and SOCK_STREAM of the C library's <sys/socket.h>.
constexpr uint32_t kUnix = 1, kInet = 2, kInet6 = 10, kStreamType = 1;

bool promised;       // the program has been told how much it will get: nothing is cut any more
uint64_t began;      // ticks at the first decision of this process
uint64_t waited_ns;  // that all threads have waited since

// ---- streams

// How many bytes a call on the descriptor is asked for at least, if it is cut; 0: it must not be cut.
uint64_t least_of(int fd) {
  const uint32_t type = socket_option(fd, SO_TYPE, ~0u);
  if (type == ~0u) {
    FileStat st;
    if (failed(native(sys::fstat, fd, &st)) || (st.mode & kFileType) != kFifo) return 0;
    return native(sys::fcntl, fd, F_GETFL, 0) & O_DIRECT ? 0 : PIPE_BUF;  // O_DIRECT: a pipe of packets
  }
  if (type != kStreamType) return 0;
  const uint32_t domain = socket_option(fd, SO_DOMAIN, ~0u);
  if (domain == kUnix) return PIPE_BUF;
  return (domain == kInet || domain == kInet6) && socket_option(fd, SO_PROTOCOL, ~0u) == IPPROTO_TCP ? 1 : 0;
}

bool is_non_blocking(const CallFrame* frame, const CallInfo& info) {
  return (message_flags(info, arguments_of(frame)) & kMsgDontWait) ||
         (native(sys::fcntl, arguments_of(frame)[0], F_GETFL, 0) & O_NONBLOCK);
}

// Whether the call tells the program how much there is to read, or asks to be told only once.
bool promises(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  switch (frame->rax) {
    case sys::ioctl: return a[1] == FIONREAD;
    case sys::setsockopt: return a[1] == SOL_SOCKET && a[2] == SO_RCVLOWAT;
    case sys::recvfrom: return a[3] & kMsgPeek;
    case sys::recvmsg: return a[2] & kMsgPeek;
    case sys::epoll_ctl: {
      uint32_t events = 0;
      if (a[1] == EPOLL_CTL_DEL || !probed([&] { events = *(const volatile uint32_t*)a[3]; })) return false;
      return (events & EPOLLET) && least_of((int)a[2]);
    }
    default: return false;
  }
}

// Buffers of a readv(2) or writev(2), up to a number of bytes.
struct CutVector {
  IoVec parts[8];
  uint64_t count = 0, bytes = 0;

  bool read(const uint64_t* a) {
    if (a[2] == 0 || a[2] > 8) return false;
    count = a[2];
    if (!probed([&] { memcpy(parts, (const void*)a[1], count * sizeof *parts); })) return false;
    for (uint64_t i = 0; i < count; i++) {
      if (parts[i].length > 1ull << 40) return false;
      bytes += parts[i].length;
    }
    return true;
  }
  void cut(uint64_t most) {
    for (uint64_t i = 0; i < count; i++) {
      parts[i].length = min(parts[i].length, most);
      most -= parts[i].length;
    }
  }
};

// Changes `asked`, a copy of the call's frame, so that it asks for fewer bytes. `vector` must live as long as the call.
void cut(CallFrame* asked, const ThreadArea* area, const CallInfo& info, CutVector* vector) {
  const bool buffer =
      asked->rax == sys::read || asked->rax == sys::write || asked->rax == sys::recvfrom || asked->rax == sys::sendto;
  const bool gathered = asked->rax == sys::readv || asked->rax == sys::writev;
  if (!buffer && !gathered) return;
  if (message_flags(info, arguments_of(asked)) & ~(kMsgDontWait | kMsgNoSignal | kMsgMore)) return;
  if (gathered && !vector->read(arguments_of(asked))) return;
  const ChaosPlace place = {chaos_key, area->number, area->sequence};
  const uint64_t whole = buffer ? asked->rdx : vector->bytes;
  if (chaos_length(place, whole, 1) == whole) return;  // most calls: the kernel is not asked what the descriptor is
  const uint64_t least = least_of((int)asked->rdi);
  if (!least || ((info.flags & kOut) && !is_non_blocking(asked, info))) return;
  const uint64_t length = chaos_length(place, whole, least);
  if (buffer) {
    asked->rdx = length;
  } else if (length < whole) {
    vector->cut(length);
    asked->rsi = (uint64_t)vector->parts;
  }
}

// ---- waits

// Whether the call waits until something arrives.
bool receives(const CallFrame* frame, const CallInfo& info) {
  return polls(frame->rax) || info.flags & kAccepts ||
         ((info.flags & kIn) && socket_option((int)frame->rdi, SO_TYPE, ~0u) != ~0u);
}

// Whether the program wants the call to return at once.
bool is_at_once(const CallFrame* frame, const CallInfo& info) {
  const uint64_t* a = arguments_of(frame);
  uint64_t time[2] = {1, 1};
  switch (frame->rax) {
    case sys::poll: return (int)a[2] == 0;
    case sys::epoll_wait:
    case sys::epoll_pwait: return (int)a[3] == 0;
    case sys::ppoll:
      return a[2] && probed([&] { memcpy(time, (const void*)a[2], sizeof time); }) && !time[0] && !time[1];
    case sys::select:
    case sys::pselect6:
      return a[4] && probed([&] { memcpy(time, (const void*)a[4], sizeof time); }) && !time[0] && !time[1];
    case sys::epoll_pwait2:
      return a[3] && probed([&] { memcpy(time, (const void*)a[3], sizeof time); }) && !time[0] && !time[1];
    default: return info.flags & (kIn | kOut | kAccepts) && is_non_blocking(frame, info);
  }
}

// Whether the threads may wait so much longer: together they wait half of the time that they have had, and at the
// start a little more, so that short programs meet chaos too.
bool may_wait(uint64_t ns) {
  constexpr uint64_t kAtStart = 200000000;
  const uint64_t now = ticks_now();
  uint64_t none = 0;
  __atomic_compare_exchange_n(&began, &none, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  const uint64_t us =
      (now - __atomic_load_n(&began, __ATOMIC_RELAXED)) / (trace_header()->ticks_per_second / 1000000 + 1);
  return __atomic_load_n(&waited_ns, __ATOMIC_RELAXED) + ns <= kAtStart + us * 500 * live_threads;
}

// A signal for the thread ends the wait, and so does one of the shim's own, which is a matter of chance anyway.
void wait(ThreadArea* area, uint64_t ns) {
  if (!ns) return;
  __atomic_add_fetch(&waited_ns, ns, __ATOMIC_RELAXED);
  const uint64_t time[2] = {0, ns};
  const uint64_t arguments[6] = {(uint64_t)time, 0};
  friday_interruptible(area, sys::nanosleep, arguments);
}

}  // namespace

ChaosPlan chaos_plan(const CallFrame* frame, const ThreadArea* area, const CallInfo& info, bool shared) {
  ChaosPlan plan;
  const ChaosPlace place = {chaos_key, area->number, area->sequence};
  if (!promised && promises(frame)) promised = true;
  if (trace_header()->dies_of || area->borrowed) return plan;
  if (shared) {
    plan.before_ns = chaos_hold(place);
    plan.turn = chaos_turn(place);
  }
  if (const uint64_t delay = chaos_delay(place); delay && receives(frame, info)) {
    const bool after = chaos_delays_after(place) && (info.flags & (kIn | kAccepts));
    (after ? plan.after_ns : plan.before_ns) += delay;
  }
  if (!plan.before_ns && !plan.after_ns) return plan;
  if (is_at_once(frame, info)) {
    plan.before_ns = min(plan.before_ns, kLongestAtOnce);
    plan.after_ns = 0;
  }
  if (!may_wait(plan.before_ns + plan.after_ns)) plan.before_ns = plan.after_ns = 0;
  if (plan.before_ns) plan.turn = Turn::shorter;  // the others are to run during the wait
  return plan;
}

long chaos_call(ThreadArea* area, CallFrame* frame, const CallInfo& info, const ChaosPlan& plan) {
  wait(area, plan.before_ns);
  if (info.flags & kPathIn) return call_with_path(area, frame, info);
  CallFrame asked = *frame;
  CutVector vector;
  if (!promised && info.flags & (kIn | kOut)) cut(&asked, area, info, &vector);
  const long result = interruptible_call(area, &asked);
  if (result > 0) wait(area, plan.after_ns);
  return result;
}

}  // namespace friday::shim
