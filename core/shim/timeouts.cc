// Calls that wait for a limited time. When one of the shim's own signals has interrupted such a call, it is made again
// for the time that is left, so that it ends when the program wants it to. select(2), pselect6(2) and ppoll(2) need
// nothing: the kernel itself stores the time that is left where the program has stored the limit.
#include <linux/futex.h>
#include <linux/time.h>

#include "core/shim/calls.h"
#include "core/shim/signals.h"
#include "core/shim/trace.h"

namespace friday::shim {

namespace {

constexpr uint64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000;

uint64_t passed_ns(uint64_t since) {
  const uint64_t ticks = ticks_now() - since, rate = trace_header()->ticks_per_second;
  return ticks / rate * kSecond + ticks % rate * kSecond / rate;  // rates are below 18 GHz
}

// The number of the argument that points to a relative timespec; -1: the call has none.
int timespec_of(uint64_t call, const uint64_t* a) {
  switch (call) {
    // With one place for the limit and for the time that is left, the kernel has already stored the latter there.
    case sys::nanosleep: return a[0] == a[1] ? -1 : 0;
    case sys::clock_nanosleep: return a[1] & TIMER_ABSTIME || a[2] == a[3] ? -1 : 2;
    case sys::futex: return (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT ? 3 : -1;
    case sys::rt_sigtimedwait: return 2;
    case sys::semtimedop:
    case sys::epoll_pwait2: return 3;
    case sys::io_getevents: return 4;
    default: return -1;
  }
}

// The number of the argument that is a limit in milliseconds; -1: the call has none.
int milliseconds_of(uint64_t call) {
  switch (call) {
    case sys::poll: return 2;
    case sys::epoll_wait:
    case sys::epoll_pwait: return 3;
    default: return -1;
  }
}

}  // namespace

bool has_limit(uint64_t call) {
  static const uint64_t any[6] = {0, 2, 0, 4, 0, 0};  // different places, and no flags
  return milliseconds_of(call) >= 0 || call == sys::futex || timespec_of(call, any) >= 0;
}

bool waits_for_time(const CallFrame* frame) {
  return milliseconds_of(frame->rax) >= 0 || timespec_of(frame->rax, arguments_of(frame)) >= 0;
}

const uint64_t* remaining_arguments(const CallFrame* frame, uint64_t since, Remaining* left) {
  const uint64_t* a = arguments_of(frame);
  const int limit = milliseconds_of(frame->rax), time = timespec_of(frame->rax, a);
  if (!since || control.mode != kModeRecord || (limit < 0 && time < 0)) return a;
  memcpy(left->arguments, a, sizeof left->arguments);
  const uint64_t passed = passed_ns(since);
  if (limit >= 0) {
    const int wanted = (int)a[limit];
    if (wanted > 0) left->arguments[limit] = (uint64_t)wanted - min((uint64_t)wanted, passed / kMillisecond);
    return left->arguments;
  }
  uint64_t whole[2] = {};
  if (!a[time] || !probed([&] { memcpy(whole, (const void*)a[time], sizeof whole); })) return a;
  // Another value than of a time makes the call fail, however long it has waited.
  if (whole[1] >= kSecond || whole[0] > ~0ull / kSecond - 1) return a;
  const uint64_t ns = whole[0] * kSecond + whole[1], rest = ns - min(ns, passed);
  left->time[0] = rest / kSecond;
  left->time[1] = rest % kSecond;
  left->arguments[time] = (uint64_t)left->time;
  return left->arguments;
}

}  // namespace friday::shim
