#include "core/stop/emulator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "core/stop/alu.h"
#include "core/stop/registers.h"
#include "core/stop/vector_store.h"

namespace friday {

namespace {

// One instruction being emulated. `registers` is a copy; the caller adopts it unless the result is `no`.
struct Work {
  const Instruction& instruction;
  user_regs_struct registers;
  StoreAccess& access;

  ZydisMnemonic mnemonic() const { return instruction.decoded.mnemonic; }
  const ZydisDecodedOperand& operand(unsigned i) const { return instruction.operand(i); }
  bool writes_memory(unsigned i) const { return operand(i).type == ZYDIS_OPERAND_TYPE_MEMORY; }
  uint64_t address(unsigned i) const { return effective_address(instruction, operand(i), registers); }

  std::optional<uint64_t> load(uint64_t at, unsigned width) {
    uint64_t value = 0;
    if (!access.read(at, std::as_writable_bytes(std::span(&value, 1)).first(width / 8))) return std::nullopt;
    return value;
  }
  bool store(uint64_t at, unsigned width, uint64_t value) {
    return access.write(at, std::as_bytes(std::span(&value, 1)).first(width / 8));
  }
  // The value of an operand: a register, an immediate, or the contents of memory.
  std::optional<uint64_t> value(unsigned i) {
    const ZydisDecodedOperand& of = operand(i);
    switch (of.type) {
      case ZYDIS_OPERAND_TYPE_REGISTER: return read_register(registers, of.reg.value);
      case ZYDIS_OPERAND_TYPE_IMMEDIATE: return of.imm.value.u;
      case ZYDIS_OPERAND_TYPE_MEMORY: return of.size <= 64 ? load(address(i), of.size) : std::nullopt;
      default: return std::nullopt;
    }
  }
};

using Handler = bool (*)(Work&);

bool do_mov(Work& work) {
  if (!work.writes_memory(0)) return false;
  auto value = work.value(1);
  return value && work.store(work.address(0), work.operand(0).size, *value);
}

template <AluOperation operation>
bool do_alu(Work& work) {
  if (!work.writes_memory(0)) return false;
  unsigned width = work.operand(0).size;
  auto destination = work.value(0);
  bool unary = operation == AluOperation::inc || operation == AluOperation::dec || operation == AluOperation::neg ||
               operation == AluOperation::not_;
  auto source = unary ? std::optional<uint64_t>(0) : work.value(1);
  if (!destination || !source) return false;
  AluResult result = alu(operation, width, *destination, *source, work.registers.eflags);
  if (!work.store(work.address(0), width, result.value)) return false;
  work.registers.eflags = result.eflags;
  return true;
}

// bts, btr and btc: an immediate bit number stays inside the operand; a bit number in a register selects the word.
template <AluOperation operation>
bool do_bit(Work& work) {
  if (!work.writes_memory(0)) return false;
  unsigned width = work.operand(0).size;
  auto source = work.value(1);
  if (!source || width == 8) return false;
  uint64_t at = work.address(0);
  if (work.operand(1).type == ZYDIS_OPERAND_TYPE_REGISTER) {
    int64_t bit = width == 16   ? static_cast<int16_t>(*source)
                  : width == 32 ? static_cast<int32_t>(*source)
                                : static_cast<int64_t>(*source);
    at += static_cast<uint64_t>((bit >> (width == 16 ? 4 : width == 32 ? 5 : 6)) * (width / 8));
  }
  auto destination = work.load(at, width);
  if (!destination) return false;
  AluResult result = alu(operation, width, *destination, *source & (width - 1), work.registers.eflags);
  if (!work.store(at, width, result.value)) return false;
  work.registers.eflags = result.eflags;
  return true;
}

bool do_xchg(Work& work) {
  unsigned memory = work.writes_memory(0) ? 0 : 1;
  if (!work.writes_memory(memory)) return false;
  auto old = work.value(memory), put = work.value(1 - memory);
  if (!old || !put || !work.store(work.address(memory), work.operand(memory).size, *put)) return false;
  return write_register(work.registers, work.operand(1 - memory).reg.value, *old);
}

bool do_xadd(Work& work) {
  if (!work.writes_memory(0)) return false;
  unsigned width = work.operand(0).size;
  auto old = work.value(0), add = work.value(1);
  if (!old || !add) return false;
  AluResult result = alu(AluOperation::add, width, *old, *add, work.registers.eflags);
  if (!work.store(work.address(0), width, result.value)) return false;
  work.registers.eflags = result.eflags;
  return write_register(work.registers, work.operand(1).reg.value, *old);
}

// cmpxchg always writes to memory: the source if the comparison succeeds, otherwise the old value.
bool do_cmpxchg(Work& work) {
  if (!work.writes_memory(0)) return false;
  unsigned width = work.operand(0).size;
  auto old = work.value(0), put = work.value(1);
  if (!old || !put) return false;
  ZydisRegister accumulator = width == 8    ? ZYDIS_REGISTER_AL
                              : width == 16 ? ZYDIS_REGISTER_AX
                              : width == 32 ? ZYDIS_REGISTER_EAX
                                            : ZYDIS_REGISTER_RAX;
  uint64_t expected = *read_register(work.registers, accumulator);
  bool equal = expected == *old;
  if (!work.store(work.address(0), width, equal ? *put : *old)) return false;
  work.registers.eflags = alu(AluOperation::cmp, width, expected, *old, work.registers.eflags).eflags;
  if (!equal) write_register(work.registers, accumulator, *old);
  return true;
}

template <typename Half>
bool do_cmpxchg_pair(Work& work) {
  std::array<Half, 2> old, put{static_cast<Half>(work.registers.rbx), static_cast<Half>(work.registers.rcx)};
  uint64_t at = work.address(0);
  if (!work.access.read(at, std::as_writable_bytes(std::span(old)))) return false;
  bool equal = old[0] == static_cast<Half>(work.registers.rax) && old[1] == static_cast<Half>(work.registers.rdx);
  if (!work.access.write(at, std::as_bytes(std::span(equal ? put : old)))) return false;
  constexpr uint64_t zero_flag = 0x40;
  work.registers.eflags = equal ? work.registers.eflags | zero_flag : work.registers.eflags & ~zero_flag;
  if (!equal) {
    work.registers.rax = old[0];
    work.registers.rdx = old[1];
  }
  return true;
}

bool do_cmpxchg8b(Work& work) { return do_cmpxchg_pair<uint32_t>(work); }
bool do_cmpxchg16b(Work& work) {
  return work.address(0) % 16 == 0 && do_cmpxchg_pair<uint64_t>(work);  // an unaligned address faults
}

bool do_setcc(Work& work) {
  if (!work.writes_memory(0)) return false;
  // setcc and jcc encode the condition in the same four bits of the opcode, so decode the corresponding jcc.
  std::array<std::byte, 2> jcc{std::byte{static_cast<uint8_t>(0x70 | (work.instruction.decoded.opcode & 15))},
                               std::byte{0}};
  auto branch = decode_instruction(Addr{0}, jcc);
  auto taken = branch ? branch_taken(*branch, work.registers.eflags) : std::nullopt;
  return taken && work.store(work.address(0), 8, *taken ? 1 : 0);
}

bool push_value(Work& work, uint64_t value, unsigned width) {
  if (!work.store(work.registers.rsp - width / 8, width, value)) return false;
  work.registers.rsp -= width / 8;
  return true;
}

bool do_push(Work& work) {
  auto value = work.value(0);
  return value && push_value(work, *value, work.instruction.decoded.operand_width);
}

bool do_pushf(Work& work) {
  constexpr uint64_t never_pushed = 0x30000;  // RF and VM
  return push_value(work, work.registers.eflags & ~never_pushed, work.instruction.decoded.operand_width);
}

bool do_pop(Work& work) {  // pop to memory: its address is computed after rsp was incremented
  if (!work.writes_memory(0)) return false;
  unsigned width = work.operand(0).size;
  auto value = work.load(work.registers.rsp, width);
  if (!value) return false;
  work.registers.rsp += width / 8;
  return work.store(work.address(0), width, *value);
}

bool do_call(Work& work) {
  const ZydisDecodedOperand& of = work.operand(0);
  if (work.instruction.decoded.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ||
      work.instruction.decoded.operand_width == 16)
    return false;
  uint64_t next = work.instruction.next();
  auto target = of.type == ZYDIS_OPERAND_TYPE_IMMEDIATE ? std::optional(next + of.imm.value.u) : work.value(0);
  if (!target || !push_value(work, next, 64)) return false;
  work.registers.rip = *target;
  return true;
}

bool do_vector(Work& work) {
  if (!work.writes_memory(0)) return false;
  std::array<std::byte, 64> data;
  uint64_t at = work.address(0);
  auto bytes = vector_store_data(work.instruction, at, work.access.extended_state(), data);
  return bytes && work.access.write(at, *bytes);
}

Handler handler_of(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOV:
    case ZYDIS_MNEMONIC_MOVNTI: return do_mov;
    case ZYDIS_MNEMONIC_ADD: return do_alu<AluOperation::add>;
    case ZYDIS_MNEMONIC_ADC: return do_alu<AluOperation::adc>;
    case ZYDIS_MNEMONIC_SUB: return do_alu<AluOperation::sub>;
    case ZYDIS_MNEMONIC_SBB: return do_alu<AluOperation::sbb>;
    case ZYDIS_MNEMONIC_AND: return do_alu<AluOperation::and_>;
    case ZYDIS_MNEMONIC_OR: return do_alu<AluOperation::or_>;
    case ZYDIS_MNEMONIC_XOR: return do_alu<AluOperation::xor_>;
    case ZYDIS_MNEMONIC_INC: return do_alu<AluOperation::inc>;
    case ZYDIS_MNEMONIC_DEC: return do_alu<AluOperation::dec>;
    case ZYDIS_MNEMONIC_NEG: return do_alu<AluOperation::neg>;
    case ZYDIS_MNEMONIC_NOT: return do_alu<AluOperation::not_>;
    case ZYDIS_MNEMONIC_SHL: return do_alu<AluOperation::shl>;
    case ZYDIS_MNEMONIC_SHR: return do_alu<AluOperation::shr>;
    case ZYDIS_MNEMONIC_SAR: return do_alu<AluOperation::sar>;
    case ZYDIS_MNEMONIC_ROL: return do_alu<AluOperation::rol>;
    case ZYDIS_MNEMONIC_ROR: return do_alu<AluOperation::ror>;
    case ZYDIS_MNEMONIC_RCL: return do_alu<AluOperation::rcl>;
    case ZYDIS_MNEMONIC_RCR: return do_alu<AluOperation::rcr>;
    case ZYDIS_MNEMONIC_BTS: return do_bit<AluOperation::bts>;
    case ZYDIS_MNEMONIC_BTR: return do_bit<AluOperation::btr>;
    case ZYDIS_MNEMONIC_BTC: return do_bit<AluOperation::btc>;
    case ZYDIS_MNEMONIC_XCHG: return do_xchg;
    case ZYDIS_MNEMONIC_XADD: return do_xadd;
    case ZYDIS_MNEMONIC_CMPXCHG: return do_cmpxchg;
    case ZYDIS_MNEMONIC_CMPXCHG8B: return do_cmpxchg8b;
    case ZYDIS_MNEMONIC_CMPXCHG16B: return do_cmpxchg16b;
    case ZYDIS_MNEMONIC_PUSH: return do_push;
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ: return do_pushf;
    case ZYDIS_MNEMONIC_POP: return do_pop;
    case ZYDIS_MNEMONIC_CALL: return do_call;
    default: return nullptr;
  }
}

// stos and movs, with and without rep, in chunks that do not cross pages of source or destination.
class StringStore {
 public:
  explicit StringStore(Work& work) : work_(work), regs_(work.registers) {
    unit_ = work.operand(0).size / 8u;
    moves_ = work.operand(1).type == ZYDIS_OPERAND_TYPE_MEMORY;
    repeats_ = (work.instruction.decoded.attributes & ZYDIS_ATTRIB_HAS_REP) != 0;
    down_ = (regs_.eflags & direction_flag) != 0;
  }

  Emulated run() {
    if (work_.instruction.decoded.address_width != 64 || has_repne()) return Emulated::no;
    if (moves_ && work_.operand(1).mem.segment != ZYDIS_REGISTER_DS) return Emulated::no;
    bool some = false;
    uint64_t left = repeats_ ? regs_.rcx : 1;
    while (left > 0) {
      uint64_t count = std::min(left, chunk());
      if (!copy(count)) return some ? Emulated::partial : Emulated::no;
      advance(count);
      left -= count;
      some = true;
    }
    regs_.rip = work_.instruction.next();
    return Emulated::done;
  }

 private:
  static constexpr uint64_t page_size = 4096;

  // Existing processors also repeat these instructions with prefix 0xf2, but no manual guarantees it.
  bool has_repne() const {
    const auto& raw = work_.instruction.decoded.raw;
    return std::any_of(raw.prefixes, raw.prefixes + raw.prefix_count,
                       [](const auto& each) { return each.value == 0xf2; });
  }

  // How many units can be copied by one read and one write: within one page each, and without reading what this chunk
  // writes.
  uint64_t chunk() const {
    if (down_) return 1;
    uint64_t bytes = page_size - regs_.rdi % page_size;
    if (moves_) {
      bytes = std::min<uint64_t>(bytes, page_size - regs_.rsi % page_size);
      if (regs_.rdi > regs_.rsi) bytes = std::min<uint64_t>(bytes, regs_.rdi - regs_.rsi);
    }
    return std::max<uint64_t>(bytes / unit_, 1);
  }

  bool copy(uint64_t count) {
    uint64_t size = count * unit_;
    std::span<std::byte> data(buffer_.data(), size);
    if (moves_) {
      if (!work_.access.read(regs_.rsi, data)) return false;
    } else {
      for (uint64_t i = 0; i < size; i += unit_) std::memcpy(data.data() + i, &regs_.rax, unit_);
    }
    return work_.access.write(regs_.rdi, data);
  }

  void advance(uint64_t count) {
    uint64_t bytes = down_ ? 0 - unit_ : count * unit_;
    regs_.rdi += bytes;
    if (moves_) regs_.rsi += bytes;
    if (repeats_) regs_.rcx -= count;
  }

  Work& work_;
  user_regs_struct& regs_;
  uint64_t unit_;
  bool moves_, repeats_, down_;
  std::array<std::byte, page_size> buffer_;
};

bool is_string_store(const Instruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_STOSB:
    case ZYDIS_MNEMONIC_STOSW:
    case ZYDIS_MNEMONIC_STOSD:
    case ZYDIS_MNEMONIC_STOSQ:
    case ZYDIS_MNEMONIC_MOVSB:
    case ZYDIS_MNEMONIC_MOVSW:
    case ZYDIS_MNEMONIC_MOVSQ:
      return true;
      // movsd is also the name of a vector move
    case ZYDIS_MNEMONIC_MOVSD: return instruction.decoded.meta.category == ZYDIS_CATEGORY_STRINGOP;
    default: return false;
  }
}

}  // namespace

Emulated emulate_store(const Instruction& instruction, user_regs_struct& registers, StoreAccess& access) {
  Work work{instruction, registers, access};
  Emulated result;
  if (is_string_store(instruction)) {
    result = StringStore(work).run();
  } else {
    work.registers.rip = instruction.next();
    Handler handler = handler_of(instruction.decoded.mnemonic);
    if (!handler) {
      bool setcc = instruction.decoded.meta.category == ZYDIS_CATEGORY_SETCC;
      handler = setcc ? do_setcc : do_vector;
    }
    result = handler(work) ? Emulated::done : Emulated::no;
  }
  constexpr uint64_t resume_flag = 0x10000;  // the fault sets RF; executing the instruction clears it
  if (result == Emulated::done) work.registers.eflags &= ~resume_flag;
  if (result != Emulated::no) registers = work.registers;
  return result;
}

}  // namespace friday
