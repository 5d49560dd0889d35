// The code that a hot store is sent to. It looks in a table whether the page it stores to is watched and has a second
// mapping that can be written (patched_stores.h), and whether one of the bytes is watched. If the page is there and
// none is, the store is made through the second mapping; in every other case it is made as the program has it, and
// faults if it must. Registers and flags are the program's again before either of the two. Pure functions.
//
//   site:   jmp T                  T:     rdx := address of the store      (any register that the store does not use)
//   (+5):   ...                           offset in its page, by the table; another page, or across its end: slow
//                                         a watched byte among them, by the page's bit map: slow
//                                         store to [rdx + second mapping - page]; go to after
//                                  slow:  the store as it was               means `site`
//                                  after: instructions that the jump displaced, each with its meaning; jmp back, unless
//                                  the last
//                                         of them is a jump itself
//
// No stack is used, since what lies below the stack pointer is the program's too: a program that reads a variable it
// never set must read what it read before. Registers are saved in a page near the code, one set a process: at replay
// one thread of a process runs program code at a time, and none is sent elsewhere in the middle
// (Breakpoints::leave_pad).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/stop/pad.h"

namespace friday {

// One entry a page, found by its number modulo store_table_entries.
struct StoreTableEntry {
  uint64_t page = 0;      // address of the page that the entry is about; 0, or of another number: none
  uint64_t writable = 0;  // address of its second mapping
  uint64_t reserved[6] = {};
  uint8_t watched[512] = {};  // a bit a byte
  uint8_t behind[448] = {};   // read, never looked at
};
static_assert(sizeof(StoreTableEntry) == 1024);
constexpr uint64_t store_table_entries = 4096;

// What the code keeps in the page near it, from `save` on.
struct StoreSave {
  uint64_t words[5];
  uint64_t table;  // address of the StoreTableEntry array
};

constexpr size_t widest_patched_store = 32;
constexpr uint64_t store_patch_size = 384;  // no patch is longer

// Whether a store is of a kind that can be patched: one memory operand that is written, and nothing else special.
bool is_patchable_store(const Instruction& instruction);
// Whether an instruction behind the store may be displaced with it.
bool is_displaceable(const Instruction& instruction);

// Whether it is a direct jump, conditional or not, which may be the last of those.
bool ends_window(const Instruction& instruction);

// `window`: the store, and the instructions that the jump displaces with it, in order. None when a form cannot be
// encoded or a distance is too far.
std::optional<PadCode> build_store_patch(std::span<const Instruction> window, Addr base, Addr save);

}  // namespace friday
