// Conditions that a sum of bytes with constant factors is some number, modulo a power of two: checksums like sum = sum
// * 31 + byte. Solvers of bits are bad at them. Here four bytes at a time are varied: the sums of two of them that can
// occur are kept, and what the other two leave is looked up ("meet in the middle"), which finds a solution of 32 bits
// in most tries.
#pragma once

#include <chrono>
#include <optional>
#include <random>
#include <span>
#include <unordered_map>

#include "core/infer/solver/expression.h"

namespace friday::infer {

struct LinearForm {
  std::unordered_map<uint32_t, uint64_t> factors;  // of symbols
  uint64_t constant = 0;
  int bits = 0;
};

// None if the expression is not of this form.
std::optional<LinearForm> linear_form(Expressions& expressions, Expr expression);

// Changes `model`, under which `broken` (one of the conditions) does not hold, such that all conditions hold. False if
// that is not found within some tries; then it is unchanged.
bool solve_linear(Expressions& expressions, std::span<const Expr> conditions, Expr broken, Model* model,
                  std::mt19937& random);

}  // namespace friday::infer
