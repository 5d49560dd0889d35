// The shim's start: the first constructor that runs in the process (-z initfirst) or, in a statically linked program,
// what the loader calls (loader.cc). If a collector has asked for a
// recording, it patches the code that is mapped, takes the start image, and lets the program run recorded. A replay
// resumes from the image, in begin().
#include <asm/prctl.h>
#include <linux/auxvec.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/resource.h>

#include "core/shim/chaos.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/schedule.h"
#include "core/shim/shaping.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr char kNoProc[] = "/proc is not mounted where it is executed";

const char* variable(char** environment, const char* name) {
  size_t n = length_of(name);
  for (; *environment; environment++)
    if (memcmp(*environment, name, n) == 0 && (*environment)[n] == '=') return *environment + n + 1;
  return nullptr;
}

int number_of(const char* text) {
  int value = 0;
  for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + (*text - '0');
  return value;
}

void fill_control() {
  control.magic = kControlMagic;
  control.abi_version = kAbiVersion;
  control.syscall_instruction = (uint64_t)friday_syscall_instruction;
  control.trap_instruction = (uint64_t)friday_trap_site;
  control.yield_entry = (uint64_t)friday_enter_yield;
  control.slots = (uint64_t)slots;
  control.stop_at_event = ~0ull;
  MapLine line;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line));)
    if ((line.protection & PROT_EXEC) && line.low <= control.syscall_instruction &&
        line.high > control.syscall_instruction)
      control.text_low = line.low, control.text_high = line.high;
}

void instrument(const HelloReply& hello, const uint64_t* auxv) {
  MapLine map;
  uint64_t vdso_low = 0, vdso_high = 0;
  for (const uint64_t* a = auxv; *a; a += 2)
    if (*a == AT_SYSINFO_EHDR) vdso_low = a[1];
  const char* const maps = read_maps();
  for (const char* p = maps; (p = parse_map_line(p, &map));) {
    if (map.low == vdso_low) vdso_high = map.high;
    if (equal(map.path, "[stack]")) stack_top = map.high;
  }
  for (const char* p = maps; (p = parse_map_line(p, &map));) {
    const bool code = (map.protection & PROT_EXEC) && map.low != control.text_low;
    ModuleReply* reply;
    if (!map.inode || is_of_recorder(map) || !collector_module({-1, map.path, map.inode, code, false}, &reply))
      continue;
    PatchedModule done;
    const ModuleView module = {map.low, map.high, map.offset, map.protection, map.path};
    // Also if it has no sites: the room that is reserved beside the module has the jump pads of a debugger's
    // breakpoints.
    if (code) done = patch_module(module, reply->sites, reply->site_count);
    module_note(*reply, module, map.device, map.inode, done);
  }
  if (vdso_high) vdso_redirect(vdso_low, vdso_high, hello);
}

// Takes over what ld.so has registered with the kernel for the main thread.
void take_over_thread(ThreadArea* area) {
  area->tid = area->kernel_tid = (uint32_t)native(sys::gettid);
  uint64_t head = 0, size = 0;
  if (!failed(native(sys::get_robust_list, 0, &head, &size)) && head) {
    area->robust_list = head;  // the kernel keeps it as well (robust.cc)
  }
  uint64_t address = 0;
  if (!failed(native(sys::prctl, PR_GET_TID_ADDRESS, &address))) {
    area->clear_tid = address;
    native(sys::set_tid_address, 0);
  }
  uint64_t mask = 0;
  native(sys::rt_sigprocmask, SIG_BLOCK, 0, &mask, 8);
  area->signal_mask = mask;
}

// Brings the vector registers to the state that they have in a new process, because the start image does not have them
// and the first xsave would store what the loader left there. A function call preserves none of them.
void clear_vectors() {
  alignas(64) static char area[576];  // its header marks every component as initial
  memcpy(area + 24, &image_registers.mxcsr, 4);
  friday_xrstor(area, image_registers.xcr0 & 0xff);  // x87, SSE, AVX and AVX-512; no protection keys
  const uint16_t word = (uint16_t)image_registers.fpu_control;
  asm volatile("fldcw %0" : : "m"(word));
}

// Clears what the shim has left below the stack pointer. It runs on the program's stack until here, and uses more of it
// while recording than at replay; uninitialized variables of the program must have the same values in both.
void clear_dead_stack() {
  const uint64_t words = min<uint64_t>(64 << 10, image_registers.rlimits[RLIMIT_STACK][0] / 4) / 8;
  asm volatile("lea 0(,%%rcx,8), %%rdi\n\tneg %%rdi\n\tadd %%rsp, %%rdi\n\trep stosq"
               :
               : "a"(0), "c"(words)
               : "rdi", "memory");
}

// Returns true if the program is replayed from here on.
__attribute__((noinline)) bool begin(char** environment) {
  const char* socket = variable(environment, kSocketVariable);
  if (!socket) return false;
  char** end = environment;
  while (*end) end++;
  const uint64_t* auxv = (const uint64_t*)(end + 1);

  exec_remember(environment);
  HelloReply hello;
  int trace_fd, tokens_fd;
  if (!collector_hello(number_of(socket), &hello, &trace_fd, &tokens_fd)) return false;
  constexpr int kReadable = 4;  // R_OK
  if (failed(native(sys::faccessat, AT_FDCWD, "/proc/self/maps", kReadable))) {
    collector_send(kEnding, kEndRefused, 0, kNoProc);
    return false;
  }
  ThreadArea* area = area_create(0);
  if (!area || !trace_attach(trace_fd) || !group_attach(tokens_fd)) {
    collector_send(kEnding, kEndRefused, 0, kNoAddresses);
    return false;
  }
  native(sys::close, trace_fd);
  native(sys::close, tokens_fd);
  catch_all_only = hello.flags & kCatchAllOnly;
  state_every = hello.state_every;
  chaos_key = hello.chaos_key;
  output_limit = (uint64_t)hello.output_mib << 20;
  native(sys::arch_prctl, ARCH_SET_GS, area);
  area->alive = 1;
  area->go = 1;
  fill_control();
  control.mode = kModeRecord;
  trace_header()->running = kComputing;
  schedule_begins();
  shape_begins();
  if (trace_header()->on_standby || keeps_schedule) standby_begins();
  take_over_thread(area);
  clock_calibrate();
  instrument(hello, auxv);
  if (!loaded_program[0]) hide_data(auxv);  // otherwise no loader knows of the shim
  limits_inherit(socket);
  signals_inherit();
  image_prepare(hello, auxv);
  if (state_every) state_prepare();
  token_start(area);
  // A replay resumes here, in a process whose memory the core has filled; control.mode is kModeReplay by then.
  bool replayed = false;
  if (on_standby) token_give_up(area);
  else replayed = friday_snapshot(&image_registers);
  signals_install();
  thread_arm(area);
  if (!replayed) part_look_every(hello.look_for_part_ms);
  // Not before the handlers are installed, because signals may be pending that were blocked across execve(2).
  if (!replayed) signals_apply_mask(area);
  clear_vectors();
  return replayed;
}

// The registers with which the loader called the constructor (entry.S). friday_leave() may use the words below them.
extern "C" {
struct {
  uint64_t below[8];
  CallFrame frame;
} friday_at_start;
}

// Of the C library that the program is linked with. The shim is the first constructor, so it is still the environment
// that the kernel has put on the stack.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the name is the C library's
extern "C" __attribute__((weak)) char** __environ;

// glibc calls constructors with the arguments of main; musl passes none, so the values here are arbitrary.
extern "C" bool friday_start(int count, char** arguments, char** environment) {
  if (count < 0 || !arguments || environment != arguments + count + 1) environment = &__environ ? __environ : nullptr;
  if (!environment) return false;
  const bool replayed = begin(environment);
  if (control.mode) clear_dead_stack();
  return replayed;
}

// The first instruction after execve(2) of the shim itself leads here. `stack` is as the kernel has left it: the number
// of arguments, arguments, environment, auxiliary vector.
extern "C" bool friday_start_loaded(uint64_t* stack) {
  char** environment = (char**)(stack + 1 + *stack + 1);
  if (!load_program(stack, &friday_at_start.frame)) start_without_shim(stack);
  const bool replayed = begin(environment);
  if (!control.mode) start_without_shim(stack);
  clear_dead_stack();
  return replayed;
}

// At replay the node waits here, on the shim's stack, for the time of its first event. A debugger sees it behind the
// call of the constructor.
extern "C" [[noreturn]] void friday_replay_start() {
  static_assert(offsetof(decltype(friday_at_start), frame) == 64);
  me()->frame = &friday_at_start.frame;
  trap(kTrapStarted, 0);
  replay_start();
  me()->frame = nullptr;
  friday_leave(&friday_at_start.frame);
}

}  // namespace

}  // namespace friday::shim
