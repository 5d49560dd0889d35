// Patches the sites that the collector has found: replaces system calls by jumps to stubs, and carries out the few
// instructions whose results a replay cannot reproduce. Bytes are checked before they are replaced. A site with other
// bytes than its file, such as a debugger's breakpoint, is left to the catch-all.
#include <linux/mman.h>
#include <linux/resource.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/memory.h"
#include "core/shim/patch.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/standby.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

bool catch_all_only;
uint64_t stack_top;

namespace {

constexpr uint32_t kMaxPatches = 10240, kTable = 32768;
constexpr uint32_t kMostLoops = 2048;                   // loop sites whose instructions have moved
constexpr uint32_t kMostBeforeLoops = kMaxPatches / 2;  // with more, loops leave the room to what must be patched
constexpr uint64_t kCode = PROT_READ | PROT_EXEC, kWritableCode = kCode | PROT_WRITE;
constexpr uint64_t kStubRoom = 80;  // the most bytes that a stub takes
static_assert(kMaxPatches * kStubRoom + 0x1000 + (1 << 20) <= kPadSize);
Patch patches[kMaxPatches];
uint16_t loops[kMostLoops];  // indices of the loop sites
uint32_t loop_count;
// Hash tables of index + 1, by Patch::resume and by the end of the system call instruction; for planted instructions by
// their address.
uint16_t by_resume[kTable], by_return[kTable];

uint32_t slot(uint64_t address) { return (uint32_t)(address * 0x9e3779b97f4a7c15ull >> 49); }

void enter(uint16_t* table, uint64_t address, uint16_t index) {
  uint32_t i = slot(address);
  while (table[i]) i = (i + 1) % kTable;
  table[i] = (uint16_t)(index + 1);
}

template <typename Match>
const Patch* find(const uint16_t* table, uint64_t address, Match match) {
  for (uint32_t i = slot(address); table[i]; i = (i + 1) % kTable)
    if (match(patches[table[i] - 1])) return &patches[table[i] - 1];
  return nullptr;
}

void put32(uint8_t*& to, int64_t value) {
  int32_t narrow = (int32_t)value;
  memcpy(to, &narrow, 4);
  to += 4;
}
void put_bytes(uint8_t*& to, const void* from, size_t size) {
  memcpy(to, from, size);
  to += size;
}

// lea `target`(%rip), %rcx; jmp *friday_enter
void put_entry(uint8_t*& to, uint64_t target) {
  const uint8_t lea[] = {0x48, 0x8d, 0x0d};
  put_bytes(to, lea, 3);
  put32(to, (int64_t)(target - ((uint64_t)to + 4)));
  const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
  put_bytes(to, jump, 6);
  uint64_t entry = (uint64_t)friday_enter;
  put_bytes(to, &entry, 8);
}

constexpr uint64_t kEntrySize = 7 + 6 + 8;

// Whether a reservation at `place` would be where the main thread's stack may grow. The kernel keeps other mappings
// away from there: as far as RLIMIT_STACK allows, and at least 128 MiB (mmap_base() in arch/x86/mm/mmap.c). The vdso
// may be just above the stack, so the places near it need this check.
bool in_room_of_stack(uint64_t place) {
  constexpr uint64_t kLeast = 128ull << 20, kMost = 1ull << 30;
  uint64_t limit[2] = {0, 0};
  native(sys::getrlimit, RLIMIT_STACK, limit);
  const uint64_t room = limit[0] < kLeast ? kLeast : min(limit[0], kMost);
  return place < stack_top && place + kPadSize > stack_top - room;
}

uint64_t reserve_near(uint64_t low, uint64_t high) {
  limits_count(kPadSize);
  for (uint64_t distance = 0x100000; distance < 0x60000000; distance += kPadSize) {
    uint64_t candidates[2] = {(low - kPadSize - distance) & ~0xffffull, (high + distance + 0xffff) & ~0xffffull};
    for (uint64_t place : candidates) {
      if (place > 0x7fffffffffff - kPadSize || in_room_of_stack(place)) continue;
      long got = native(sys::mmap, place, kPadSize, 0,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
      if (got == (long)place) return place;
      if (!failed(got)) native(sys::munmap, got, kPadSize);
    }
  }
  limits_count(-(long)kPadSize);
  return 0;
}

bool is_pause(const uint8_t* at) { return at[0] == 0xf3 && at[1] == 0x90; }

// The opcode of the relative jump or call that stands in memory at a site that has a stub.
uint8_t to_stub(const Patch& patch) { return patch.is_call() ? 0xe8 : 0xe9; }

bool bytes_are_calls(const Site& site, const uint8_t* at) {
  switch (site.kind) {
    case kSiteBefore: return at[site.length] == 0x0f && at[site.length + 1] == 0x05;
    case kSiteAfter: return at[0] == 0x0f && at[1] == 0x05;
    case kSiteRdtsc: return at[0] == 0x0f && at[1] == 0x31;
    case kSiteCpuid: return at[0] == 0x0f && at[1] == 0xa2;
    case kSitePause: return is_pause(at);
    case kSiteRdtscp: return at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xf9;
    case kSiteXgetbv: return at[0] == 0x0f && at[1] == 0x01 && at[2] == 0xd0;
    case kSiteXbegin: return at[0] == 0xc7 && at[1] == 0xf8;
    default: return true;
  }
}

void jump_to_stub(const Patch& patch, uint8_t* at, uint8_t*& to) {
  to = (uint8_t*)(((uint64_t)to + 15) & ~15ull);
  uint8_t* p = at;
  *p++ = to_stub(patch);
  put32(p, (int64_t)(patch.stub - ((uint64_t)p + 4)));
  while (p < at + patch.length) *p++ = 0x90;
}

// movl $half, %gs:offset
void put_store(uint8_t*& to, uint32_t offset, uint32_t half) {
  const uint8_t move[] = {0x65, 0xc7, 0x04, 0x25};
  put_bytes(to, move, 4);
  put32(to, (int32_t)offset);
  put32(to, (int32_t)half);
}

// cmp %esp, %esp: gives the flags values that do not depend on the count. The program does not use them there.
constexpr uint8_t kSameFlags[] = {0x39, 0xe4};

// decq %gs:loops_left
void put_count(uint8_t*& to) {
  const uint8_t code[] = {0x65, 0x48, 0xff, 0x0c, 0x25};
  put_bytes(to, code, sizeof code);
  put32(to, __builtin_offsetof(ThreadArea, loops_left));
}

// Stores `resume`, where the thread will go on, in ThreadArea::trap_rip; jmp *entry
void put_entry_at(uint8_t*& to, uint64_t resume, void (*entry)()) {
  put_store(to, __builtin_offsetof(ThreadArea, trap_rip), (uint32_t)resume);
  put_store(to, __builtin_offsetof(ThreadArea, trap_rip) + 4, (uint32_t)(resume >> 32));
  const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
  put_bytes(to, jump, 6);
  put_bytes(to, &entry, 8);
}

// The stub of a loop site:
//      decq %gs:loops_left; jz 2f; cmp %esp, %esp
//   1: the displaced instructions; jmp to the instruction behind them
//   2: store the address of 1 in ThreadArea::trap_rip; jmp *friday_enter_loop
// At one that begins with a `pause` the thread is waiting, so it always goes to 2, and by friday_enter_pause.
// The collector has checked that the program does not use the flags there.
bool put_loop(const Site& site, uint8_t* at, uint8_t*& to, Patch& patch) {
  constexpr uint8_t kCount = 9, kJumpBack = 5;
  uint8_t* const moved = to + kCount + 2 + sizeof kSameFlags;
  int32_t displacement = 0;
  if (site.detail) memcpy(&displacement, at + site.detail, 4);
  const int64_t wanted = displacement + ((int64_t)at - (int64_t)moved);
  if (loop_count == kMostLoops || (site.detail && wanted != (int32_t)wanted) || site.length > sizeof patch.original ||
      site.detail + 4u > site.length)
    return false;
  patch.syscall = patch.start;
  patch.resume = (uint64_t)moved;
  put_count(to);
  *to++ = is_pause(at) ? 0xeb : 0x74;
  *to++ = (uint8_t)(sizeof kSameFlags + site.length + kJumpBack);
  put_bytes(to, kSameFlags, sizeof kSameFlags);
  put_bytes(to, at, site.length);
  if (site.detail) {
    uint8_t* field = moved + site.detail;
    put32(field, wanted);
  }
  *to++ = 0xe9;
  put32(to, (int64_t)(patch.start + site.length - ((uint64_t)to + 4)));
  put_entry_at(to, patch.resume, is_pause(at) ? friday_enter_pause : friday_enter_loop);
  jump_to_stub(patch, at, to);
  return true;
}

// The stub of a loop site that is a call. The address to which the function returns is the program's.
//      decq %gs:loops_left; jz 1f; cmp %esp, %esp; jmp function
//   1: cmp %esp, %esp; store the function's address in ThreadArea::trap_rip; jmp *friday_enter_loop
bool put_call(uint8_t* at, uint8_t*& to, Patch& patch) {
  constexpr uint8_t kCount = 9, kJump = 5;
  int32_t displacement;
  memcpy(&displacement, at + 1, 4);
  const uint64_t function = patch.start + patch.length + (uint64_t)(int64_t)displacement;
  const uint64_t behind = (uint64_t)to + kCount + 2 + sizeof kSameFlags + kJump;
  const int64_t wanted = (int64_t)(function - behind);
  if (patch.length != kJump || wanted != (int32_t)wanted) return false;
  patch.syscall = patch.start;
  put_count(to);
  *to++ = 0x74;
  *to++ = sizeof kSameFlags + kJump;
  put_bytes(to, kSameFlags, sizeof kSameFlags);
  *to++ = 0xe9;
  put32(to, wanted);
  put_bytes(to, kSameFlags, sizeof kSameFlags);
  put_entry_at(to, function, friday_enter_loop);
  jump_to_stub(patch, at, to);
  return true;
}

// What becomes of a loop site that begins with a `pause` and for which there is no stub: it must not go unseen.
Site planted_pause(const Site& site) { return {site.offset, kSitePause, 2, 0}; }

// Patches one site and moves `to` behind its stub. False: the site cannot be patched.
bool patch_site(const Site& site, uint8_t* at, uint8_t*& to) {
  if (control.patch_count >= kMaxPatches || !bytes_are_calls(site, at)) return false;
  for (unsigned i = 0; i < site.length; i++)
    if (at[i] == 0xcc) return false;
  if (site.kind == kSiteLoop && !is_pause(at) && control.patch_count >= kMostBeforeLoops) return false;
  Patch& patch = patches[control.patch_count];
  patch.start = (uint64_t)at;
  patch.kind = (uint8_t)site.kind;
  patch.length = (uint8_t)site.length;
  patch.stub = (uint64_t)to;
  patch.resume = 0;
  memcpy(patch.original, at, site.length);
  const uint16_t index = (uint16_t)control.patch_count;
  if (is_planted(site.kind)) {
    patch.syscall = patch.start;
    patch.stub = site.detail;  // a planted instruction has no stub
    enter(by_return, patch.start, index);
    at[0] = 0x0f;
    at[1] = 0x0b;
    for (unsigned i = 2; i < site.length; i++) at[i] = 0x90;
  } else if (site.kind == kSiteLoop && patch.is_call()) {
    if (!put_call(at, to, patch)) return false;
  } else if (site.kind == kSiteLoop) {
    if (!put_loop(site, at, to, patch)) return is_pause(at) && patch_site(planted_pause(site), at, to);
    loops[loop_count++] = index;
  } else {
    if (site.kind == kSiteBefore) {
      patch.syscall = patch.start + site.length;
      put_bytes(to, at, site.length);
      put_entry(to, patch.syscall + 2);
    } else {
      patch.syscall = patch.start;
      put_entry(to, (uint64_t)to + kEntrySize);
      patch.resume = (uint64_t)to;
      put_bytes(to, at + 2, site.length - 2u);
      *to++ = 0xe9;
      put32(to, (int64_t)(patch.start + site.length - ((uint64_t)to + 4)));
      enter(by_resume, patch.resume, index);
      enter(by_return, patch.syscall + 2, index);
    }
    jump_to_stub(patch, at, to);
  }
  control.patch_count++;
  return true;
}

}  // namespace

const Patch* patch_of_resume(uint64_t address) {
  return find(by_resume, address, [=](const Patch& p) { return p.resume == address; });
}
void find_site(CallFrame* frame) {
  if (frame->site) return;
  const Patch* patch = patch_of_resume(frame->rip);
  frame->site = patch ? patch->syscall : frame->rip - 2;
}
const Patch* patch_of_return(uint64_t address) {
  return find(by_return, address, [=](const Patch& p) { return p.kind == kSiteAfter && p.syscall + 2 == address; });
}

uint64_t loop_original(uint64_t address) {
  for (uint32_t i = 0; i < loop_count; i++) {
    const Patch& patch = patches[loops[i]];
    if (address - patch.resume < patch.length) return patch.start + (address - patch.resume);
  }
  return address;
}
bool in_stub(uint64_t address) {
  for (uint64_t i = 0; i < control.patch_count; i++)
    if (!is_planted(patches[i].kind) && address - patches[i].stub < kStubRoom) return true;
  return false;
}
uint64_t loop_moved(uint64_t address) {
  for (uint32_t i = 0; i < loop_count; i++) {
    const Patch& patch = patches[loops[i]];
    if (address - patch.start - 1 >= patch.length - 1u) continue;
    // The program may have mapped other code there.
    bool there = false;
    probed([&] {
      int32_t distance;
      memcpy(&distance, (const void*)(patch.start + 1), 4);
      there = *(const uint8_t*)patch.start == 0xe9 && patch.start + 5 + (uint64_t)(int64_t)distance == patch.stub;
    });
    if (there) return patch.resume + (address - patch.start);
  }
  return address;
}

namespace {

// Patches sites of one module. The code and the stubs are writable as long as this object exists.
class Patching {
 public:
  Patching(const ModuleView& module, uint64_t stubs, uint32_t count)
      : module_(module), stubs_(stubs), to_((uint8_t*)stubs) {
    control.patches = (uint64_t)patches;
    room_ = page_up(min(count, kMaxPatches) * kStubRoom + kStubRoom);
    // Private writable memory counts towards RLIMIT_DATA. If the limit does not allow all of the code to be writable, a
    // page at a time may still be allowed (apply()).
    stubs_writable_ = stubs && !failed(native(sys::mprotect, stubs, room_, PROT_READ | PROT_WRITE));
    all_writable_ = !failed(native(sys::mprotect, module.low, module.high - module.low, PROT_READ | PROT_WRITE));
  }
  ~Patching() {
    if (all_writable_) native(sys::mprotect, module_.low, module_.high - module_.low, module_.protection);
    if (stubs_) native(sys::mprotect, stubs_, room_, kCode);
  }
  Patching(const Patching&) = delete;

  bool inside(const Site& site) const {
    return site.offset >= module_.offset && address_of(site) + site.length + 2 <= module_.high;
  }
  bool must_be_seen(const Site& site) const {
    return inside(site) &&
           (is_planted(site.kind) || (site.kind == kSiteLoop && is_pause((const uint8_t*)address_of(site))));
  }
  bool apply(const Site& site) {
    const uint64_t address = address_of(site), page = address & ~4095ull, size = page_up(address + site.length) - page;
    if (!inside(site) || (!all_writable_ && failed(native(sys::mprotect, page, size, PROT_READ | PROT_WRITE))))
      return false;
    uint8_t* const at = (uint8_t*)address;
    const bool pause = site.kind == kSiteLoop && is_pause(at);
    const bool done = stubs_writable_ || is_planted(site.kind) ? patch_site(site, at, to_)
                                                               : pause && patch_site(planted_pause(site), at, to_);
    if (!all_writable_) native(sys::mprotect, page, size, module_.protection);
    return done;
  }

 private:
  uint64_t address_of(const Site& site) const { return module_.low + (site.offset - module_.offset); }

  const ModuleView& module_;
  uint64_t stubs_, room_;
  uint8_t* to_;
  bool stubs_writable_, all_writable_;
};

}  // namespace

PatchedModule patch_module(const ModuleView& module, Site* sites, uint32_t count) {
  PatchedModule result;
  result.stubs = reserve_near(module.low, module.high);
  Patching patching(module, result.stubs, count);
  bool unseen = false;
  for (uint32_t i = 0; i < count; i++) {
    const Site site = sites[i];
    const bool call = site.kind == kSiteBefore || site.kind == kSiteAfter;
    const bool done = !(call && catch_all_only) && patching.apply(site);
    if (done) sites[result.done++] = site;
    unseen = unseen || (!done && patching.must_be_seen(site));
    if (site.kind != kSiteLoop) ++(done ? result.patched : result.trapped);
  }
  if (unseen)
    collector_send(
        kNotice, 0, 0,
        "rdtsc, cpuid, rdrand and pause are not recorded in code that cannot be patched: too much code is loaded, "
        "or it may not be made writable");
  return result;
}

void repatch_module(const ModuleView& module, const Site* sites, uint32_t count, uint64_t stubs) {
  if (stubs)
    native(sys::mmap, stubs, kPadSize, 0, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  Patching patching(module, stubs, count);
  for (uint32_t i = 0; i < count; i++)
    if (!patching.apply(sites[i]))
      replay_fail("code cannot be patched where it was patched while recording; number of the site", i);
}

uint64_t* register_of(CallFrame* f, unsigned number) {
  uint64_t* const registers[16] = {&f->rax, &f->rcx, &f->rdx, &f->rbx, &f->rsp, &f->rbp, &f->rsi, &f->rdi,
                                   &f->r8,  &f->r9,  &f->r10, &f->r11, &f->r12, &f->r13, &f->r14, &f->r15};
  return registers[number & 15];
}

namespace {
// The register operands of an instruction with a two-byte opcode (0f xx) and a ModRM byte, and their width: 0: 16 bits,
// 1: 32 bits, 2: 64 bits.
struct RegisterOperands {
  unsigned reg, rm, width = 1;
  explicit RegisterOperands(const uint8_t* code) {
    uint8_t rex = 0;
    for (; *code != 0x0f; code++) {
      if (*code == 0x66) width = 0;
      if ((*code & 0xf0) == 0x40) rex = *code;
    }
    if (rex & 8) width = 2;
    reg = (unsigned)(code[2] >> 3 & 7) | (rex & 4u) << 1;
    rm = (unsigned)(code[2] & 7) | (rex & 1u) << 3;
  }
};

void put_register(CallFrame* frame, unsigned number, unsigned width, uint64_t value) {
  uint64_t* to = register_of(frame, number);
  *to = width == 0 ? (*to & ~0xffffull) | (value & 0xffff) : width == 1 ? (uint32_t)value : value;
}

// What goes into the event: EventRecord::result and input_hash.
struct InstructionResult {
  uint64_t value, extra;
};
constexpr uint32_t kTransactions = 1 << 4 | 1 << 11;  // the bits HLE and RTM in ebx of cpuid leaf 7

InstructionResult execute(const Patch& patch, const CallFrame* frame) {
  InstructionResult r = {};
  uint32_t low, high, aux = 0, a, b;
  uint8_t ok;
  switch (patch.kind) {
    case kSiteRdtsc:
      asm volatile("rdtsc" : "=a"(low), "=d"(high));
      r.value = (uint64_t)high << 32 | low;
      break;
    case kSiteRdtscp:
      asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
      r.value = (uint64_t)high << 32 | low;
      r.extra = aux;
      break;
    case kSiteRdrand:
      asm volatile("rdrand %0; setc %1" : "=r"(r.value), "=qm"(ok));
      r.extra = ok;
      break;
    case kSiteRdseed:
      asm volatile("rdseed %0; setc %1" : "=r"(r.value), "=qm"(ok));
      r.extra = ok;
      break;
    case kSiteCpuid:  // recorded because some leaves depend on the processor that the thread runs on
      asm volatile("cpuid"
                   : "=a"(a), "=b"(b), "=c"(low), "=d"(high)
                   : "a"((uint32_t)frame->rax), "c"((uint32_t)frame->rcx));
      if ((uint32_t)frame->rax == 7 && (uint32_t)frame->rcx == 0) b &= ~kTransactions;
      r.value = (uint64_t)b << 32 | a;
      r.extra = (uint64_t)high << 32 | low;
      break;
    case kSiteRdpid:  // reads IA32_TSC_AUX, as rdtscp does, which every processor has
      asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(aux));
      r.value = aux;
      break;
    case kSiteLsl:  // the kernel keeps the processor's number in a segment limit too (__getcpu() in asm/segment.h)
      low = 0;
      asm volatile("lsl %2, %0; setz %1"
                   : "+r"(low), "=qm"(ok)
                   : "r"((uint32_t)*register_of((CallFrame*)frame, RegisterOperands(patch.original).rm))
                   : "cc");
      r.value = low;
      r.extra = ok;
      break;
  }
  return r;
}

void give_result(const Patch& patch, const InstructionResult& r, CallFrame* frame) {
  if (patch.kind == kSiteRdtsc || patch.kind == kSiteRdtscp) {
    frame->rax = (uint32_t)r.value;
    frame->rdx = r.value >> 32;
    if (patch.kind == kSiteRdtscp) frame->rcx = r.extra;
    return;
  }
  if (patch.kind == kSiteCpuid) {
    frame->rax = (uint32_t)r.value;
    frame->rbx = r.value >> 32;
    frame->rcx = (uint32_t)r.extra;
    frame->rdx = r.extra >> 32;
    return;
  }
  if (patch.kind == kSiteRdpid) {
    put_register(frame, RegisterOperands(patch.original).rm, 2, r.value);
    return;
  }
  if (patch.kind == kSiteLsl) {
    constexpr uint64_t kZero = 0x40;
    const RegisterOperands operands(patch.original);
    if (r.extra) put_register(frame, operands.reg, operands.width, r.value);
    frame->eflags = (frame->eflags & ~kZero) | (r.extra ? kZero : 0);
    return;
  }
  put_register(frame, (unsigned)patch.stub & 15, (unsigned)patch.stub >> 4, r.extra ? r.value : 0);
  frame->eflags = (frame->eflags & ~0x8d5ull) | (r.extra & 1);
}
}  // namespace

bool writes_gs(uint64_t at) {
  return find(by_return, at, [=](const Patch& p) { return p.kind == kSiteGsBase && p.stub && p.start == at; }) !=
         nullptr;
}

bool emulate_instruction(CallFrame* frame, const uint8_t* state) {
  const uint64_t at = frame->rip;
  const Patch* patch = find(by_return, at, [=](const Patch& p) { return is_planted(p.kind) && p.start == at; });
  if (!patch) return false;
  ThreadArea* area = me();
  if (patch->kind == kSiteXsave) {
    emulate_xsave(patch->original, patch->stub == 1, frame, state);
    frame->rip += patch->length;
    return true;
  }
  if (patch->kind == kSiteXgetbv) {
    if ((uint32_t)frame->rcx > 1) return false;  // there are no others; the processor raises a fault
    // 0: the components that are enabled. 1: those that are in use, which the processor derives from its history
    // (xsave.cc).
    const uint64_t value = (uint32_t)frame->rcx ? state_in_use(state, image_registers.xcr0) : image_registers.xcr0;
    frame->rax = (uint32_t)value;
    frame->rdx = value >> 32;
    frame->rip += patch->length;
    return true;
  }
  if (patch->kind == kSiteGsBase) {  // rdgsbase: as far as the program can tell, the base is 0
    if (patch->stub) return false;
    const RegisterOperands operands(patch->original);
    put_register(frame, operands.rm, operands.width, 0);
    frame->rip += patch->length;
    return true;
  }
  if (patch->kind == kSiteXbegin) {  // whether a transaction aborts depends on interrupts, so none starts. A status of
                                     // 0 in eax does not suggest another attempt
    int32_t distance;
    memcpy(&distance, patch->original + 2, sizeof distance);
    frame->rax = 0;
    frame->rip += patch->length + (uint64_t)(int64_t)distance;
    return true;
  }
  if (patch->kind == kSitePause) {
    frame->rip += patch->length;
    if (!area->native && pause_yields(area)) enter_yield(frame, area, format::kYieldPause);
    standby_deliver(frame, area);
    return true;
  }
  frame->site = at;
  CallFrame* outer = area->frame;
  area->frame = frame;
  InstructionResult result;
  bool yields = false;
  if (control.mode == kModeReplay && !area->native) {
    format::EventRecord* event =
        replay_expect(frame, area, format::kInstruction, (uint16_t)(patch->kind - kSiteRdtsc + 1));
    result = {(uint64_t)event->result, event->input_hash};
    replay_consume(event);
    yields = replay_yield_follows(area, format::kYieldInstruction);
  } else {
    result = execute(*patch, frame);
    if (recording()) {
      EventWriter writer(format::kInstruction, area, (uint16_t)(patch->kind - kSiteRdtsc + 1), nullptr, 0);
      uint64_t now = ticks_now();
      writer.commit((long)result.value, result.extra, now, now);
      yields = signals_pending(area) || token_overdue();
    }
  }
  give_result(*patch, result, frame);
  frame->rip += patch->length;
  area->frame = outer;
  if (yields) enter_yield(frame, area, format::kYieldInstruction);
  standby_deliver(frame, area);
  return true;
}

// Whether the patch is still in memory. The program may have mapped other code there.
static bool still_there(const Patch& patch) {
  const uint8_t* const at = (const uint8_t*)patch.start;
  bool there = false;
  probed([&] {
    int32_t distance;
    memcpy(&distance, at + 1, 4);
    there = is_planted(patch.kind)
                ? at[0] == 0x0f && at[1] == 0x0b
                : at[0] == to_stub(patch) && patch.start + 5 + (uint64_t)(int64_t)distance == patch.stub;
  });
  return there;
}

bool code_give_back() {
  bool all = true;
  uint64_t low = 0, size = 0;  // the pages that are writable
  for (uint64_t i = 0; i < control.patch_count; i++) {
    const Patch& patch = patches[i];
    if (!still_there(patch)) continue;
    const uint64_t from = patch.start & ~4095ull, bytes = page_up(patch.start + patch.length) - from;
    if (from != low || bytes != size) {
      if (size) native(sys::mprotect, low, size, kCode);
      low = from, size = bytes;
      if (failed(native(sys::mprotect, low, size, kWritableCode))) size = 0;
    }
    if (size) memcpy((void*)patch.start, patch.original, patch.length);
    else all = false, low = 0;
  }
  if (size) native(sys::mprotect, low, size, kCode);
  return all;
}

// Other threads may execute the instructions meanwhile, so the ud2 at the front is replaced last.
void instructions_give_back() {
  for (uint64_t i = 0; i < control.patch_count; i++) {
    const Patch& patch = patches[i];
    uint8_t* const at = (uint8_t*)patch.start;
    const uint64_t low = patch.start & ~4095ull, size = page_up(patch.start + patch.length) - low;
    const bool planted =
        is_planted(patch.kind) && probed([&] { (void)*(volatile uint16_t*)at; }) && at[0] == 0x0f && at[1] == 0x0b;
    if (!planted || failed(native(sys::mprotect, low, size, kWritableCode))) continue;
    for (unsigned k = 2; k < patch.length; k++) at[k] = patch.original[k];
    uint16_t front;
    memcpy(&front, patch.original, sizeof front);
    __atomic_store_n((uint16_t*)at, front, __ATOMIC_RELEASE);
    native(sys::mprotect, low, size, kCode);
  }
}

}  // namespace friday::shim
