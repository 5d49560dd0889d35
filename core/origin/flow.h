// What one instruction does with bytes: which of them it writes, and whether it copies them, and from where, or
// computes them. Pure functions of the instruction and of the registers around it.
//
// Knows the instructions by which compilers and the C library copy: moves of all widths, pushes and pops, string
// instructions, exchanges, permutations of vectors, byte swaps, shifts by whole bytes. Of any other instruction it says
// that it computes what it writes, which is true of these too, only less exact.
#pragma once

#include <sys/user.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/stop/instruction.h"

namespace friday {

// Consecutive bytes of memory or of a register.
struct Bytes {
  enum class In : uint8_t {
    memory,
    general,  // the registers rax to r15
    vector,   // the registers zmm0 to zmm31, of which xmm and ymm are the lower parts
  };
  In in = In::memory;
  // The first byte: an address in memory; in registers, 8 times (`general`) or 64 times (`vector`) the number of the
  // register in the order of their encoding, plus the number of the byte in it.
  uint64_t low = 0;
  uint64_t size = 0;

  uint64_t high() const { return low + size; }
  bool operator==(const Bytes&) const = default;
  bool overlaps(const Bytes& other) const { return in == other.in && low < other.high() && other.low < high(); }
  // The bytes that are in both, which must overlap.
  Bytes common(const Bytes& other) const {
    const uint64_t from = std::max(low, other.low);
    return {in, from, std::min(high(), other.high()) - from};
  }
};

// For example "rax", "eax", "byte 3 of rbx", "bytes 8 to 15 of xmm0", "0x7ffc1230".
std::string text_of(const Bytes& bytes);

// Bytes that an instruction writes, all in the same way.
struct Piece {
  enum class How : uint8_t {
    copied,    // they are those of `from`, in reverse order if `swapped`
    extended,  // zeros, or copies of the sign, before or behind a shorter value
    constant,  // the instruction has them, or always has this result (xor eax, eax)
    computed,  // from what the instruction reads: inputs_of()
    recorded,  // the result of a system call, or of an instruction whose result is recorded (rdtsc, cpuid)
    unknown,   // the instruction may write them, and with what is not known here
  };
  Bytes part;
  How how = How::computed;
  Bytes from{};
  bool swapped = false;
};

// Which of the wanted bytes the instruction writes, in order; empty if it writes none. `before` and `after` are the
// registers when it begins and when it is done; a string instruction may have done only some of its repetitions.
std::vector<Piece> pieces_of(const Instruction& instruction, const user_regs_struct& before,
                             const user_regs_struct& after, const Bytes& wanted);

// An instruction that a thread has executed, and the registers when it began. Without an instruction it is not
// understood.
struct Executed {
  std::optional<Instruction> instruction;
  user_regs_struct before{};
};
// A part of some bytes of memory, and where a copy has taken it from.
struct CopiedPart {
  Bytes part, source;
};
// The part of the wanted bytes of memory that several instructions have copied from one piece of memory, by moves of
// any size that may overlap, as memmove makes them. `executed` are the last instructions of the thread, the last one
// being a store of the copy, and `after` are the registers behind it. None if they are no copy, or if it began before
// them.
std::optional<CopiedPart> last_copy(std::span<const Executed> executed, const user_regs_struct& after,
                                    const Bytes& wanted);

// What the instruction reads to compute what it writes: registers and memory, but no registers that only form an
// address, unless the instruction computes one (lea).
std::vector<Bytes> inputs_of(const Instruction& instruction, const user_regs_struct& before);

// The instruction as gdb shows it, in AT&T syntax.
std::string text_of(const Instruction& instruction);

}  // namespace friday
