// What a seccomp filter may do with a system call, found without its arguments. Pure functions of the filter's code,
// free of the rest of the shim, so that a test can hold them beside an interpreter (tests/unit/shim_filter_test.cc).
//
// Such a filter is a program of the classic Berkeley Packet Filter, which can only jump forward
// (Documentation/userspace-api/seccomp_filter.rst, check_load_and_stores() in net/core/filter.c). So one pass over its
// instructions is enough: at each of them stands what is known of the two registers there, whichever way led to it.
// What a call's arguments and addresses are is not known, and both ways of a branch on them are taken.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

namespace friday::shim {

// Bits: what the filter may say.
enum FilterOutcome : unsigned {
  kFilterAllows = 1,  // the call is made (SECCOMP_RET_ALLOW and _LOG)
  kFilterFails = 2,   // it fails, and is not made (SECCOMP_RET_ERRNO)
  kFilterKills = 4,   // the process is killed (SECCOMP_RET_KILL_PROCESS)
  kFilterOther = 8,   // anything else: a signal, a tracer, a supervisor, the end of the thread, or it cannot be told
};

struct FilterValue {
  uint32_t value;
  bool known;
};
// Of one instruction: whether it is reached, and the registers then.
struct FilterState {
  bool reached;
  FilterValue a, x;
};

inline void filter_join(FilterValue& into, const FilterValue& from) {
  into.known = into.known && from.known && into.value == from.value;
}

inline void filter_reach(FilterState& at, const FilterValue& a, const FilterValue& x) {
  if (!at.reached) at = {true, a, x};
  else filter_join(at.a, a), filter_join(at.x, x);
}

inline unsigned filter_outcome_of(uint32_t returned) {
  switch (returned & SECCOMP_RET_ACTION_FULL) {
    case SECCOMP_RET_ALLOW:
    case SECCOMP_RET_LOG: return kFilterAllows;
    case SECCOMP_RET_ERRNO: return kFilterFails;
    case SECCOMP_RET_KILL_PROCESS: return kFilterKills;
    default: return kFilterOther;
  }
}

// What the word at this offset of struct seccomp_data is.
inline FilterValue filter_word(uint32_t offset, const FilterValue& number) {
  if (offset == offsetof(seccomp_data, nr)) return number;
  if (offset == offsetof(seccomp_data, arch)) return {AUDIT_ARCH_X86_64, true};
  return {0, false};
}

// False: the operation may divide by zero, by which a filter returns 0.
inline bool filter_compute(uint16_t operation, FilterValue& a, const FilterValue& by) {
  const bool divides = operation == BPF_DIV;
  if (divides && (!by.known || by.value == 0)) return false;
  if (operation == BPF_NEG) {
    a.value = 0 - a.value;
    return true;
  }
  a.known = a.known && by.known;
  switch (operation) {
    case BPF_ADD: a.value += by.value; return true;
    case BPF_SUB: a.value -= by.value; return true;
    case BPF_MUL: a.value *= by.value; return true;
    case BPF_DIV: a.value /= by.value; return true;
    case BPF_AND: a.value &= by.value; return true;
    case BPF_OR: a.value |= by.value; return true;
    case BPF_XOR: a.value ^= by.value; return true;
    case BPF_LSH: a = {by.value < 32 ? a.value << by.value : 0, a.known && by.value < 32}; return true;
    case BPF_RSH: a = {by.value < 32 ? a.value >> by.value : 0, a.known && by.value < 32}; return true;
    default: a.known = false; return true;
  }
}

inline bool filter_holds(uint16_t condition, uint32_t a, uint32_t than) {
  switch (condition) {
    case BPF_JEQ: return a == than;
    case BPF_JGT: return a > than;
    case BPF_JGE: return a >= than;
    default: return (a & than) != 0;  // BPF_JSET
  }
}

// What the filter may do with calls of this number, of all numbers if it is not known. `states`: room for one for each
// of the instructions.
inline unsigned filter_outcomes(const sock_filter* code, unsigned length, FilterValue number, FilterState* states) {
  unsigned found = 0;
  for (unsigned n = 0; n < length; n++) states[n].reached = false;
  const auto reach = [&](uint64_t at, const FilterValue& a, const FilterValue& x) {
    if (at < length) filter_reach(states[at], a, x);
    else found |= kFilterOther;  // the kernel refuses such a filter
  };
  if (length) states[0] = {true, {0, true}, {0, true}};
  for (unsigned n = 0; n < length; n++) {
    if (!states[n].reached) continue;
    auto [reached, a, x] = states[n];
    const sock_filter& it = code[n];
    const FilterValue given = {it.k, true};
    const FilterValue& operand = BPF_SRC(it.code) == BPF_X ? x : given;
    switch (BPF_CLASS(it.code)) {
      case BPF_RET:
        found |= BPF_RVAL(it.code) == BPF_K ? filter_outcome_of(it.k)
                 : a.known                  ? filter_outcome_of(a.value)
                                            : unsigned{kFilterOther};
        continue;
      case BPF_LD:
      case BPF_LDX: {
        const uint16_t mode = BPF_MODE(it.code);
        const FilterValue loaded = mode == BPF_ABS   ? filter_word(it.k, number)
                                   : mode == BPF_IMM ? given
                                   : mode == BPF_LEN ? FilterValue{sizeof(seccomp_data), true}
                                                     : FilterValue{0, false};
        (BPF_CLASS(it.code) == BPF_LD ? a : x) = loaded;
        break;
      }
      case BPF_ST:
      case BPF_STX: break;
      case BPF_MISC:
        if (BPF_MISCOP(it.code) == BPF_TAX) x = a;
        else a = x;
        break;
      case BPF_ALU:
        if (!filter_compute(BPF_OP(it.code), a, operand)) found |= kFilterOther;
        break;
      case BPF_JMP: {
        if (BPF_OP(it.code) == BPF_JA) {
          reach(n + uint64_t{1} + it.k, a, x);
          continue;
        }
        const bool known = a.known && operand.known, holds = filter_holds(BPF_OP(it.code), a.value, operand.value);
        if (!known || holds) reach(n + uint64_t{1} + it.jt, a, x);
        if (!known || !holds) reach(n + uint64_t{1} + it.jf, a, x);
        continue;
      }
      default: break;
    }
    reach(n + uint64_t{1}, a, x);
  }
  return found;
}

}  // namespace friday::shim
