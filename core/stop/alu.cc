#include "core/stop/alu.h"

#include "core/base/check.h"
#include "core/stop/registers.h"

namespace friday {

namespace {

// Transfers the flags through the stack, below the red zone because the compiler does not know about the push.
#define WITH_FLAGS(instruction)                                      \
  "lea -128(%%rsp), %%rsp\n\tpush %[flags]\n\tpopfq\n\t" instruction \
  "\n\tpushfq\n\tpop %[flags]\n\t"                                   \
  "lea 128(%%rsp), %%rsp"

#define TWO_OPERANDS(name)                                              \
  template <typename T>                                                 \
  void run_##name(T& destination, T source, uint64_t& flags) {          \
    asm volatile(WITH_FLAGS(#name " %[source], %[destination]")         \
                 : [destination] "+q"(destination), [flags] "+r"(flags) \
                 : [source] "q"(source)                                 \
                 : "cc");                                               \
  }
#define ONE_OPERAND(name)                                                                                              \
  template <typename T>                                                                                                \
  void run_##name(T& destination, T, uint64_t& flags) {                                                                \
    asm volatile(WITH_FLAGS(#name " %[destination]") : [destination] "+q"(destination), [flags] "+r"(flags) : : "cc"); \
  }
#define BY_COUNT(name)                                                  \
  template <typename T>                                                 \
  void run_##name(T& destination, T source, uint64_t& flags) {          \
    asm volatile(WITH_FLAGS(#name " %%cl, %[destination]")              \
                 : [destination] "+q"(destination), [flags] "+r"(flags) \
                 : "c"(static_cast<uint8_t>(source))                    \
                 : "cc");                                               \
  }

TWO_OPERANDS(add)
TWO_OPERANDS(adc)
TWO_OPERANDS(sub)
TWO_OPERANDS(sbb)
TWO_OPERANDS(and)
TWO_OPERANDS(or)
TWO_OPERANDS(xor)
TWO_OPERANDS(cmp)
TWO_OPERANDS(bts)
TWO_OPERANDS(btr)
TWO_OPERANDS(btc)
BY_COUNT(shl)
BY_COUNT(shr)
BY_COUNT(sar)
BY_COUNT(rol)
BY_COUNT(ror)
BY_COUNT(rcl)
BY_COUNT(rcr)

// For these instructions, the assembler derives the operand size from the register.
ONE_OPERAND(inc)
ONE_OPERAND(dec)
ONE_OPERAND(neg)
ONE_OPERAND(not )

template <typename T>
void run_bit(AluOperation operation, T& destination, T source, uint64_t& flags) {
  if constexpr (sizeof(T) == 1) {
    FRIDAY_CHECK(false) << "bit operation of width 8";
  } else {
    switch (operation) {
      case AluOperation::bts: return run_bts(destination, source, flags);
      case AluOperation::btr: return run_btr(destination, source, flags);
      default: return run_btc(destination, source, flags);
    }
  }
}

template <typename T>
void run(AluOperation operation, T& destination, T source, uint64_t& flags) {
  switch (operation) {
    case AluOperation::add: return run_add(destination, source, flags);
    case AluOperation::adc: return run_adc(destination, source, flags);
    case AluOperation::sub: return run_sub(destination, source, flags);
    case AluOperation::sbb: return run_sbb(destination, source, flags);
    case AluOperation::and_: return run_and(destination, source, flags);
    case AluOperation::or_: return run_or(destination, source, flags);
    case AluOperation::xor_: return run_xor(destination, source, flags);
    case AluOperation::cmp: return run_cmp(destination, source, flags);
    case AluOperation::inc: return run_inc(destination, source, flags);
    case AluOperation::dec: return run_dec(destination, source, flags);
    case AluOperation::neg: return run_neg(destination, source, flags);
    case AluOperation::not_: return run_not(destination, source, flags);
    case AluOperation::shl: return run_shl(destination, source, flags);
    case AluOperation::shr: return run_shr(destination, source, flags);
    case AluOperation::sar: return run_sar(destination, source, flags);
    case AluOperation::rol: return run_rol(destination, source, flags);
    case AluOperation::ror: return run_ror(destination, source, flags);
    case AluOperation::rcl: return run_rcl(destination, source, flags);
    case AluOperation::rcr: return run_rcr(destination, source, flags);
    case AluOperation::bts:
    case AluOperation::btr:
    case AluOperation::btc: return run_bit(operation, destination, source, flags);
  }
}

template <typename T>
AluResult run_as(AluOperation operation, uint64_t destination, uint64_t source, uint64_t eflags) {
  auto value = static_cast<T>(destination);
  // TF and DF must stay clear, because they would affect the tracer
  uint64_t flags = (eflags & arithmetic_flags) | 0x202;
  run<T>(operation, value, static_cast<T>(source), flags);
  return {value, (eflags & ~arithmetic_flags) | (flags & arithmetic_flags)};
}

}  // namespace

AluResult alu(AluOperation operation, unsigned width, uint64_t destination, uint64_t source, uint64_t eflags) {
  switch (width) {
    case 8: return run_as<uint8_t>(operation, destination, source, eflags);
    case 16: return run_as<uint16_t>(operation, destination, source, eflags);
    case 32: return run_as<uint32_t>(operation, destination, source, eflags);
    default: return run_as<uint64_t>(operation, destination, source, eflags);
  }
}

}  // namespace friday
