// What VEX's operations mean as expressions: integers, and vectors of integers. A value is a list of 64-bit words as in
// code.h: narrow values have zeros above. Operations that are not known here (floating point above all) are executed
// for the values that the model gives; the caller notes that the operands were assumed to be these.
#pragma once

#include <array>

#include "core/infer/solver/expression.h"
#include "core/infer/solver/vex.h"

namespace friday::infer {

using Words = std::array<Expr, kMostWords>;

// The result of an operation for these operands, each word of 64 bits; false if the operation is not known. Divisions:
// the caller excludes quotients that do not exist.
bool apply_operation(Expressions& expressions, IROp operation, const std::array<Words, 4>& operands, Words* result);

}  // namespace friday::infer
