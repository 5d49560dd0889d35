// The loops of a function, from its control flow: natural loops (Aho, Lam, Sethi, Ullman, Compilers, section 9.6.6),
// one for each branch back. Code that a compiler has moved behind the function's end and that jumps back is no loop,
// though its addresses look like one.
#pragma once

#include <Zydis/Zydis.h>

#include <cstdint>
#include <span>
#include <vector>

namespace friday {

// What the control flow needs to know of an instruction.
struct FlowInstruction {
  enum class Kind : uint8_t {
    plain,   // the next instruction follows; so it does behind a call
    branch,  // the next instruction or the one at `target`
    jump,    // the one at `target`
    leaves,  // another, not known: an indirect jump
    ends,    // none
  };
  uint64_t address;
  uint8_t length;
  Kind kind = Kind::plain;
  bool call = false;
  bool padding = false;  // a nop, by which compilers align what follows
  uint64_t target = 0;   // of a direct branch or jump
};

FlowInstruction flow_instruction(uint64_t address, const ZydisDecodedInstruction& decoded);

// Consecutive instructions of a loop, as their indices in the function.
struct LoopPart {
  size_t first, last;   // `last`: behind the last one
  bool each_iteration;  // whether each iteration executes them
};

struct NaturalLoop {
  std::vector<LoopPart> parts{};  // in order
  uint64_t size = 0;              // of all parts, in bytes
  bool calls = false;
};

// The loops of at most `most` bytes; none of a function of more than a million instructions. `code`: the instructions
// of a function, from its start on without a gap. An indirect jump is taken to lead to each place to which nothing else
// leads, but to no padding.
std::vector<NaturalLoop> natural_loops(std::span<const FlowInstruction> code, uint64_t most);

}  // namespace friday
