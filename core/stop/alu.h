// Integer operations with the processor's own flags: each runs as the very instruction on the tracer's processor, on
// registers, so that undefined flags come out as the program would see them. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace friday {

enum class AluOperation : uint8_t {
  add,
  adc,
  sub,
  sbb,
  and_,
  or_,
  xor_,
  cmp,  // two operands
  inc,
  dec,
  neg,
  not_,  // one operand
  shl,
  shr,
  sar,
  rol,
  ror,
  rcl,
  rcr,  // by a count (of which the processor masks the upper bits)
  bts,
  btr,
  btc,  // by a bit number inside the operand; not for width 8
};

struct AluResult {
  uint64_t value = 0;   // zero-extended from the width
  uint64_t eflags = 0;  // the flags given, with the arithmetic ones replaced
};

// `width` in bits: 8, 16, 32 or 64.
AluResult alu(AluOperation operation, unsigned width, uint64_t destination, uint64_t source, uint64_t eflags);

}  // namespace friday
