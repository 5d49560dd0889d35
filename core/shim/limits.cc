// The limit of the address space (RLIMIT_AS, getrlimit(2)). The kernel counts the shim's mappings too, so a program
// that sets a limit just above what it needs would exceed it. So the kernel gets the program's limit plus the size of
// the shim's mappings, again whenever that size changes, and the program sees the limit that it has set.
//
// This applies only to limits that the program sets for itself. A limit with which it was started, or that another
// process has set for it, stays as it is.
#include <linux/resource.h>

#include "core/shim/calls.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

extern "C" __attribute__((visibility("hidden"))) char _end[];

namespace {

constexpr uint64_t kUnlimited = ~0ull;
// The kernel's hard limit is larger by this much, because an ordinary user cannot raise it later. A program that is
// executed has as much more in its soft limit until its shim has made its mappings; one that is not recorded keeps it.
constexpr uint64_t kReserve = 1ull << 30;

struct Limit {
  uint64_t soft = kUnlimited, hard = kUnlimited;
  bool operator==(const Limit&) const = default;
};

// The limit that the program has set and the one that the kernel was given for it. A vfork child has limits of its own,
// but shares this memory with its parent, so it has a variable of its own.
struct Told {
  Limit asked, kernel;
  bool any = false;
} of_process, of_vfork_child;

uint64_t mapped;  // bytes of the shim's mappings, without the library itself

uint64_t added(uint64_t limit, uint64_t bytes) { return limit > kUnlimited - bytes ? kUnlimited : limit + bytes; }

Limit of_kernel() {
  Limit limit;
  native(sys::getrlimit, RLIMIT_AS, &limit);
  return limit;
}

// The one in force, given the kernel's limit. Null: the program has set none, or another process has changed it since.
const Told* told(const Limit& kernel) {
  if (of_vfork_child.any && of_vfork_child.kernel == kernel) return &of_vfork_child;
  return of_process.any && of_process.kernel == kernel ? &of_process : nullptr;
}

uint64_t share() { return (uint64_t)(_end - __ehdr_start) + __atomic_load_n(&mapped, __ATOMIC_RELAXED); }

long set(const Limit& wanted) {
  if (wanted.soft > wanted.hard) return native(sys::setrlimit, RLIMIT_AS, &wanted);  // fails
  const Limit kernel = of_kernel();
  const Told* before = told(kernel);
  const uint64_t hard = before ? before->asked.hard : kernel.hard;
  Limit next = kernel;
  if (wanted.hard > hard) next.hard = added(wanted.hard, kReserve);
  if (wanted.hard < hard) next.hard = min(added(wanted.hard, kReserve), kernel.hard);
  next.soft = min(added(wanted.soft, share()), next.hard);
  const long result = native(sys::setrlimit, RLIMIT_AS, &next);
  if (!failed(result)) (me()->borrowed ? of_vfork_child : of_process) = {wanted, next, true};
  return result;
}

// setrlimit(2), getrlimit(2) or prlimit(2) for this process's RLIMIT_AS. Reads and writes memory of the program.
long address_space(const uint64_t* a, uint64_t call) {
  const uint64_t wanted = call == sys::setrlimit ? a[1] : call == sys::prlimit64 ? a[2] : 0;
  const uint64_t out = call == sys::getrlimit ? a[1] : call == sys::prlimit64 ? a[3] : 0;
  const Limit kernel = of_kernel();
  const Told* now = told(kernel);
  const Limit old = now ? now->asked : kernel;
  if (wanted || call == sys::setrlimit) {
    Limit limit;
    memcpy(&limit, (const void*)wanted, sizeof limit);
    if (const long result = set(limit); failed(result)) return result;
  }
  if (out || call == sys::getrlimit) friday_copy_out((void*)out, &old, sizeof old);
  return 0;
}

bool is_own_address_space(const uint64_t* a, uint64_t call) {
  if (call != sys::prlimit64) return (uint32_t)a[0] == RLIMIT_AS;
  return (uint32_t)a[1] == RLIMIT_AS && (a[0] == 0 || (long)a[0] == native(sys::getpid));
}

const char* number_behind(const char* text, uint64_t* number) {
  while (*text && *text != ',') text++;
  if (!*text) return nullptr;
  for (*number = 0; *++text >= '0' && *text <= '9';) *number = *number * 10 + (uint64_t)(*text - '0');
  return text;
}

// Gives the kernel the program's soft limit plus `bytes`.
void tell(uint64_t bytes) {
  if (!of_process.any || control.mode == kModeReplay || of_kernel() != of_process.kernel) return;
  Limit next = of_process.kernel;
  next.soft = min(added(of_process.asked.soft, bytes), next.hard);
  if (!failed(native(sys::setrlimit, RLIMIT_AS, &next))) of_process.kernel = next;
}

}  // namespace

long local_limit(CallFrame* frame, ThreadArea*) {
  const uint64_t* a = arguments_of(frame);
  if (control.mode == kModeReplay || !is_own_address_space(a, frame->rax))
    return native((long)frame->rax, a[0], a[1], a[2], a[3]);
  long result;
  return probed([&] { result = address_space(a, frame->rax); }) ? result : -EFAULT;
}

void do_limit(CallFrame* frame, ThreadArea* area) {
  const CallInfo& info = call_info(frame->rax);
  if (control.mode == kModeReplay) {
    replay_call(frame, area, info);
    return;
  }
  const uint64_t* a = arguments_of(frame);
  const uint64_t hash = input_hash(info, frame), entry = ticks_now();
  const long result = local_limit(frame, area);
  const uint64_t out = frame->rax == sys::getrlimit ? a[1] : frame->rax == sys::prlimit64 ? a[3] : 0;
  EventWriter writer(kCall, area, (uint16_t)frame->rax, a, info.arity);
  if (!failed(result)) writer.memory((void*)out, sizeof(Limit));
  if (out && result == -EFAULT) write_reached(writer, out, sizeof(Limit));
  writer.commit(result, hash, entry, ticks_now());
  frame->rax = (uint64_t)result;
}

void limits_count(long bytes) {
  __atomic_add_fetch(&mapped, (uint64_t)bytes, __ATOMIC_RELAXED);
  tell(share());
}

bool limits_asked(uint64_t* asked) {
  const Told* now = told(of_kernel());
  if (now) memcpy(asked, &now->asked, sizeof now->asked);
  return now;
}

void limits_before_exec() {
  const Limit kernel = of_kernel();
  const Told* now = told(kernel);
  if (!now) return;
  const Limit next = {min(added(now->asked.soft, kReserve), kernel.hard), kernel.hard};
  native(sys::setrlimit, RLIMIT_AS, &next);  // not noted, because a vfork child would change its parent's variables
}

void limits_after_exec(const uint64_t* asked) {
  const bool child = of_vfork_child.any && memcmp(&of_vfork_child.asked, asked, sizeof(Limit)) == 0;
  native(sys::setrlimit, RLIMIT_AS, child ? &of_vfork_child.kernel : &of_process.kernel);
}

void limits_inherit(const char* text) {
  Limit asked;
  text = number_behind(text, &asked.soft);
  if (!text || !number_behind(text, &asked.hard)) return;
  of_process = {asked, of_kernel(), true};
  tell(share());
}

}  // namespace friday::shim
