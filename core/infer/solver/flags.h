// The flags of x86-64 as expressions. VEX keeps the last operation that set them and its operands (the "thunk": CC_OP,
// CC_DEP1, CC_DEP2, CC_NDEP) and computes flags when they are asked for, by helper functions; here are the same
// functions over expressions. They are compared with VEX's own in tests/unit/infer_flags_test.cc.
#pragma once

#include "core/infer/solver/expression.h"

namespace friday::infer {

struct Thunk {
  uint64_t operation = 0;                             // CC_OP
  Expr first = kNone, second = kNone, third = kNone;  // CC_DEP1, CC_DEP2, CC_NDEP: 64 bits each
};

// Each of 1 bit.
struct Flags {
  Expr carry, parity, adjust, zero, sign, overflow;
};

// False if the operation is not known.
bool flags_of(Expressions& expressions, const Thunk& thunk, Flags* flags);
// amd64g_calculate_condition() of libvex, for the condition codes of the machine (0: overflow ... 15: not less or
// equal); 1 bit.
Expr condition_of(Expressions& expressions, uint64_t condition, const Thunk& thunk);
// amd64g_calculate_rflags_all() and _c(): 64 bits. None if the operation is not known.
Expr all_flags_of(Expressions& expressions, const Thunk& thunk);
Expr carry_of(Expressions& expressions, const Thunk& thunk);

}  // namespace friday::infer
