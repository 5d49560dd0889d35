// Integer operations with the processor's own flags: each operation executes the real instruction, on the tracer's
// processor and on registers only, so that flags which the manual leaves undefined have the value that the program
// would see. Pure functions.
#pragma once

#include <cstdint>
#include <optional>

namespace friday {

enum class AluOperation : uint8_t {
  // With two operands:
  add,
  adc,
  sub,
  sbb,
  and_,
  or_,
  xor_,
  cmp,
  // With one operand:
  inc,
  dec,
  neg,
  not_,
  // With a count, of which the processor ignores the upper bits:
  shl,
  shr,
  sar,
  rol,
  ror,
  rcl,
  rcr,
  // With the number of a bit inside the operand; not available for width 8:
  bts,
  btr,
  btc,
};

struct AluResult {
  uint64_t value = 0;   // zero-extended from the width
  uint64_t eflags = 0;  // the flags passed in, with the arithmetic flags replaced
};

// `width` is in bits: 8, 16, 32 or 64.
AluResult alu(AluOperation operation, unsigned width, uint64_t destination, uint64_t source, uint64_t eflags);

}  // namespace friday
