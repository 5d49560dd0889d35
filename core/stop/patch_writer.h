// Writes code that a jump leads to from the program, and that does something before the instructions which the jump has
// displaced.
//
// The code uses no stack, because memory below the stack pointer belongs to the program too: a program that reads an
// uninitialised variable must get the same value. It saves registers in the words of a data page near it, one set for
// each process. That suffices because at replay one thread of a process runs program code at a time, and no thread is
// moved to other code while it is inside (Breakpoints::leave_pad).
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "core/stop/instruction.h"
#include "core/stop/pad_writer.h"
#include "core/stop/store_patch.h"

namespace friday {

class PatchWriter {
 public:
  using Operand = ZydisEncoderOperand;

  // `save`: the address of the words.
  PatchWriter(Addr base, Addr save) : pad_(base.value), save_(save.value) {}

  PadWriter& pad() { return pad_; }
  // Whether something could not be encoded.
  bool failed() const { return failed_; }

  static Operand reg(ZydisRegister value) {
    Operand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_REGISTER;
    operand.reg.value = value;
    return operand;
  }
  static Operand number(int64_t value) {
    Operand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
    operand.imm.s = value;
    return operand;
  }
  static Operand memory(ZydisRegister base, int64_t displacement, uint16_t size = 8,
                        ZydisRegister index = ZYDIS_REGISTER_NONE, uint8_t scale = 0) {
    Operand operand{};
    operand.type = ZYDIS_OPERAND_TYPE_MEMORY;
    operand.mem = {base, index, index == ZYDIS_REGISTER_NONE ? uint8_t{0} : scale, displacement, size};
    return operand;
  }
  Operand saved(size_t word) const { return memory(ZYDIS_REGISTER_RIP, static_cast<int64_t>(save_ + 8 * word)); }

  void emit(ZydisMnemonic mnemonic, std::initializer_list<Operand> operands) {
    ZydisEncoderRequest request{};
    request.machine_mode = ZYDIS_MACHINE_MODE_LONG_64;
    request.mnemonic = mnemonic;
    for (const Operand& each : operands) request.operands[request.operand_count++] = each;
    std::array<std::byte, max_instruction_length> buffer;
    ZyanUSize length = buffer.size();
    if (ZYAN_FAILED(ZydisEncoderEncodeInstructionAbsolute(&request, buffer.data(), &length, pad_.here()))) {
      failed_ = true;
      return;
    }
    pad_.bytes(std::span<const std::byte>(buffer).first(length));
  }
  void save(ZydisRegister from, size_t word) { emit(ZYDIS_MNEMONIC_MOV, {saved(word), reg(from)}); }
  void load(ZydisRegister to, size_t word) { emit(ZYDIS_MNEMONIC_MOV, {reg(to), saved(word)}); }

  // The flags to and from rax.
  void take_flags() { pad_.bytes({0x9f, 0x0f, 0x90, 0xc0}); }  // lahf; seto %al
  void put_flags() { pad_.bytes({0x04, 0x7f, 0x9e}); }         // add $0x7f, %al (sets OF if it is 1); sahf

  // A conditional jump (the second byte of its opcode) to a place that come_from() names later.
  size_t jump_if(uint8_t condition) {
    pad_.bytes({0x0f, condition, 0, 0, 0, 0});
    return pad_.size();
  }
  void come_from(size_t jump) { pad_.set_displacement(jump - 4, static_cast<int64_t>(pad_.size() - jump)); }

  // The instructions, each with its program address, and the jump back behind them. False if one cannot be moved.
  bool displaced(std::span<const Instruction> instructions, Addr behind) {
    for (const Instruction& each : instructions) {
      pad_.means(each.address);
      if (ends_window(each)) branch(each);
      else if (!pad_.relocated(each)) return false;
    }
    if (instructions.empty() || !ends_window(instructions.back())) pad_.jump(behind.value);
    return true;
  }

 private:
  // Rewrites the jump that ends the window: to its target and, if it is conditional, otherwise to the instruction after
  // it.
  void branch(const Instruction& jump) {
    const uint64_t target = jump.next() + static_cast<uint64_t>(jump.operand(0).imm.value.s);
    if (jump.decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR) {
      pad_.jump_here(target);
      return;
    }
    const size_t taken = jump_if(static_cast<uint8_t>(0x80 | (jump.decoded.opcode & 15)));
    pad_.jump(jump.next());
    come_from(taken);
    pad_.jump(target);
  }

  PadWriter pad_;
  uint64_t save_;
  bool failed_ = false;
};

}  // namespace friday
