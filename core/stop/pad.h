// Builds the machine code of one pad: an instruction of the program rewritten so that it does the same at another
// address and then goes on where the program would. Pure function of its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/stop/instruction.h"

namespace friday {

constexpr uint64_t pad_size = 64;  // every pad fits; pads are 64-byte slots

struct PadCode {
  std::vector<std::byte> code;
  // (offset, program address): a pc at this offset of the pad means that address. Offset 0 is the instruction itself.
  std::vector<std::pair<uint64_t, uint64_t>> meaning;
};

// None when the instruction cannot run at `base`: a rip-relative operand out of reach, or a kind that must stay in its
// place (system calls, interrupts, xbegin, far and 16-bit branches). Jumps and jcc are taken by the caller in
// registers; they are not built here.
std::optional<PadCode> build_pad(const Instruction& instruction, Addr base);

}  // namespace friday
