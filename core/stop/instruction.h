// One decoded instruction of a node, with the queries that the stop engine needs. Pure functions of bytes and
// registers.
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
  uint64_t address = 0;  // its address in the program
  ZydisDecodedInstruction decoded{};
  std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands{};
  std::array<std::byte, 16> bytes{};

  uint64_t next() const { return address + decoded.length; }
  std::span<const std::byte> code() const { return {bytes.data(), decoded.length}; }
  const ZydisDecodedOperand& operand(unsigned i) const { return operands[i]; }
};

// Decodes the instruction at the start of `bytes`, which lie at `address`. None if they are not a valid instruction.
std::optional<Instruction> decode_instruction(Addr address, std::span<const std::byte> bytes);

// The address of a memory operand, given these registers. For rip-relative operands the instruction's own address is
// used and `registers.rip` is ignored.
uint64_t effective_address(const Instruction& instruction, const ZydisDecodedOperand& operand,
                           const user_regs_struct& registers);

// The rip-relative memory operand, or nullptr if there is none.
const ZydisDecodedOperand* rip_operand(const Instruction& instruction);

// Whether a conditional branch (jcc; not loop or jrcxz) is taken with these flags; none for any other instruction.
std::optional<bool> branch_taken(const Instruction& instruction, uint64_t eflags);

// Whether the instruction has a prefix by which the processor repeats it (rep, repe, repne).
bool repeats(const Instruction& instruction);

// Whether the instruction only computes. False if it enters the kernel, ends the program, is handled by the shim
// (rdtsc, cpuid, pause), or has a result that execution does not determine (rdrand, transactions). It may store and
// branch.
bool only_computes(const Instruction& instruction);

}  // namespace friday
