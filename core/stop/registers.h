// Access to general registers of user_regs_struct by the numbers of other systems: the instruction encoding (Zydis ids
// 0-15, with widths), and gdb's remote numbering for amd64, which agent bytecode uses. Pure functions.
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <optional>

#include <Zydis/Zydis.h>

#include "core/base/ids.h"

namespace friday {

// The arithmetic flags: CF PF AF ZF SF OF.
constexpr uint64_t arithmetic_flags = 0x8d5;
constexpr uint64_t direction_flag = 0x400;

// Register `id` in encoding order: rax rcx rdx rbx rsp rbp rsi rdi r8..r15.
uint64_t general_register(const user_regs_struct& registers, unsigned id);
void set_general_register(user_regs_struct& registers, unsigned id, uint64_t value);

// The register with gdb's remote number: 0-15 general registers, 16 rip, 17 eflags, 18-23 segments, 57 orig_rax, 58
// fs_base, 59 gs_base.
std::optional<uint64_t> remote_register(const user_regs_struct& registers, unsigned number);

// A general register, rip or segment selector, zero-extended; none for any other register.
std::optional<uint64_t> read_register(const user_regs_struct& registers, ZydisRegister reg);
// Writes as the processor does: a 32-bit write clears the upper half; 8- and 16-bit writes keep the other bits.
bool write_register(user_regs_struct& registers, ZydisRegister reg, uint64_t value);

}  // namespace friday
