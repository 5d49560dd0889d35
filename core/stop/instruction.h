// One decoded instruction of a node, and what the stop engine asks of it: its memory operand's address, whether it is
// relative to rip. Pure functions over bytes and registers.
#pragma once

#include <sys/user.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <Zydis/Zydis.h>

#include "core/base/ids.h"

namespace friday {

constexpr size_t max_instruction_length = 15;

struct Instruction {
  uint64_t address = 0;  // where the program has it
  ZydisDecodedInstruction decoded{};
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands{};
  std::array<std::byte, 16> bytes{};

  uint64_t next() const { return address + decoded.length; }
  std::span<const std::byte> code() const { return {bytes.data(), decoded.length}; }
  const ZydisDecodedOperand& operand(unsigned i) const { return operands[i]; }
};

// Decodes the instruction at the start of `bytes`, which stand at `address`. None when they are no instruction.
std::optional<Instruction> decode_instruction(Addr address, std::span<const std::byte> bytes);

// The address a memory operand means, with these registers. `registers.rip` is not looked at.
uint64_t effective_address(const Instruction& instruction, const ZydisDecodedOperand& operand,
                           const user_regs_struct& registers);

// The memory operand that uses rip, or nullptr.
const ZydisDecodedOperand* rip_operand(const Instruction& instruction);

// Whether a conditional branch (jcc; not loop or jrcxz) is taken with these flags; none when it is no jcc.
std::optional<bool> branch_taken(const Instruction& instruction, uint64_t eflags);

// Whether it only computes: it neither enters the kernel, nor ends the program, nor is it carried out by the shim
// (rdtsc, cpuid, pause), nor is its result the processor's whim (rdrand, transactions). What it stores and where it
// goes is another matter.
bool only_computes(const Instruction& instruction);

}  // namespace friday
