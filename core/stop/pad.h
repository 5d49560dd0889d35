// Builds the machine code of one pad: an instruction of the program, rewritten to have the same effect at another
// address and then to continue where the program would. Pure function of its arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/stop/instruction.h"

namespace friday {

constexpr uint64_t pad_size = 64;  // in bytes; pads occupy 64-byte slots, which every pad fits

struct PadCode {
  std::vector<std::byte> code;
  // (offset, program address) pairs: a pc at this offset of the pad corresponds to that address. Offset 0 is the
  // instruction.
  std::vector<std::pair<uint64_t, uint64_t>> meaning;
};

// None if the instruction cannot run at `base`: a rip-relative operand is out of range, or the instruction must stay in
// its place (system calls, interrupts, xbegin, far and 16-bit branches). jmp and jcc are not supported: the caller
// executes them by changing registers.
std::optional<PadCode> build_pad(const Instruction& instruction, Addr base);

}  // namespace friday
