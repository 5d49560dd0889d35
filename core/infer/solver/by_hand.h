// Instructions that VEX does not translate and that programs use all the same: saving and restoring of vector registers
// by the dynamic linker (xsave, xrstor and their kin), xgetbv, and the bases of FS and GS. Of the extended state, the
// components x87 (in its initial state), SSE and AVX are kept; what the others are the solver does not know and leaves
// alone.
#pragma once

#include "core/infer/solver/blocks.h"
#include "core/infer/solver/symbolic.h"

namespace friday::infer {

class ByHand {
 public:
  enum class Done : uint8_t { yes, no_memory, unknown };
  explicit ByHand(Symbolic& symbolic) : symbolic_(symbolic), state_(symbolic.machine().state) {}
  Done execute(const Translated& block);

 private:
  struct Operand {
    bool known = false;
    uint64_t address = 0;
  };
  Operand memory_operand(const Translated& block);
  Done save(uint64_t address, bool compact);
  Done restore(uint64_t address);
  Done base(const Translated& block, bool write);
  uint64_t plain(int offset, uint64_t address);
  bool store(uint64_t address, uint64_t value, int bytes);

  Symbolic& symbolic_;
  GuestState& state_;
};

}  // namespace friday::infer
