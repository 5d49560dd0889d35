#include "core/origin/flow.h"

#include <functional>
#include <iterator>

#include <fmt/format.h>

#include "core/stop/registers.h"

namespace friday {
namespace {

using In = Bytes::In;
using Taken = Piece::How;
using Operand = ZydisDecodedOperand;

constexpr uint64_t kGeneral = 8, kVector = 64;  // bytes of a register
constexpr uint64_t kLane = 16;                  // of a vector: most permutations work in each of them alone

// Where one written byte comes from.
struct Source {
  Taken how = Taken::computed;
  Bytes from{};       // one byte, if `how` is `copied`
  bool kept = false;  // it is not written after all
};

// Consecutive bytes that an instruction writes.
struct Written {
  Bytes bytes;
  std::function<Source(uint64_t)> source;  // of byte number i
};

const Source kKept{.kept = true};

Source copy_of(const Bytes& from, uint64_t byte) { return {Taken::copied, {from.in, from.low + byte, 1}}; }

// The bytes of a value, and behind them an extension.
std::function<Source(uint64_t)> copied(const Bytes& from) {
  return [from](uint64_t i) { return i < from.size ? copy_of(from, i) : Source{Taken::extended}; };
}

Bytes first_of(const Bytes& bytes, uint64_t size) { return {bytes.in, bytes.low, std::min(bytes.size, size)}; }

// ---- Operands

bool is_vector(ZydisRegister reg) {
  const auto kind = ZydisRegisterGetClass(reg);
  return kind == ZYDIS_REGCLASS_XMM || kind == ZYDIS_REGCLASS_YMM || kind == ZYDIS_REGCLASS_ZMM;
}

// A register of those that are followed; none for flags, masks, segments, the x87 stack.
std::optional<Bytes> bytes_of(ZydisRegister reg) {
  const auto size = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, reg) / 8u;
  switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR8:
    case ZYDIS_REGCLASS_GPR16:
    case ZYDIS_REGCLASS_GPR32:
    case ZYDIS_REGCLASS_GPR64: {
      const auto whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg);
      const bool high = reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH;
      return Bytes{In::general, kGeneral * static_cast<uint8_t>(ZydisRegisterGetId(whole)) + (high ? 1 : 0), size};
    }
    case ZYDIS_REGCLASS_XMM:
    case ZYDIS_REGCLASS_YMM:
    case ZYDIS_REGCLASS_ZMM: return Bytes{In::vector, kVector * static_cast<uint8_t>(ZydisRegisterGetId(reg)), size};
    default: return std::nullopt;
  }
}

class Reader {
 public:
  Reader(const Instruction& instruction, const user_regs_struct& before, const user_regs_struct& after)
      : instruction_(instruction), before_(before), after_(after) {
    for (unsigned i = 0; i < instruction.decoded.operand_count; i++) {
      const Operand& operand = instruction.operand(i);
      if (operand.encoding == ZYDIS_OPERAND_ENCODING_MASK) masked_ |= operand.reg.value != ZYDIS_REGISTER_K0;
      else if (count_ < std::size(data_)) data_[count_++] = &operand;
    }
  }

  std::vector<Written> run();

 private:
  ZydisMnemonic mnemonic() const { return instruction_.decoded.mnemonic; }
  // Operand i, not counting masks.
  const Operand& operand(unsigned i) const { return *data_[i]; }
  bool is_memory(unsigned i) const { return i < count_ && operand(i).type == ZYDIS_OPERAND_TYPE_MEMORY; }
  bool is_register(unsigned i) const { return i < count_ && operand(i).type == ZYDIS_OPERAND_TYPE_REGISTER; }
  bool is_immediate(unsigned i) const { return i < count_ && operand(i).type == ZYDIS_OPERAND_TYPE_IMMEDIATE; }
  // Whether the encoding clears the rest of a vector register.
  bool clears_rest() const { return instruction_.decoded.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY; }
  std::optional<Bytes> bytes(const Operand& operand) const {
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) return bytes_of(operand.reg.value);
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY) return std::nullopt;
    return Bytes{In::memory, effective_address(instruction_, operand, before_), operand.size / 8u};
  }
  // The register and memory operands alone.
  std::optional<Bytes> bytes(unsigned i) const { return i < count_ ? bytes(operand(i)) : std::nullopt; }
  uint64_t immediate() const { return count_visible() ? operand(count_visible() - 1).imm.value.u : 0; }
  unsigned count_visible() const { return instruction_.decoded.operand_count_visible - (has_mask() ? 1 : 0); }
  bool has_mask() const {
    for (unsigned i = 0; i < instruction_.decoded.operand_count_visible; i++)
      if (instruction_.operand(i).encoding == ZYDIS_OPERAND_ENCODING_MASK) return true;
    return false;
  }

  // What a write to the operand changes: a write to 32 bits of a general register clears the rest of it.
  std::optional<Bytes> target(const Operand& operand) const {
    auto all = bytes(operand);
    if (!all) return all;
    if (all->in == In::general && all->size == 4) all->size = 8;
    if (all->in == In::vector && clears_rest()) all->size = kVector;
    return all;
  }
  void write(unsigned i, std::function<Source(uint64_t)> source) {
    if (auto to = target(operand(i))) written_.push_back({*to, std::move(source)});
  }
  // Writes operand `to` with the bytes of operand `from`; what is longer is extended.
  void copy(unsigned to, unsigned from) {
    const auto source = bytes(from);
    if (is_immediate(from)) return write(to, [](uint64_t) { return Source{Taken::constant}; });
    if (!source) return write(to, [](uint64_t) { return Source{}; });
    const auto own = bytes(to);
    write(to, copied(own ? first_of(*source, own->size) : *source));
  }

  bool plain();
  bool vector_move();
  bool permutation();
  std::optional<Source> unpacked(uint64_t i, unsigned element, bool high) const;
  bool shift();
  bool stack();
  bool string();
  bool is_zero() const;
  bool exchange();
  bool recorded();
  bool vector_halves();
  void computed();
  bool condition() const;

  const Instruction& instruction_;
  const user_regs_struct &before_, &after_;
  const Operand* data_[ZYDIS_MAX_OPERAND_COUNT] = {};
  unsigned count_ = 0;
  bool masked_ = false;
  std::vector<Written> written_;
};

// The condition of a cmovcc or setcc, by the lower half of its opcode, as for jcc (Intel SDM, volume 2, appendix B.1).
bool Reader::condition() const {
  const uint64_t flags = before_.eflags;
  const bool cf = flags & 1, pf = flags & 4, zf = flags & 0x40, sf = flags & 0x80, of = flags & 0x800;
  const bool base[] = {of, cf, zf, cf || zf, sf, pf, sf != of, zf || sf != of};
  const unsigned code = instruction_.decoded.opcode & 15;
  return base[code >> 1] != ((code & 1) != 0);
}

// Moves of whole operands.
bool Reader::plain() {
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVNTI:
    case ZYDIS_MNEMONIC_MOVDIRI:
    case ZYDIS_MNEMONIC_MOVZX:
    case ZYDIS_MNEMONIC_MOVSX:
    case ZYDIS_MNEMONIC_MOVSXD: copy(0, 1); return true;
    case ZYDIS_MNEMONIC_CBW:
    case ZYDIS_MNEMONIC_CWDE:
    case ZYDIS_MNEMONIC_CDQE: copy(0, 1); return true;
    case ZYDIS_MNEMONIC_MOVBE:
    case ZYDIS_MNEMONIC_BSWAP: {
      const auto from = bytes(mnemonic() == ZYDIS_MNEMONIC_BSWAP ? 0 : 1);
      if (!from || (mnemonic() == ZYDIS_MNEMONIC_BSWAP && from->size == 2)) return false;  // of 16 bits it is undefined
      write(0, [from = *from](uint64_t i) {
        return i < from.size ? copy_of(from, from.size - 1 - i) : Source{Taken::extended};
      });
      return true;
    }
    case ZYDIS_MNEMONIC_LEA: {
      const auto& mem = operand(1).mem;
      const auto base = mem.base == ZYDIS_REGISTER_NONE ? std::nullopt : bytes_of(mem.base);
      if (!base && mem.index == ZYDIS_REGISTER_NONE) {
        write(0, [](uint64_t) { return Source{Taken::constant}; });
        return true;
      }
      if (!base || mem.index != ZYDIS_REGISTER_NONE || mem.disp.value != 0) return false;
      write(0, copied(first_of(*base, operand(0).size / 8u)));
      return true;
    }
    default: break;
  }
  if (instruction_.decoded.meta.category != ZYDIS_CATEGORY_CMOV) return false;
  if (condition()) copy(0, 1);
  else write(0, [size = operand(0).size / 8u](uint64_t i) { return i < size ? kKept : Source{Taken::extended}; });
  return true;
}

bool Reader::vector_move() {
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_MOVAPS:
    case ZYDIS_MNEMONIC_MOVAPD:
    case ZYDIS_MNEMONIC_MOVUPS:
    case ZYDIS_MNEMONIC_MOVUPD:
    case ZYDIS_MNEMONIC_MOVDQA:
    case ZYDIS_MNEMONIC_MOVDQU:
    case ZYDIS_MNEMONIC_LDDQU:
    case ZYDIS_MNEMONIC_MOVNTDQ:
    case ZYDIS_MNEMONIC_MOVNTDQA:
    case ZYDIS_MNEMONIC_MOVNTPS:
    case ZYDIS_MNEMONIC_MOVNTPD:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMOVUPS:
    case ZYDIS_MNEMONIC_VMOVUPD:
    case ZYDIS_MNEMONIC_VMOVDQA:
    case ZYDIS_MNEMONIC_VMOVDQA32:
    case ZYDIS_MNEMONIC_VMOVDQA64:
    case ZYDIS_MNEMONIC_VMOVDQU:
    case ZYDIS_MNEMONIC_VMOVDQU8:
    case ZYDIS_MNEMONIC_VMOVDQU16:
    case ZYDIS_MNEMONIC_VMOVDQU32:
    case ZYDIS_MNEMONIC_VMOVDQU64:
    case ZYDIS_MNEMONIC_VLDDQU:
    case ZYDIS_MNEMONIC_VMOVNTDQ:
    case ZYDIS_MNEMONIC_VMOVNTDQA:
    case ZYDIS_MNEMONIC_VMOVNTPS:
    case ZYDIS_MNEMONIC_VMOVNTPD: copy(0, 1); return true;
    case ZYDIS_MNEMONIC_MOVD:
    case ZYDIS_MNEMONIC_MOVQ:
    case ZYDIS_MNEMONIC_VMOVD:
    case ZYDIS_MNEMONIC_VMOVQ: {
      // Between vector registers they move 4 or 8 bytes, which the operands do not say.
      const auto from = bytes(1), to = bytes(0);
      if (!from || !to) return false;
      const bool is_quad = mnemonic() == ZYDIS_MNEMONIC_MOVQ || mnemonic() == ZYDIS_MNEMONIC_VMOVQ;
      write(0, copied(first_of(first_of(*from, to->size), is_quad ? 8 : 4)));
      return true;
    }
    case ZYDIS_MNEMONIC_MOVSS:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_VMOVSS:
    case ZYDIS_MNEMONIC_VMOVSD: {
      const uint64_t size = mnemonic() == ZYDIS_MNEMONIC_MOVSS || mnemonic() == ZYDIS_MNEMONIC_VMOVSS ? 4 : 8;
      const unsigned last = count_visible() - 1;
      const auto from = bytes(last);
      if (!from) return false;
      if (is_memory(0) || is_memory(last)) {
        write(0, copied(first_of(*from, size)));
        return true;
      }
      const auto upper = bytes(last - 1);  // of two operands, the target itself
      write(0, [from = *from, upper = *upper, size, kept = last == 1](uint64_t i) {
        if (i < size) return copy_of(from, i);
        if (i >= kLane) return Source{Taken::extended};
        return kept ? kKept : copy_of(upper, i);
      });
      return true;
    }
    default: return false;
  }
}

// Moves of one half of a lane, and of parts of a register: two operands, or three of which the second gives the rest.
bool Reader::vector_halves() {
  const unsigned last = count_visible() - 1;
  const bool three = last == 2;
  // Writes [to, to + size) with the bytes of operand `of` from `from` on, and the rest of the lane with operand 1's, or
  // leaves it.
  const auto part = [&](uint64_t to, unsigned of, uint64_t from, uint64_t size) {
    const auto source = bytes(of), rest = bytes(1);
    if (!source) return false;
    write(0, [=, kept = !three](uint64_t i) {
      if (i >= to && i < to + size) return copy_of(*source, from + i - to);
      if (kept) return kKept;
      return i < rest->size ? copy_of(*rest, i) : Source{Taken::extended};
    });
    return true;
  };
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_MOVLPS:
    case ZYDIS_MNEMONIC_MOVLPD:
    case ZYDIS_MNEMONIC_VMOVLPS:
    case ZYDIS_MNEMONIC_VMOVLPD:
      if (is_memory(0)) copy(0, 1);
      else return part(0, last, 0, 8);
      return true;
    case ZYDIS_MNEMONIC_MOVHPS:
    case ZYDIS_MNEMONIC_MOVHPD:
    case ZYDIS_MNEMONIC_VMOVHPS:
    case ZYDIS_MNEMONIC_VMOVHPD:
      if (is_memory(0)) write(0, [from = *bytes(1)](uint64_t i) { return copy_of(from, 8 + i); });
      else return part(8, last, 0, 8);
      return true;
    case ZYDIS_MNEMONIC_MOVLHPS:
    case ZYDIS_MNEMONIC_VMOVLHPS: return part(8, last, 0, 8);
    case ZYDIS_MNEMONIC_MOVHLPS:
    case ZYDIS_MNEMONIC_VMOVHLPS: return part(0, last, 8, 8);
    default: return false;
  }
}

// Byte i of an interleaving of the lower or upper halves of two operands' lanes, by elements of so many bytes.
std::optional<Source> Reader::unpacked(uint64_t i, unsigned element, bool high) const {
  const bool three = count_visible() == 3;
  const auto first = bytes(three ? 1 : 0), second = bytes(three ? 2 : 1);
  if (!first || !second) return std::nullopt;
  if (i >= first->size) return Source{Taken::extended};
  const uint64_t lane = i / kLane * kLane, in_lane = i % kLane, number = in_lane / element;
  const uint64_t byte = lane + (high ? kLane / 2 : 0) + number / 2 * element + in_lane % element;
  return copy_of(number % 2 == 0 ? *first : *second, byte);
}

bool Reader::permutation() {
  const auto unpack = [&](unsigned element, bool high) {
    write(0, [=, this](uint64_t i) { return unpacked(i, element, high).value_or(Source{Taken::unknown}); });
    return true;
  };
  const auto broadcast = [&](uint64_t element) {
    const auto from = bytes(1);
    if (!from) return false;
    write(0, [from = *from, element, size = operand(0).size / 8u](uint64_t i) {
      return i < size ? copy_of(from, i % element) : Source{Taken::extended};
    });
    return true;
  };
  // `element` bytes of operand 1, from element number `immediate` on.
  const auto extract = [&](uint64_t element) {
    const auto from = bytes(1);
    if (!from) return false;
    const uint64_t at = immediate() % (from->size / element) * element;
    write(0, copied({from->in, from->low + at, element}));
    return true;
  };
  const auto insert = [&](uint64_t element) {
    const bool three = count_visible() == 4;
    const auto from = bytes(three ? 2 : 1), rest = bytes(three ? 1 : 0);
    if (!from || !rest) return false;
    const uint64_t at = immediate() % (operand(0).size / 8u / element) * element;
    write(0, [=](uint64_t i) {
      if (i >= at && i < at + element) return copy_of(*from, i - at);
      if (!three) return kKept;
      return i < rest->size ? copy_of(*rest, i) : Source{Taken::extended};
    });
    return true;
  };
  const auto shifted = [&](bool left) {  // of each lane by whole bytes
    const auto from = bytes(count_visible() == 3 ? 1 : 0);
    if (!from) return false;
    const uint64_t by = std::min<uint64_t>(immediate() & 0xff, kLane);
    write(0, [from = *from, by, left](uint64_t i) {
      if (i >= from.size) return Source{Taken::extended};
      const uint64_t in_lane = i % kLane;
      if (left ? in_lane < by : in_lane + by >= kLane) return Source{Taken::extended};
      return copy_of(from, left ? i - by : i + by);
    });
    return true;
  };
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_PUNPCKLQDQ:
    case ZYDIS_MNEMONIC_VPUNPCKLQDQ:
    case ZYDIS_MNEMONIC_UNPCKLPD:
    case ZYDIS_MNEMONIC_VUNPCKLPD: return unpack(8, false);
    case ZYDIS_MNEMONIC_PUNPCKHQDQ:
    case ZYDIS_MNEMONIC_VPUNPCKHQDQ:
    case ZYDIS_MNEMONIC_UNPCKHPD:
    case ZYDIS_MNEMONIC_VUNPCKHPD: return unpack(8, true);
    case ZYDIS_MNEMONIC_PUNPCKLDQ:
    case ZYDIS_MNEMONIC_VPUNPCKLDQ:
    case ZYDIS_MNEMONIC_UNPCKLPS:
    case ZYDIS_MNEMONIC_VUNPCKLPS: return operand(0).size >= 128 && unpack(4, false);
    case ZYDIS_MNEMONIC_PUNPCKHDQ:
    case ZYDIS_MNEMONIC_VPUNPCKHDQ:
    case ZYDIS_MNEMONIC_UNPCKHPS:
    case ZYDIS_MNEMONIC_VUNPCKHPS: return operand(0).size >= 128 && unpack(4, true);
    case ZYDIS_MNEMONIC_PSHUFD:
    case ZYDIS_MNEMONIC_VPSHUFD: {
      const auto from = bytes(1);
      if (!from) return false;
      write(0, [from = *from, order = immediate()](uint64_t i) {
        if (i >= from.size) return Source{Taken::extended};
        const uint64_t element = i % kLane / 4;
        return copy_of(from, i / kLane * kLane + (order >> 2 * element & 3) * 4 + i % 4);
      });
      return true;
    }
    case ZYDIS_MNEMONIC_PSRLDQ:
    case ZYDIS_MNEMONIC_VPSRLDQ: return shifted(false);
    case ZYDIS_MNEMONIC_PSLLDQ:
    case ZYDIS_MNEMONIC_VPSLLDQ: return shifted(true);
    case ZYDIS_MNEMONIC_MOVDDUP: return broadcast(8);
    case ZYDIS_MNEMONIC_VPBROADCASTB: return broadcast(1);
    case ZYDIS_MNEMONIC_VPBROADCASTW: return broadcast(2);
    case ZYDIS_MNEMONIC_VPBROADCASTD:
    case ZYDIS_MNEMONIC_VBROADCASTSS: return broadcast(4);
    case ZYDIS_MNEMONIC_VPBROADCASTQ:
    case ZYDIS_MNEMONIC_VBROADCASTSD: return broadcast(8);
    case ZYDIS_MNEMONIC_VBROADCASTI128:
    case ZYDIS_MNEMONIC_VBROADCASTF128: return broadcast(kLane);
    case ZYDIS_MNEMONIC_PEXTRB:
    case ZYDIS_MNEMONIC_VPEXTRB: return extract(1);
    case ZYDIS_MNEMONIC_PEXTRW:
    case ZYDIS_MNEMONIC_VPEXTRW: return is_vector(operand(1).reg.value) && extract(2);
    case ZYDIS_MNEMONIC_PEXTRD:
    case ZYDIS_MNEMONIC_VPEXTRD:
    case ZYDIS_MNEMONIC_EXTRACTPS:
    case ZYDIS_MNEMONIC_VEXTRACTPS: return extract(4);
    case ZYDIS_MNEMONIC_PEXTRQ:
    case ZYDIS_MNEMONIC_VPEXTRQ: return extract(8);
    case ZYDIS_MNEMONIC_VEXTRACTI128:
    case ZYDIS_MNEMONIC_VEXTRACTF128:
    case ZYDIS_MNEMONIC_VEXTRACTI32X4:
    case ZYDIS_MNEMONIC_VEXTRACTF32X4:
    case ZYDIS_MNEMONIC_VEXTRACTI64X2:
    case ZYDIS_MNEMONIC_VEXTRACTF64X2: return extract(16);
    case ZYDIS_MNEMONIC_VEXTRACTI64X4:
    case ZYDIS_MNEMONIC_VEXTRACTF64X4:
    case ZYDIS_MNEMONIC_VEXTRACTI32X8:
    case ZYDIS_MNEMONIC_VEXTRACTF32X8: return extract(32);
    case ZYDIS_MNEMONIC_PINSRB:
    case ZYDIS_MNEMONIC_VPINSRB: return insert(1);
    case ZYDIS_MNEMONIC_PINSRW:
    case ZYDIS_MNEMONIC_VPINSRW: return is_vector(operand(0).reg.value) && insert(2);
    case ZYDIS_MNEMONIC_PINSRD:
    case ZYDIS_MNEMONIC_VPINSRD: return insert(4);
    case ZYDIS_MNEMONIC_PINSRQ:
    case ZYDIS_MNEMONIC_VPINSRQ: return insert(8);
    case ZYDIS_MNEMONIC_VINSERTI128:
    case ZYDIS_MNEMONIC_VINSERTF128:
    case ZYDIS_MNEMONIC_VINSERTI32X4:
    case ZYDIS_MNEMONIC_VINSERTF32X4:
    case ZYDIS_MNEMONIC_VINSERTI64X2:
    case ZYDIS_MNEMONIC_VINSERTF64X2: return insert(16);
    case ZYDIS_MNEMONIC_VINSERTI64X4:
    case ZYDIS_MNEMONIC_VINSERTF64X4:
    case ZYDIS_MNEMONIC_VINSERTI32X8:
    case ZYDIS_MNEMONIC_VINSERTF32X8: return insert(32);
    default: return false;
  }
}

// Shifts and rotations by whole bytes, as compilers use them to take a member out of a register.
bool Reader::shift() {
  const bool left = mnemonic() == ZYDIS_MNEMONIC_SHL, right = mnemonic() == ZYDIS_MNEMONIC_SHR,
             arithmetic = mnemonic() == ZYDIS_MNEMONIC_SAR,
             rotate = mnemonic() == ZYDIS_MNEMONIC_ROL || mnemonic() == ZYDIS_MNEMONIC_ROR;
  if (!(left || right || arithmetic || rotate) || !is_immediate(1)) return false;
  const auto from = bytes(0);
  if (!from) return false;
  const uint64_t bits = operand(1).imm.value.u & (from->size == 8 ? 63 : 31);
  const uint64_t by = bits / 8;
  if (bits % 8 != 0 || bits == 0 || by >= from->size) return false;
  const uint64_t turned = mnemonic() == ZYDIS_MNEMONIC_ROL ? from->size - by : by;
  write(0, [=, from = *from](uint64_t i) {
    if (i >= from.size) return Source{Taken::extended};
    if (rotate) return copy_of(from, (i + turned) % from.size);
    if (left) return i < by ? Source{Taken::extended} : copy_of(from, i - by);
    return i + by < from.size ? copy_of(from, i + by) : Source{Taken::extended};
  });
  return true;
}

bool Reader::stack() {
  const Bytes rsp{In::general, kGeneral * 4, 8}, rbp{In::general, kGeneral * 5, 8};
  const auto moved = [&](const Bytes& pointer) { written_.push_back({pointer, [](uint64_t) { return Source{}; }}); };
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_PUSH: {
      const uint64_t size = before_.rsp - after_.rsp;
      if (size != 8 && size != 2) return false;
      const Bytes to{In::memory, after_.rsp, size};
      const auto from = bytes(0);
      written_.push_back({to, [=](uint64_t i) { return from ? copy_of(*from, i) : Source{Taken::constant}; }});
      moved(rsp);
      return true;
    }
    case ZYDIS_MNEMONIC_POP: {
      const Bytes from{In::memory, before_.rsp, operand(0).size / 8u};
      moved(rsp);
      if (!is_register(0)) return false;
      write(0, [=](uint64_t i) { return copy_of(from, i); });
      return true;
    }
    case ZYDIS_MNEMONIC_LEAVE:
      moved(rsp);
      written_.push_back({rbp, [from = Bytes{In::memory, before_.rbp, 8}](uint64_t i) { return copy_of(from, i); }});
      return true;
    case ZYDIS_MNEMONIC_CALL:
      moved(rsp);
      written_.push_back({{In::memory, after_.rsp, 8}, [](uint64_t) { return Source{Taken::constant}; }});
      return true;
    case ZYDIS_MNEMONIC_RET: moved(rsp); return true;
    default: return false;
  }
}

// movs, stos and lods, with or without rep.
bool Reader::string() {
  if (instruction_.decoded.meta.category != ZYDIS_CATEGORY_STRINGOP) return false;
  enum { movs, stos, lods } kind{};
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_MOVSB:
    case ZYDIS_MNEMONIC_MOVSW:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVSQ: kind = movs; break;
    case ZYDIS_MNEMONIC_STOSB:
    case ZYDIS_MNEMONIC_STOSW:
    case ZYDIS_MNEMONIC_STOSD:
    case ZYDIS_MNEMONIC_STOSQ: kind = stos; break;
    case ZYDIS_MNEMONIC_LODSB:
    case ZYDIS_MNEMONIC_LODSW:
    case ZYDIS_MNEMONIC_LODSD:
    case ZYDIS_MNEMONIC_LODSQ: kind = lods; break;
    default: return false;
  }
  const uint64_t element = operand(0).size / 8u;
  const bool repeats = instruction_.decoded.attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE);
  if (instruction_.decoded.address_width != 64) return false;
  const uint64_t times = repeats ? before_.rcx - after_.rcx : 1;
  const bool down = before_.eflags & direction_flag;
  const auto range = [&](uint64_t pointer) {
    const uint64_t size = times * element;
    return Bytes{In::memory, down ? pointer + element - size : pointer, size};
  };
  const auto counter = [&](unsigned number) {
    written_.push_back({{In::general, kGeneral * number, 8}, [](uint64_t) { return Source{}; }});
  };
  if (repeats) counter(1);
  if (times == 0) return true;
  constexpr unsigned kRsi = 6, kRdi = 7;
  const Bytes rax{In::general, 0, element};
  if (kind != stos) counter(kRsi);
  if (kind != lods) counter(kRdi);
  const Bytes from = range(before_.rsi), to = range(before_.rdi);
  switch (kind) {
    case movs:
      // If the ranges overlap, the copy may have repeated its own results.
      written_.push_back({to, [=, same = from.overlaps(to) && times > 1](uint64_t i) {
                            return same ? Source{Taken::unknown} : copy_of(from, i);
                          }});
      break;
    case stos: written_.push_back({to, [=](uint64_t i) { return copy_of(rax, i % element); }}); break;
    case lods: {
      const Bytes last{In::memory, before_.rsi + (down ? -(times - 1) : times - 1) * element, element};
      written_.push_back({{In::general, 0, element == 4 ? 8 : element}, copied(last)});
      break;
    }
  }
  return true;
}

// Whether the result is the same whatever the registers hold.
bool Reader::is_zero() const {
  const unsigned count = count_visible();
  const bool same = count >= 2 && is_register(count - 1) && is_register(count - 2) &&
                    operand(count - 1).reg.value == operand(count - 2).reg.value;
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_XOR:
    case ZYDIS_MNEMONIC_SUB:
    case ZYDIS_MNEMONIC_PXOR:
    case ZYDIS_MNEMONIC_VPXOR:
    case ZYDIS_MNEMONIC_VPXORD:
    case ZYDIS_MNEMONIC_VPXORQ:
    case ZYDIS_MNEMONIC_XORPS:
    case ZYDIS_MNEMONIC_XORPD:
    case ZYDIS_MNEMONIC_VXORPS:
    case ZYDIS_MNEMONIC_VXORPD:
    case ZYDIS_MNEMONIC_PCMPEQB:
    case ZYDIS_MNEMONIC_PCMPEQW:
    case ZYDIS_MNEMONIC_PCMPEQD: return same;
    case ZYDIS_MNEMONIC_AND: return is_immediate(1) && operand(1).imm.value.u == 0;
    case ZYDIS_MNEMONIC_OR: return is_immediate(1) && operand(1).imm.value.s == -1;
    default: return false;
  }
}

bool Reader::exchange() {
  const auto a = bytes(0), b = bytes(1);
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_XCHG:
      copy(0, 1);
      copy(1, 0);
      return true;
    case ZYDIS_MNEMONIC_XADD:
      if (!a || !b) return false;
      copy(1, 0);
      write(0, [](uint64_t) { return Source{}; });  // last, in case that both are the same register
      return true;
    case ZYDIS_MNEMONIC_CMPXCHG:
      // It stores the new value only if the comparison succeeded. Otherwise it writes the old value once more.
      if (!a || !b || a->in != In::memory) return false;
      if (before_.rax == after_.rax && (after_.eflags & 0x40)) copy(0, 1);
      else write(0, [](uint64_t) { return kKept; });
      if (!(after_.eflags & 0x40)) written_.push_back({{In::general, 0, a->size == 4 ? 8 : a->size}, copied(*a)});
      return true;
    default: return false;
  }
}

// Instructions whose results come from outside the program.
bool Reader::recorded() {
  switch (mnemonic()) {
    case ZYDIS_MNEMONIC_SYSCALL:
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_LSL: break;
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
    case ZYDIS_MNEMONIC_XRSTORS:
    case ZYDIS_MNEMONIC_XRSTORS64:
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
      written_.push_back({{In::vector, 0, 32 * kVector}, [](uint64_t) { return Source{Taken::unknown}; }});
      return true;
    case ZYDIS_MNEMONIC_VZEROALL:
    case ZYDIS_MNEMONIC_VZEROUPPER:
      written_.push_back({{In::vector, 0, 16 * kVector}, [all = mnemonic() == ZYDIS_MNEMONIC_VZEROALL](uint64_t i) {
                            return all || i % kVector >= kLane ? Source{Taken::constant} : kKept;
                          }});
      return true;
    default: return false;
  }
  constexpr unsigned kResult[] = {0, 1, 2, 3};  // rax rcx rdx rbx; those that it leaves are as they were
  const user_regs_struct &b = before_, &a = after_;
  for (unsigned number : kResult)
    if (general_register(b, number) != general_register(a, number) || number == 0)
      written_.push_back({{In::general, kGeneral * number, 8}, [](uint64_t) { return Source{Taken::recorded}; }});
  if (mnemonic() == ZYDIS_MNEMONIC_SYSCALL)
    written_.push_back({{In::general, kGeneral * 11, 8}, [](uint64_t) { return Source{Taken::recorded}; }});
  else computed();
  return true;
}

void Reader::computed() {
  for (unsigned i = 0; i < count_; i++)
    if (operand(i).actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) write(i, [](uint64_t) { return Source{}; });
}

std::vector<Written> Reader::run() {
  if (masked_) {
    computed();
  } else if (is_zero()) {
    write(0, [](uint64_t) { return Source{Taken::constant}; });
  } else if (!(string() || plain() || vector_move() || vector_halves() || permutation() || shift() || exchange() ||
               stack() || recorded())) {
    computed();
  }
  return std::move(written_);
}

// Whether the byte at `at` extends `last`: it lies behind it and comes from the same kind of source, at the next place.
bool goes_on(const Piece& last, uint64_t at, const Source& source) {
  if (last.part.high() != at || last.how != source.how) return false;
  if (source.how != Taken::copied) return true;
  if (last.from.in != source.from.in) return false;
  const bool up = last.from.high() == source.from.low, down = source.from.high() == last.from.low;
  return last.from.size == 1 ? up || down : last.swapped ? down : up;
}

void add(std::vector<Piece>& pieces, const Bytes& byte, const Source& source) {
  if (pieces.empty() || !goes_on(pieces.back(), byte.low, source)) {
    pieces.push_back({byte, source.how, source.from});
    return;
  }
  Piece& last = pieces.back();
  last.part.size++;
  if (source.how != Taken::copied) return;
  last.swapped = source.from.low < last.from.low;
  last.from.low = std::min(last.from.low, source.from.low);
  last.from.size++;
}

}  // namespace

std::vector<Piece> pieces_of(const Instruction& instruction, const user_regs_struct& before,
                             const user_regs_struct& after, const Bytes& wanted) {
  std::vector<Piece> pieces;
  // What an instruction writes last to a byte counts: pop rsp.
  Reader reader(instruction, before, after);  // the functions in `written` use it
  const auto written = reader.run();
  for (uint64_t at = wanted.low; at < wanted.high(); at++) {
    const Bytes byte{wanted.in, at, 1};
    const auto last = std::ranges::find_if(written.rbegin(), written.rend(),
                                           [&](const Written& each) { return each.bytes.overlaps(byte); });
    if (last == written.rend()) continue;
    const Source source = last->source(at - last->bytes.low);
    if (!source.kept) add(pieces, byte, source);
  }
  return pieces;
}

std::vector<Bytes> inputs_of(const Instruction& instruction, const user_regs_struct& before) {
  std::vector<Bytes> inputs;
  const auto note = [&](const std::optional<Bytes>& bytes) {
    if (bytes && bytes->size && std::ranges::find(inputs, *bytes) == inputs.end()) inputs.push_back(*bytes);
  };
  const bool is_address = instruction.decoded.mnemonic == ZYDIS_MNEMONIC_LEA;
  for (unsigned i = 0; i < instruction.decoded.operand_count; i++) {
    const Operand& operand = instruction.operand(i);
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY && is_address) {
      for (ZydisRegister reg : {operand.mem.base, operand.mem.index})
        if (reg != ZYDIS_REGISTER_NONE) note(bytes_of(reg));
      continue;
    }
    if (!(operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ)) continue;
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) note(bytes_of(operand.reg.value));
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY)
      note(Bytes{In::memory, effective_address(instruction, operand, before), operand.size / 8u});
  }
  return inputs;
}

std::string text_of(const Bytes& bytes) {
  static constexpr const char* kWhole[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi"};
  static constexpr const char* kHalf[] = {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"};
  if (bytes.in == In::memory) return fmt::format("{:#x}", bytes.low);
  const uint64_t unit = bytes.in == In::general ? kGeneral : kVector;
  const uint64_t number = bytes.low / unit, first = bytes.low % unit;
  const auto part = [&](const std::string& name) {
    return bytes.size == 1 ? fmt::format("byte {} of {}", first, name)
                           : fmt::format("bytes {} to {} of {}", first, first + bytes.size - 1, name);
  };
  if (bytes.in == In::general) {
    std::string name = number < 8 ? kWhole[number] : fmt::format("r{}", number);
    if (first == 0 && bytes.size == 8) return name;
    if (first == 0 && bytes.size == 4) return number < 8 ? kHalf[number] : name + "d";
    return part(name);
  }
  const char* kind = first + bytes.size <= 16 ? "xmm" : first + bytes.size <= 32 ? "ymm" : "zmm";
  if (first == 0 && (bytes.size == 16 || bytes.size == 32 || bytes.size == 64))
    return fmt::format("{}{}", kind, number);
  return part(fmt::format("{}{}", kind, number));
}

std::string text_of(const Instruction& instruction) {
  static const ZydisFormatter formatter = [] {
    ZydisFormatter made;
    ZydisFormatterInit(&made, ZYDIS_FORMATTER_STYLE_ATT);
    ZydisFormatterSetProperty(&made, ZYDIS_FORMATTER_PROP_FORCE_SIZE, ZYAN_TRUE);
    return made;
  }();
  char text[128];
  const auto status = ZydisFormatterFormatInstruction(&formatter, &instruction.decoded, instruction.operands.data(),
                                                      instruction.decoded.operand_count_visible, text, sizeof text,
                                                      instruction.address, nullptr);
  return ZYAN_SUCCESS(status) ? text : "?";
}

}  // namespace friday
