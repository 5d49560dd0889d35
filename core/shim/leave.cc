// The shim leaves a process that it cannot live in: one that installs a filter of calls, dispatches its own calls, keeps something in %gs,
// or wants addresses that are Friday's. The recording has ended by then, and said why. From here on the program runs as if nobody had ever
// been there: its code, its vdso, its signals, stacks and ids are the kernel's and its own again.
//
// It happens in the handler of a signal, whose return brings the program its own registers, mask and signal stack at one stroke: of kPokeSignal,
// which the thread sends to itself, where a call is the reason; the program then makes that call by its own instruction.
#include "core/shim/runtime.h"

namespace friday::shim {

using namespace format;

namespace {

bool leaving, left;

constexpr uint64_t kMapFixed = 0x10;

// Whether a call maps, unmaps or protects what is Friday's.
bool wants_own_addresses(uint64_t call, const uint64_t* a) {
  constexpr uint64_t kRemapFixed = 2, kShmRemap = 040000;
  switch (call) {
    case 9: return a[3] & kMapFixed && is_fridays(a[0], a[1]);
    case 10: case 11: case 28: return is_fridays(a[0], a[1]);
    case 25: return is_fridays(a[0], a[1]) || (a[3] & kRemapFixed && is_fridays(a[4], a[2]));
    case 30: return a[2] & kShmRemap && is_fridays(a[1], 1);
    default: return false;
  }
}

// The kernel's vdso and its data go back to where they were.
void give_back_vdso() {
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));) {
    if (line.low < kVdsoAddress || line.low >= kOwnEnd) continue;
    native(25 /* mremap */, line.low, line.high - line.low, line.high - line.low, 3 /* MAYMOVE|FIXED */, vdso_was_at + (line.low - kVdsoAddress));
  }
}

// A filter that a call wants to install, or a dispatch of calls: whether the kernel agrees is tried in a process that does nothing else and
// is killed. It spins, since the filter may allow it no call any more.
long try_in_child(const CallFrame* frame) {
  constexpr long kUndone = 1;
  const long page = native(9, 0, 4096, 3, 0x21 /* SHARED|ANONYMOUS */, -1, 0);
  if (failed(page)) return 0;
  volatile long* const result = (volatile long*)page;
  *result = kUndone;
  const uint64_t everything = ~0ull;
  uint64_t before = 0;
  native(14, 2 /* SIG_SETMASK */, &everything, &before, 8);
  const uint64_t* a = arguments_of(frame);
  const long parent = native(39), child = native(56, 0 /* tells nobody of its end */, 0, 0, 0, 0);
  if (child == 0) {
    native(157, 1 /* PR_SET_PDEATHSIG */, 9);
    if (native(110 /* getppid */) != parent) native(231, 1);
    const long done = native((long)frame->rax, a[0], a[1], a[2], a[3], a[4], a[5]);
    *result = done > 0 ? 0 : done;
    for (;;) asm volatile("pause");
  }
  const long nap[2] = {0, 50000};
  int status = 0;
  while (!failed(child) && *result == kUndone && native(61, child, &status, 0x40000001 /* __WALL|WNOHANG */, 0) == 0) native(35, nap, 0);
  const long said = *result;
  if (!failed(child)) native(62, child, 9), native(61, child, &status, 0x40000000, 0);
  native(14, 2, &before, 0, 8);
  native(11, page, 4096);
  return said == kUndone ? 0 : said;
}

}  // namespace

bool is_fridays(uint64_t low, uint64_t size) { return size && low < kOwnEnd && low + size > kOwnLow; }

bool rules_calls(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == 157) return a[0] == 22 /* PR_SET_SECCOMP */ || a[0] == 59 /* PR_SET_SYSCALL_USER_DISPATCH */;
  return frame->rax == 317 && a[0] < 2;  // SECCOMP_SET_MODE_STRICT, SECCOMP_SET_MODE_FILTER
}

long rules_refused(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  const bool off = frame->rax == 157 && a[0] == 59 && a[1] == 0;  // PR_SYS_DISPATCH_OFF, which it is
  return off && !(a[2] | a[3] | a[4]) ? kRulesAsBefore : try_in_child(frame);
}

bool can_leave(const ThreadArea* area) { return live_threads == 1 && !area->borrowed && !area->native && control.mode != kModeReplay; }

const char* reason_to_leave(const CallFrame* frame) {
  const uint64_t* a = arguments_of(frame);
  if (frame->rax == 158) return a[0] == 0x1001 /* ARCH_SET_GS */ && a[1] ? kUsesGs : nullptr;
  return wants_own_addresses(frame->rax, a) ? "it maps or unmaps addresses that Friday uses" : nullptr;
}

long refuse_instead(const CallFrame* frame, const char* why) {
  static bool told;
  if (control.mode == kModeRecord && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) {
    char text[sizeof Request::text] = "because of Friday a call failed in a process of several threads (of one with a single thread the recording would have ended there): ";
    const size_t length = length_of(text);
    memcpy(text + length, why, min(length_of(why) + 1, sizeof text - length));
    text[sizeof text - 1] = 0;
    collector_send(kNotice, 0, 0, text);
  }
  return frame->rax == 158 ? -22 /* EINVAL */ : -12 /* ENOMEM */;
}

void leave_at_call() {
  const uint64_t all_but_poke = ~(1ull << (kPokeSignal - 1));
  native(14, 2 /* SIG_SETMASK */, &all_but_poke, 0, 8);
  leaving = true;
  uint64_t info[16] = {};
  info[0] = kPokeSignal;
  info[1] = (uint32_t)-1;  // SI_QUEUE
  native(297, native(39), native(186), kPokeSignal, info);
  __builtin_unreachable();  // on_poke() does not come back here
}

bool leave_is_due() { return leaving; }

bool shim_has_left() { return left; }

void leave_process(ThreadArea* area) {
  left = true;
  leaving = false;
  const bool clean = code_give_back();
  if (vdso_was_at) give_back_vdso();
  if (area->look_timer) native(226 /* timer_delete */, area->look_timer - 1);
  if (area->clear_tid) native(218, area->clear_tid);
  native(157, 59, 0 /* PR_SYS_DISPATCH_OFF */, 0, 0, 0);
  // Nobody executes a program in this one's name any more.
  if (own_socket() >= 0) native(72, own_socket(), 2 /* F_SETFD */, 1);
  exec_forget();
  trace_detach();
  if (clean) native(158, 0x1001 /* ARCH_SET_GS */, 0);
}

}  // namespace friday::shim
