// The optional state hash (`friday record --state-hash`): at every n-th call of a thread, hashes of the program's state
// are stored with the call's event and compared at replay. So a difference is found there, and not only when a call
// reads memory that it has reached.
//
// There are three hashes, so that a report can say what differs: of the registers that a function call preserves, with
// rsp and the address that the call returns to; of the words above the stack pointer; and of a piece of the program's
// writable data (.data and .bss of its files, the brk heap), each time of the next piece, so that all of it is hashed
// in turn. Memory that another thread's call or an asynchronous read may be filling is not hashed, because a replay
// fills it when that call returns. At exit_group(2) all private writable memory is hashed, except for what is below the
// stack pointer.
#include <linux/mman.h>

#include "core/shim/calls.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

constexpr uint32_t kReadWrite = PROT_READ | PROT_WRITE;
constexpr uint32_t kStackBytes = 256, kPieceBytes = 1024;
constexpr uint64_t kFinalBytes = 64 << 20;  // the most that is hashed at the end of the process
constexpr uint64_t kSyncedBytes = 1 << 20;  // the most that is hashed at an msync(2)
constexpr unsigned kMostRegions = 128, kMostAreas = 16;

struct Region {
  uint64_t low, high;
} regions[kMostRegions];  // writable data of files, without the brk heap
unsigned region_count;
uint64_t own_inode;    // of the shim's file
unsigned next_region;  // where the next piece is, region_count for the heap,
uint64_t next_piece;   // and at what offset in that region

uint64_t hash_registers(const CallFrame* f) {
  const uint64_t words[] = {f->rbx, f->rbp, f->r12, f->r13, f->r14, f->r15, f->rsp, f->rip};
  return hash_bytes(words, sizeof words, 0);
}

// Whether the call may write to memory while it blocks. Calls with coded outputs do not: futex(2) writes nothing while
// it waits, and the others do not block.
bool may_write_late(const CallInfo& info) { return info.outputs[0].shape != Shape::none && !is_coded(info); }

// Whether no other call that is under way may write to the program's memory.
bool memory_is_quiet(const ThreadArea* area) {
  if (aio_under_way()) return false;
  if (live_threads == 1) return true;
  if (control.area_count > kMostAreas) return false;
  for (uint32_t n = 0; n < control.area_count; n++) {
    const ThreadArea* other = area_at(n);
    if (other != area && other->alive && may_write_late(call_info(other->call_number))) return false;
  }
  return true;
}

Region region_at(unsigned n) {
  if (n < region_count) return regions[n];
  return {image_registers.brk_start ? image_registers.brk_start : page_up(image_registers.brk_end),
          control.program_brk};
}

void take_piece(StatePart* state) {
  for (unsigned tries = 0; tries <= region_count; tries++) {
    const Region region = region_at(next_region);
    if (region.low + next_piece < region.high) {
      state->address = region.low + next_piece;
      state->memory_bytes = (uint32_t)min<uint64_t>(region.high - state->address, kPieceBytes);
      next_piece += kPieceBytes;
      return;
    }
    next_region = next_region == region_count ? 0 : next_region + 1;
    next_piece = 0;
  }
}

bool hash_range(uint64_t address, uint32_t size, uint64_t* hash) {
  return probed([&] { *hash = hash_bytes((void*)address, size, 0); });
}

}  // namespace

uint32_t state_every;

// Lists the program's writable data: the writable mappings of files other than the shim's, each with the anonymous
// mapping behind it (.bss).
void state_prepare() {
  MapLine line;
  uint64_t data_end = 0;
  region_count = 0;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line)) && region_count < kMostRegions;) {
    if (line.low <= control.text_low && control.text_low < line.high)
      own_inode = line.inode;  // found before the shim's data, which is at higher addresses than its code
    const bool data = line.inode ? line.inode != own_inode && !line.shared : line.low == data_end && !line.path[0];
    data_end = data ? line.high : 0;
    if (data && (line.protection & kReadWrite) == kReadWrite) regions[region_count++] = {line.low, line.high};
  }
}

void state_note(const CallFrame* frame, ThreadArea* area) {
  area->state.memory_bytes = area->state.stack_bytes = 0;
  area->state_due = 0;
  if (++area->state_calls < state_every) return;
  area->state_calls = 0;
  area->state_due = 1;
  StatePart* state = &area->state;
  state->registers = hash_registers(frame);
  // Of a futex with priority inheritance, the shim itself changes the word before the call's event (futex.cc).
  if (!memory_is_quiet(area) || (frame->rax == sys::futex && futex_inherits(arguments_of(frame)))) return;
  if (hash_range(frame->rsp, kStackBytes, &state->stack)) state->stack_bytes = kStackBytes;
  take_piece(state);
  if (state->memory_bytes && !hash_range(state->address, state->memory_bytes, &state->memory)) state->memory_bytes = 0;
}

// What the program has stored into a shared file mapping is output when it calls msync(2), as what it passes to
// write(2) is, so it is compared. Of a large range one piece is hashed, the next one at each call.
void state_synced(const CallFrame* frame, ThreadArea* area) {
  static uint64_t calls;
  const uint64_t* a = arguments_of(frame);
  const uint64_t pieces = (a[1] + kSyncedBytes - 1) / kSyncedBytes;
  if (!pieces || !memory_is_quiet(area)) return;
  StatePart state = {hash_registers(frame), 0, 0, a[0] + calls++ % pieces * kSyncedBytes, 0, 0};
  state.memory_bytes = (uint32_t)min(a[0] + a[1] - state.address, kSyncedBytes);
  if (!hash_range(state.address, state.memory_bytes, &state.memory)) return;
  area->state = state;
  area->state_due = 1;
}

void state_final(EventWriter& writer, const CallFrame* frame, const ThreadArea* area) {
  if (!state_every || !memory_is_quiet(area)) return;
  MapLine line;
  uint64_t own_end = 0;  // end of the shim's mappings so far; the anonymous mapping that begins there is its .bss
  region_count = 0;
  for (const char* p = read_maps(); (p = parse_map_line(p, &line)) && region_count < kMostRegions;) {
    const bool own = line.inode ? line.inode == own_inode : line.low == own_end;
    if (own) own_end = line.high;
    if (own || line.shared || line.protection != kReadWrite || (line.low >= kOwnLow && line.low < kOwnEnd)) continue;
    if (line.low <= frame->rsp && frame->rsp < line.high) line.low = frame->rsp;
    regions[region_count++] = {line.low, line.high};
  }
  uint64_t left = kFinalBytes;
  for (unsigned n = 0; n < region_count; n++) {
    StatePart state = {hash_registers(frame), 0, 0,
                       regions[n].low,        0, (uint32_t)min(regions[n].high - regions[n].low, left)};
    left -= state.memory_bytes;
    if (!state.memory_bytes || !hash_range(state.address, state.memory_bytes, &state.memory)) continue;
    writer.part(kState, &state, sizeof state);
    writer.event->header.flags |= kFlagState;
  }
}

unsigned state_differs(const StatePart* state, const CallFrame* frame, uint64_t* want, uint64_t* got) {
  *want = state->registers;
  if ((*got = hash_registers(frame)) != *want) return kStateRegisters;
  *want = state->stack;
  if (state->stack_bytes && (!hash_range(frame->rsp, state->stack_bytes, got) || *got != *want)) return kStateStack;
  *want = state->memory;
  if (state->memory_bytes && (!hash_range(state->address, state->memory_bytes, got) || *got != *want))
    return kStateMemory;
  return kStateSame;
}

}  // namespace friday::shim
