// Generates the code that replaces a hot store. The code looks up whether the page that it is about to write is watched
// and has a second, writable mapping (patched_stores.h), and whether any of the bytes is watched. If the page is found
// and none is watched, it writes through the second mapping; otherwise it executes the original store, which faults if
// it must. Registers and flags are restored before either store. Pure functions.
//
//   site:   jmp T                  T:     rdx := address of the store      (any register that the store does not use)
//   (+5):   ...                           entry of its page in the table; another page, or across pages: slow
//                                         bit map of the page: a byte is watched: slow
//                                         store to [rdx + second mapping - page]; go to after
//                                  slow:  the original store, whose program address is `site`
//                                  after: the instructions that the jump displaced, each with its program
//                                         address; jmp back, unless the last of them is a jump
//
// patch_writer.h says how it saves registers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/stop/pad.h"

namespace friday {

// The table has one entry for each page number modulo store_table_entries.
struct StoreTableEntry {
  // address of the page that the entry describes; 0, or an address that does not belong to this slot: none
  uint64_t page = 0;
  uint64_t writable = 0;  // address of the page's second mapping
  uint64_t reserved[6] = {};
  uint8_t watched[512] = {};  // one bit for each byte of the page
  uint8_t behind[448] = {};   // padding: a lookup near the end of `watched` may read it, and its contents do not matter
};
static_assert(sizeof(StoreTableEntry) == 1024);
constexpr uint64_t store_table_entries = 4096;

// The words that the generated code uses in the data page near it, starting at `save`.
struct StoreSave {
  uint64_t words[5];
  uint64_t table;  // address of the array of StoreTableEntry
};

constexpr size_t widest_patched_store = 32;
constexpr uint64_t store_patch_size = 384;  // upper limit of the size of a patch, in bytes

// Whether the store can be patched: exactly one memory operand, which is written, and no special semantics.
bool is_patchable_store(const Instruction& instruction);
// Whether an instruction after the store may be displaced with it.
bool is_displaceable(const Instruction& instruction);

// Whether the instruction is a direct jump, conditional or not. Only the last displaced instruction may be one.
bool ends_window(const Instruction& instruction);

// `window` is the store, followed by the instructions that the jump displaces with it, in order. Returns none if an
// instruction cannot be encoded or a distance is too large.
std::optional<PadCode> build_store_patch(std::span<const Instruction> window, Addr base, Addr save);

}  // namespace friday
