// What steps do, concretely. A function for each operation that programs use all the time; the others are executed by
// code that VEX makes of them (function_of_native).
#include <bit>
#include <unordered_map>

#include "core/infer/solver/machine.h"

namespace friday::infer {
namespace {

using WideStep = unsigned __int128;
using SignedWideStep = __int128;

// An operation on one or two numbers of one width, whose result may have another.
template <typename Result, typename Operand, typename Apply>
const Step* unary(const Step& step, Machine&) {
  // Signs are meant to be extended.
  *step.to = static_cast<Result>(Apply{}(static_cast<Operand>(*step.from[0])));  // NOLINT(bugprone-signed-char-misuse)
  return &step + 1;
}
template <typename Result, typename Operand, typename Apply>
const Step* binary(const Step& step, Machine&) {
  *step.to = static_cast<Result>(Apply{}(static_cast<Operand>(*step.from[0]), static_cast<Operand>(*step.from[1])));
  return &step + 1;
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a + b);
  }
};
struct Sub {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a - b);
  }
};
struct Mul {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(static_cast<uint64_t>(a) * b);
  }
};
struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct Not {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct Same {
  template <typename T>
  T operator()(T a) const {
    return a;
  }
};
struct Low {
  template <typename T>
  uint64_t operator()(T a) const {
    return a & 1;
  }
};
struct Not1 {
  template <typename T>
  uint64_t operator()(T a) const {
    return (a & 1) ^ 1;
  }
};
struct Fill {
  template <typename T>
  uint64_t operator()(T a) const {
    return 0 - static_cast<uint64_t>(a & 1);
  }
};
struct Equal {
  template <typename T>
  uint64_t operator()(T a, T b) const {
    return a == b;
  }
};
struct Unequal {
  template <typename T>
  uint64_t operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <typename T>
  uint64_t operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <typename T>
  uint64_t operator()(T a, T b) const {
    return a <= b;
  }
};
struct NotZero {
  template <typename T>
  uint64_t operator()(T a) const {
    return a != 0;
  }
};
struct WordNotZero {
  template <typename T>
  T operator()(T a) const {
    return a != 0 ? static_cast<T>(~T{}) : T{};
  }
};
struct Leftwards {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(a | (0 - a));
  }
};
struct Largest {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Multiply {  // of numbers half as wide as the result
  template <typename T>
  auto operator()(T a, T b) const {
    if constexpr (std::is_signed_v<T>) return static_cast<int64_t>(a) * static_cast<int64_t>(b);
    else return static_cast<uint64_t>(a) * static_cast<uint64_t>(b);
  }
};
template <int kBits>
struct High {
  uint64_t operator()(uint64_t a) const { return a >> kBits; }
};
template <int kBits>
struct HighLow {
  uint64_t operator()(uint64_t high, uint64_t low) const { return high << kBits | (low & mask_of(kBits)); }
};
struct LeadingZeros {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(std::countl_zero(a));
  }
};
struct TrailingZeros {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(std::countr_zero(a));
  }
};
struct Ones {
  template <typename T>
  T operator()(T a) const {
    return static_cast<T>(std::popcount(a));
  }
};

struct ShiftLeft {
  template <typename T>
  T operator()(T a, unsigned by) const {
    return by >= 8 * sizeof(T) ? T{} : static_cast<T>(a << by);
  }
};
struct ShiftRight {
  template <typename T>
  T operator()(T a, unsigned by) const {
    return by >= 8 * sizeof(T) ? T{} : static_cast<T>(a >> by);
  }
};
struct ShiftSigned {
  template <typename T>
  T operator()(T a, unsigned by) const {
    using Signed = std::make_signed_t<T>;
    return static_cast<T>(static_cast<Signed>(a) >> std::min<unsigned>(by, 8 * sizeof(T) - 1));
  }
};
template <typename T, typename Apply>
const Step* shift_step(const Step& step, Machine&) {
  *step.to = Apply{}(static_cast<T>(*step.from[0]), static_cast<unsigned>(*step.from[1] & 0xff));
  return &step + 1;
}

// Products and quotients of 128 bits.
template <bool is_signed>
const Step* multiply_64(const Step& step, Machine&) {
  const uint64_t a = *step.from[0], b = *step.from[1];
  const WideStep product =
      is_signed ? static_cast<WideStep>(static_cast<SignedWideStep>(static_cast<int64_t>(a)) * static_cast<int64_t>(b))
                : static_cast<WideStep>(a) * b;
  step.to[0] = static_cast<uint64_t>(product);
  step.to[1] = static_cast<uint64_t>(product >> 64);
  return &step + 1;
}
// `from[0]` of 64 bits by 32 bits: the quotient below the remainder.
template <bool is_signed>
const Step* divide_32(const Step& step, Machine& machine) {
  const uint64_t number = *step.from[0];
  const auto by = static_cast<uint32_t>(*step.from[1]);
  if (by == 0) return machine.stop(step, Left::division);
  if constexpr (is_signed) {
    const SignedWideStep quotient =
        static_cast<SignedWideStep>(static_cast<int64_t>(number)) / static_cast<int32_t>(by);
    if (quotient != static_cast<int32_t>(quotient)) return machine.stop(step, Left::division);
    const SignedWideStep rest = static_cast<SignedWideStep>(static_cast<int64_t>(number)) % static_cast<int32_t>(by);
    *step.to = static_cast<uint64_t>(static_cast<uint32_t>(rest)) << 32 | static_cast<uint32_t>(quotient);
  } else {
    if (number / by > UINT32_MAX) return machine.stop(step, Left::division);
    *step.to = number % by << 32 | number / by;
  }
  return &step + 1;
}
template <bool is_signed>
const Step* divide_64(const Step& step, Machine& machine) {
  const WideStep number = static_cast<WideStep>(step.from[0][1]) << 64 | step.from[0][0];
  const uint64_t by = *step.from[1];
  if (by == 0) return machine.stop(step, Left::division);
  if constexpr (is_signed) {
    const auto whole = static_cast<SignedWideStep>(number);
    const auto divisor = static_cast<int64_t>(by);
    if (divisor == -1 && whole == static_cast<SignedWideStep>(static_cast<WideStep>(1) << 127))
      return machine.stop(step, Left::division);
    if (whole / divisor != static_cast<int64_t>(whole / divisor)) return machine.stop(step, Left::division);
    step.to[0] = static_cast<uint64_t>(whole / divisor);
    step.to[1] = static_cast<uint64_t>(whole % divisor);
  } else {
    if (number / by > UINT64_MAX) return machine.stop(step, Left::division);
    step.to[0] = static_cast<uint64_t>(number / by);
    step.to[1] = static_cast<uint64_t>(number % by);
  }
  return &step + 1;
}

// Vectors as words.
template <int kWords, typename Apply>
const Step* words_unary(const Step& step, Machine&) {
  for (int i = 0; i < kWords; ++i) step.to[i] = Apply{}(step.from[0][i]);
  return &step + 1;
}
template <int kWords, typename Apply>
const Step* words_binary(const Step& step, Machine&) {
  for (int i = 0; i < kWords; ++i) step.to[i] = Apply{}(step.from[0][i], step.from[1][i]);
  return &step + 1;
}
// Lanes of the type T in vectors.
template <typename T, int kWords, typename Apply>
const Step* lanes(const Step& step, Machine&) {
  constexpr size_t kLanes = kWords * 8 / sizeof(T);
  T a[kLanes], b[kLanes], result[kLanes];
  std::memcpy(a, step.from[0], sizeof(a));
  std::memcpy(b, step.from[1], sizeof(b));
  for (size_t i = 0; i < kLanes; ++i) result[i] = Apply{}(a[i], b[i]);
  std::memcpy(step.to, result, sizeof(result));
  return &step + 1;
}
struct LaneEqual {
  template <typename T>
  T operator()(T a, T b) const {
    return a == b ? static_cast<T>(~T{}) : T{};
  }
};
struct LaneGreater {
  template <typename T>
  T operator()(T a, T b) const {
    return a > b ? static_cast<T>(~T{}) : T{};
  }
};
struct LaneSmaller {
  template <typename T>
  T operator()(T a, T b) const {
    return a < b ? a : b;
  }
};

// Word `word` of the operand; a vector of words of the operands.
template <int kWord>
const Step* word_of(const Step& step, Machine&) {
  *step.to = step.from[0][kWord];
  return &step + 1;
}
const Step* high_low(const Step& step, Machine&) {
  const uint64_t high = *step.from[0], low = *step.from[1];
  step.to[0] = low;
  step.to[1] = high;
  return &step + 1;
}
const Step* four_words(const Step& step, Machine&) {
  const uint64_t words[4] = {*step.from[3], *step.from[2], *step.from[1], *step.from[0]};
  std::memcpy(step.to, words, sizeof(words));
  return &step + 1;
}
template <int kHalf>
const Step* half_of(const Step& step, Machine&) {
  std::memcpy(step.to, step.from[0] + 2 * kHalf, 16);
  return &step + 1;
}
const Step* two_halves(const Step& step, Machine&) {
  std::memcpy(step.to, step.from[1], 16);
  std::memcpy(step.to + 2, step.from[0], 16);
  return &step + 1;
}
// The low kBits of the operand, zeros above, in a vector of 128 bits.
template <int kBits>
const Step* low_bits(const Step& step, Machine&) {
  step.to[0] = step.from[0][0] & mask_of(kBits);
  step.to[1] = 0;
  return &step + 1;
}
template <int kBits>
const Step* set_low_bits(const Step& step, Machine&) {
  const uint64_t low = (step.from[0][0] & ~mask_of(kBits)) | (*step.from[1] & mask_of(kBits));
  step.to[1] = step.from[0][1];
  step.to[0] = low;
  return &step + 1;
}
template <bool kLeft>
const Step* shift_vector(const Step& step, Machine&) {
  const WideStep value = static_cast<WideStep>(step.from[0][1]) << 64 | step.from[0][0];
  const auto by = static_cast<unsigned>(*step.from[1] & 0xff);
  const WideStep result = by >= 128 ? 0 : kLeft ? value << by : value >> by;
  step.to[0] = static_cast<uint64_t>(result);
  step.to[1] = static_cast<uint64_t>(result >> 64);
  return &step + 1;
}
template <int kWords>
const Step* sign_bits(const Step& step, Machine&) {
  uint64_t bits = 0;
  for (int i = 0; i < kWords; ++i)
    bits |= ((step.from[0][i] & 0x8080808080808080ull) * 0x0002040810204081ull >> 56) << (8 * i);
  *step.to = bits;
  return &step + 1;
}

const Step* native_step(const Step& step, Machine& machine) {
  const auto& native = *static_cast<const NativeStep*>(step.extra);
  for (int i = 0; i < native.signature.count; ++i) {
    const int words = std::max(1, native.signature.operands[i] / 64);
    std::memcpy(machine.bench.operand(i), step.from[i], static_cast<size_t>(words) * 8);
  }
  native.operation->run(machine.bench);
  if (native.signature.result >= 64) {
    std::memcpy(step.to, machine.bench.result(), native.signature.result / 8);
  } else {
    *step.to = *machine.bench.result() & mask_of(native.signature.result);
  }
  return &step + 1;
}

using Functions = std::unordered_map<int, Execute>;

// The eight operations VEX numbers consecutively for 8, 16, 32 and 64 bits.
template <template <typename> typename Make>
void for_widths(Functions& functions, IROp first) {
  functions[first] = Make<uint8_t>::step;
  functions[first + 1] = Make<uint16_t>::step;
  functions[first + 2] = Make<uint32_t>::step;
  functions[first + 3] = Make<uint64_t>::step;
}
template <typename Apply>
struct OfWidth {
  template <typename T>
  struct Binary {
    static constexpr Execute step = binary<T, T, Apply>;
  };
  template <typename T>
  struct Unary {
    static constexpr Execute step = unary<T, T, Apply>;
  };
  template <typename T>
  struct Compare {
    static constexpr Execute step = binary<uint64_t, T, Apply>;
  };
  template <typename T>
  struct Test {
    static constexpr Execute step = unary<uint64_t, T, Apply>;
  };
  template <typename T>
  struct Shift {
    static constexpr Execute step = shift_step<T, Apply>;
  };
};

void add_arithmetic(Functions& functions) {
  for_widths<OfWidth<Add>::Binary>(functions, Iop_Add8);
  for_widths<OfWidth<Sub>::Binary>(functions, Iop_Sub8);
  for_widths<OfWidth<Mul>::Binary>(functions, Iop_Mul8);
  for_widths<OfWidth<Or>::Binary>(functions, Iop_Or8);
  for_widths<OfWidth<And>::Binary>(functions, Iop_And8);
  for_widths<OfWidth<Xor>::Binary>(functions, Iop_Xor8);
  for_widths<OfWidth<Not>::Unary>(functions, Iop_Not8);
  for_widths<OfWidth<ShiftLeft>::Shift>(functions, Iop_Shl8);
  for_widths<OfWidth<ShiftRight>::Shift>(functions, Iop_Shr8);
  for_widths<OfWidth<ShiftSigned>::Shift>(functions, Iop_Sar8);
  for (const IROp first : {Iop_CmpEQ8, Iop_CasCmpEQ8}) for_widths<OfWidth<Equal>::Compare>(functions, first);
  for (const IROp first : {Iop_CmpNE8, Iop_CasCmpNE8, Iop_ExpCmpNE8})
    for_widths<OfWidth<Unequal>::Compare>(functions, first);
  for_widths<OfWidth<NotZero>::Test>(functions, Iop_CmpNEZ8);
  for_widths<OfWidth<Leftwards>::Unary>(functions, Iop_Left8);
  functions[Iop_CmpwNEZ32] = unary<uint32_t, uint32_t, WordNotZero>;
  functions[Iop_CmpwNEZ64] = unary<uint64_t, uint64_t, WordNotZero>;
  functions[Iop_CmpLT32S] = binary<uint64_t, int32_t, Less>;
  functions[Iop_CmpLT64S] = binary<uint64_t, int64_t, Less>;
  functions[Iop_CmpLE32S] = binary<uint64_t, int32_t, LessEqual>;
  functions[Iop_CmpLE64S] = binary<uint64_t, int64_t, LessEqual>;
  functions[Iop_CmpLT32U] = binary<uint64_t, uint32_t, Less>;
  functions[Iop_CmpLT64U] = binary<uint64_t, uint64_t, Less>;
  functions[Iop_CmpLE32U] = binary<uint64_t, uint32_t, LessEqual>;
  functions[Iop_CmpLE64U] = binary<uint64_t, uint64_t, LessEqual>;
  functions[Iop_Max32U] = binary<uint32_t, uint32_t, Largest>;
}

void add_multiplication(Functions& functions) {
  functions[Iop_MullS8] = binary<uint16_t, int8_t, Multiply>;
  functions[Iop_MullS16] = binary<uint32_t, int16_t, Multiply>;
  functions[Iop_MullS32] = binary<uint64_t, int32_t, Multiply>;
  functions[Iop_MullU8] = binary<uint16_t, uint8_t, Multiply>;
  functions[Iop_MullU16] = binary<uint32_t, uint16_t, Multiply>;
  functions[Iop_MullU32] = binary<uint64_t, uint32_t, Multiply>;
  functions[Iop_MullS64] = multiply_64<true>;
  functions[Iop_MullU64] = multiply_64<false>;
  functions[Iop_DivModU64to32] = divide_32<false>;
  functions[Iop_DivModS64to32] = divide_32<true>;
  functions[Iop_DivModU128to64] = divide_64<false>;
  functions[Iop_DivModS128to64] = divide_64<true>;
  for (const IROp op : {Iop_Clz64, Iop_ClzNat64}) functions[op] = unary<uint64_t, uint64_t, LeadingZeros>;
  for (const IROp op : {Iop_Clz32, Iop_ClzNat32}) functions[op] = unary<uint32_t, uint32_t, LeadingZeros>;
  for (const IROp op : {Iop_Ctz64, Iop_CtzNat64}) functions[op] = unary<uint64_t, uint64_t, TrailingZeros>;
  for (const IROp op : {Iop_Ctz32, Iop_CtzNat32}) functions[op] = unary<uint32_t, uint32_t, TrailingZeros>;
  functions[Iop_PopCount64] = unary<uint64_t, uint64_t, Ones>;
  functions[Iop_PopCount32] = unary<uint32_t, uint32_t, Ones>;
}

void add_conversions(Functions& functions) {
  functions[Iop_8Sto16] = unary<uint16_t, int8_t, Same>;
  functions[Iop_8Sto32] = unary<uint32_t, int8_t, Same>;
  functions[Iop_8Sto64] = unary<uint64_t, int8_t, Same>;
  functions[Iop_16Sto32] = unary<uint32_t, int16_t, Same>;
  functions[Iop_16Sto64] = unary<uint64_t, int16_t, Same>;
  functions[Iop_32Sto64] = unary<uint64_t, int32_t, Same>;
  for (const IROp op : {Iop_64to8, Iop_32to8, Iop_16to8}) functions[op] = unary<uint8_t, uint64_t, Same>;
  for (const IROp op : {Iop_64to16, Iop_32to16}) functions[op] = unary<uint16_t, uint64_t, Same>;
  functions[Iop_64to32] = unary<uint32_t, uint64_t, Same>;
  functions[Iop_16HIto8] = unary<uint64_t, uint64_t, High<8>>;
  functions[Iop_32HIto16] = unary<uint64_t, uint64_t, High<16>>;
  functions[Iop_64HIto32] = unary<uint64_t, uint64_t, High<32>>;
  functions[Iop_8HLto16] = binary<uint64_t, uint64_t, HighLow<8>>;
  functions[Iop_16HLto32] = binary<uint64_t, uint64_t, HighLow<16>>;
  functions[Iop_32HLto64] = binary<uint64_t, uint64_t, HighLow<32>>;
  functions[Iop_Not1] = unary<uint64_t, uint64_t, Not1>;
  functions[Iop_And1] = binary<uint64_t, uint64_t, And>;
  functions[Iop_Or1] = binary<uint64_t, uint64_t, Or>;
  for (const IROp op : {Iop_32to1, Iop_64to1}) functions[op] = unary<uint64_t, uint64_t, Low>;
  functions[Iop_1Sto8] = unary<uint8_t, uint64_t, Fill>;
  functions[Iop_1Sto16] = unary<uint16_t, uint64_t, Fill>;
  functions[Iop_1Sto32] = unary<uint32_t, uint64_t, Fill>;
  functions[Iop_1Sto64] = unary<uint64_t, uint64_t, Fill>;
}

void add_pieces(Functions& functions) {
  for (const IROp op : {Iop_128to64, Iop_V128to64, Iop_V256to64_0}) functions[op] = word_of<0>;
  for (const IROp op : {Iop_128HIto64, Iop_V128HIto64, Iop_V256to64_1}) functions[op] = word_of<1>;
  functions[Iop_V256to64_2] = word_of<2>;
  functions[Iop_V256to64_3] = word_of<3>;
  for (const IROp op : {Iop_64HLto128, Iop_64HLtoV128}) functions[op] = high_low;
  functions[Iop_64x4toV256] = four_words;
  functions[Iop_V256toV128_0] = half_of<0>;
  functions[Iop_V256toV128_1] = half_of<1>;
  functions[Iop_V128HLtoV256] = two_halves;
  for (const IROp op : {Iop_64UtoV128, Iop_ZeroHI64ofV128}) functions[op] = low_bits<64>;
  for (const IROp op : {Iop_32UtoV128, Iop_ZeroHI96ofV128}) functions[op] = low_bits<32>;
  functions[Iop_ZeroHI112ofV128] = low_bits<16>;
  functions[Iop_ZeroHI120ofV128] = low_bits<8>;
  functions[Iop_SetV128lo64] = set_low_bits<64>;
  functions[Iop_SetV128lo32] = set_low_bits<32>;
  functions[Iop_V128to32] = unary<uint32_t, uint64_t, Same>;
  functions[Iop_ShlV128] = shift_vector<true>;
  functions[Iop_ShrV128] = shift_vector<false>;
  functions[Iop_GetMSBs8x8] = sign_bits<1>;
  functions[Iop_GetMSBs8x16] = sign_bits<2>;
}

template <int kWords>
void add_vector_words(Functions& functions, IROp bit_and, IROp bit_or, IROp bit_xor, IROp bit_not) {
  functions[bit_and] = words_binary<kWords, And>;
  functions[bit_or] = words_binary<kWords, Or>;
  functions[bit_xor] = words_binary<kWords, Xor>;
  functions[bit_not] = words_unary<kWords, Not>;
}

void add_lanes(Functions& functions) {
  add_vector_words<2>(functions, Iop_AndV128, Iop_OrV128, Iop_XorV128, Iop_NotV128);
  add_vector_words<4>(functions, Iop_AndV256, Iop_OrV256, Iop_XorV256, Iop_NotV256);
  functions[Iop_CmpEQ8x16] = lanes<uint8_t, 2, LaneEqual>;
  functions[Iop_CmpEQ16x8] = lanes<uint16_t, 2, LaneEqual>;
  functions[Iop_CmpEQ32x4] = lanes<uint32_t, 2, LaneEqual>;
  functions[Iop_CmpEQ8x32] = lanes<uint8_t, 4, LaneEqual>;
  functions[Iop_CmpGT8Sx16] = lanes<int8_t, 2, LaneGreater>;
  functions[Iop_CmpGT32Sx4] = lanes<int32_t, 2, LaneGreater>;
  functions[Iop_Min8Ux16] = lanes<uint8_t, 2, LaneSmaller>;
  functions[Iop_Min8Ux32] = lanes<uint8_t, 4, LaneSmaller>;
  functions[Iop_Max8Ux16] = lanes<uint8_t, 2, Largest>;
  functions[Iop_Add8x16] = lanes<uint8_t, 2, Add>;
  functions[Iop_Add16x8] = lanes<uint16_t, 2, Add>;
  functions[Iop_Add32x4] = lanes<uint32_t, 2, Add>;
  functions[Iop_Add64x2] = lanes<uint64_t, 2, Add>;
  functions[Iop_Sub8x16] = lanes<uint8_t, 2, Sub>;
  functions[Iop_Sub32x4] = lanes<uint32_t, 2, Sub>;
  functions[Iop_Sub64x2] = lanes<uint64_t, 2, Sub>;
}

}  // namespace

Execute function_of(IROp operation) {
  static const Functions functions = [] {
    Functions made;
    add_arithmetic(made);
    add_multiplication(made);
    add_conversions(made);
    add_pieces(made);
    add_lanes(made);
    return made;
  }();
  const auto found = functions.find(operation);
  return found == functions.end() ? nullptr : found->second;
}

Execute function_of_native() { return native_step; }

}  // namespace friday::infer
