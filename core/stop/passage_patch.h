// Generates the code that counts how often a node comes by an instruction, at some nanoseconds a passage, and stops it
// at one of them. Pure functions.
//
//   place:  jmp T                  T:     count one more; it is the wanted one: hit
//   (+5):   ...                           any register differs from the wanted ones: out; otherwise hit
//                                  out:   the instructions that the jump displaced, each with its program
//                                         address; jmp back, unless the last of them is a jump
//                                  hit:   int3
//
// Registers and flags are restored before `out` and `hit` (patch_writer.h).
#pragma once

#include <sys/user.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/stop/pad.h"

namespace friday {

// The words that the generated code uses in the data page near it. They lie behind those of patched stores (StoreSave).
struct PassageWords {
  uint64_t saved[2];
  uint64_t count;      // of passages so far
  uint64_t wanted;     // the passage at which to stop; 0: none
  uint64_t match[16];  // the general registers with which to stop, in the processor's order; of rsp 0: with none
};
constexpr uint64_t kPassageWordsAt = 64;  // in the data page

constexpr uint64_t passage_patch_size = 640;  // upper limit of the size of a patch, in bytes

struct PassagePatch {
  PadCode code;
  uint64_t copy = 0;  // offset of the copy of the counted instruction
  uint64_t trap = 0;  // offset of the int3
};

// The general registers in the processor's order, as in PassageWords.
std::array<uint64_t, 16> general_registers(const user_regs_struct& registers);

// `window`: the instruction whose passages are counted, and those that the jump displaces with it, in order. `words`:
// where PassageWords stands. None if an instruction cannot be encoded or a distance is too large.
std::optional<PassagePatch> build_passage_patch(std::span<const Instruction> window, Addr base, Addr words);

}  // namespace friday
