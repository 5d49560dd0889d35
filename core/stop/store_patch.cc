#include "core/stop/store_patch.h"

#include <array>

#include "core/stop/patch_writer.h"
#include "core/stop/watch_pages.h"

namespace friday {

namespace {

ZydisRegister whole(ZydisRegister reg) { return ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg); }
ZydisRegister half(ZydisRegister reg) {
  return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR32, static_cast<ZyanU8>(ZydisRegisterGetId(reg)));
}

bool uses(const Instruction& instruction, ZydisRegister reg) {
  for (unsigned i = 0; i < instruction.decoded.operand_count; ++i) {
    const ZydisDecodedOperand& each = instruction.operand(i);
    if (each.type == ZYDIS_OPERAND_TYPE_REGISTER && whole(each.reg.value) == reg) return true;
    if (each.type == ZYDIS_OPERAND_TYPE_MEMORY && (whole(each.mem.base) == reg || whole(each.mem.index) == reg))
      return true;
  }
  return false;
}

// The index of the only memory operand, or -1 if there is not exactly one.
int memory_operand(const Instruction& instruction) {
  int found = -1;
  for (unsigned i = 0; i < instruction.decoded.operand_count; ++i) {
    if (instruction.operand(i).type != ZYDIS_OPERAND_TYPE_MEMORY) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

class StoreWriter : PatchWriter {
 public:
  StoreWriter(std::span<const Instruction> window, Addr base, Addr save) : PatchWriter(base, save), window_(window) {}

  bool write() {
    const Instruction& store = window_.front();
    at_ = memory_operand(store);
    size_ = store.operand(static_cast<unsigned>(at_)).size / 8u;
    if (!choose_registers(store)) return false;
    pad().means(store.address);
    look_up(store);
    pad().bytes(rewritten_);
    load(address_, 0);
    if (!failed()) pad().bytes({0xeb, 0});  // jmp short after
    const size_t over = pad().size();
    for (size_t from : slow_jumps_) come_from(from);
    put_back();
    load(address_, 0);
    pad().means(store.address);
    if (!pad().relocated(store)) return false;
    pad().set_byte(over - 1, static_cast<uint8_t>(pad().size() - over));
    if (!displaced(window_.subspan(1), Addr{window_.back().next()})) return false;
    return !failed() && pad().size() <= store_patch_size;
  }

  PadCode finish() { return pad().finish(); }

 private:
  // Chooses a register for the address, which the store must not use and which can encode its operand, and two more.
  bool choose_registers(const Instruction& store) {
    static constexpr std::array candidates{ZYDIS_REGISTER_RDX, ZYDIS_REGISTER_RSI, ZYDIS_REGISTER_RDI,
                                           ZYDIS_REGISTER_RBX, ZYDIS_REGISTER_R8,  ZYDIS_REGISTER_R9,
                                           ZYDIS_REGISTER_R10, ZYDIS_REGISTER_R11};
    for (ZydisRegister candidate : candidates) {
      if (uses(store, candidate) || !rewrite(store, candidate)) continue;
      address_ = candidate;
      entry_ = candidate == ZYDIS_REGISTER_R8 ? ZYDIS_REGISTER_R9 : ZYDIS_REGISTER_R8;
      bits_ = candidate == ZYDIS_REGISTER_R10 ? ZYDIS_REGISTER_R11 : ZYDIS_REGISTER_R10;
      return true;
    }
    return false;
  }

  // Encodes the store with [base] as its memory operand, and checks the result by decoding it.
  bool rewrite(const Instruction& store, ZydisRegister base) {
    ZydisEncoderRequest request;
    if (ZYAN_FAILED(ZydisEncoderDecodedInstructionToEncoderRequest(&store.decoded, store.operands.data(),
                                                                   store.decoded.operand_count_visible, &request)))
      return false;
    auto& operand = request.operands[at_].mem;
    operand.base = base;
    operand.index = ZYDIS_REGISTER_NONE;
    operand.scale = 0;
    operand.displacement = 0;
    std::array<std::byte, max_instruction_length> buffer;
    ZyanUSize length = buffer.size();
    if (ZYAN_FAILED(ZydisEncoderEncodeInstruction(&request, buffer.data(), &length))) return false;
    auto again = decode_instruction(Addr{store.address}, std::span(buffer).first(length));
    if (!again || !same_but_address(store, *again, base)) return false;
    rewritten_.assign(buffer.begin(), buffer.begin() + static_cast<ptrdiff_t>(length));
    return true;
  }

  bool same_but_address(const Instruction& a, const Instruction& b, ZydisRegister base) const {
    constexpr auto prefixes = ZYDIS_ATTRIB_HAS_LOCK | ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPNE;
    if (a.decoded.mnemonic != b.decoded.mnemonic || a.decoded.operand_count != b.decoded.operand_count ||
        a.decoded.operand_width != b.decoded.operand_width ||
        (a.decoded.attributes & prefixes) != (b.decoded.attributes & prefixes) ||
        a.decoded.avx.mask.reg != b.decoded.avx.mask.reg || a.decoded.avx.mask.mode != b.decoded.avx.mask.mode)
      return false;
    for (unsigned i = 0; i < a.decoded.operand_count; ++i) {
      const ZydisDecodedOperand &x = a.operand(i), &y = b.operand(i);
      if (x.type != y.type || x.size != y.size || x.actions != y.actions) return false;
      if (x.type == ZYDIS_OPERAND_TYPE_REGISTER && x.reg.value != y.reg.value) return false;
      if (x.type == ZYDIS_OPERAND_TYPE_IMMEDIATE && x.imm.value.u != y.imm.value.u) return false;
      if (x.type == ZYDIS_OPERAND_TYPE_MEMORY &&
          (y.mem.base != base || y.mem.index != ZYDIS_REGISTER_NONE || y.mem.disp.value != 0 ||
           y.mem.segment == ZYDIS_REGISTER_FS || y.mem.segment == ZYDIS_REGISTER_GS))
        return false;
    }
    return true;
  }

  void look_up(const Instruction& store) {
    const auto& to = store.operand(static_cast<unsigned>(at_)).mem;
    const ZydisRegister rax = ZYDIS_REGISTER_RAX, rcx = ZYDIS_REGISTER_RCX;
    save(address_, 0);
    if (to.base == ZYDIS_REGISTER_RIP) {
      emit(ZYDIS_MNEMONIC_MOV,
           {reg(address_), number(static_cast<int64_t>(store.next() + static_cast<uint64_t>(to.disp.value)))});
    } else {
      emit(ZYDIS_MNEMONIC_LEA, {reg(address_), memory(to.base, to.disp.value, 8, to.index, to.scale)});
    }
    save(rax, 1);
    save(rcx, 2);
    save(entry_, 3);
    save(bits_, 4);
    take_flags();
    emit(ZYDIS_MNEMONIC_MOV, {reg(entry_), reg(address_)});
    emit(ZYDIS_MNEMONIC_SHR, {reg(entry_), number(12)});
    emit(ZYDIS_MNEMONIC_AND, {reg(half(entry_)), number(store_table_entries - 1)});
    emit(ZYDIS_MNEMONIC_SHL, {reg(entry_), number(10)});
    emit(ZYDIS_MNEMONIC_ADD, {reg(entry_), saved(5)});
    emit(ZYDIS_MNEMONIC_SUB, {reg(address_), memory(entry_, offsetof(StoreTableEntry, page))});
    emit(ZYDIS_MNEMONIC_CMP, {reg(address_), number(static_cast<int64_t>(page_size - size_))});
    jump_slow(0x87);  // ja
    emit(ZYDIS_MNEMONIC_MOV, {reg(bits_), reg(address_)});
    emit(ZYDIS_MNEMONIC_SHR, {reg(bits_), number(3)});
    emit(ZYDIS_MNEMONIC_MOV, {reg(bits_), memory(entry_, offsetof(StoreTableEntry, watched), 8, bits_, 1)});
    emit(ZYDIS_MNEMONIC_MOV, {reg(half(rcx)), reg(half(address_))});
    emit(ZYDIS_MNEMONIC_AND, {reg(half(rcx)), number(7)});
    emit(ZYDIS_MNEMONIC_SHR, {reg(bits_), reg(ZYDIS_REGISTER_CL)});
    emit(ZYDIS_MNEMONIC_TEST,
         {reg(half(bits_)), number(size_ == 32 ? -1 : static_cast<int64_t>((uint64_t{1} << size_) - 1))});
    jump_slow(0x85);  // jne
    if (may_need_alignment(store)) {
      emit(ZYDIS_MNEMONIC_TEST, {reg(half(address_)), number(static_cast<int64_t>(size_ - 1))});
      jump_slow(0x85);
    }
    emit(ZYDIS_MNEMONIC_ADD, {reg(address_), memory(entry_, offsetof(StoreTableEntry, writable))});
    put_back();
  }

  // Whether the store faults at an unaligned address. It must then fault at its original place.
  bool may_need_alignment(const Instruction& store) const {
    if (size_ < 16) return false;
    switch (store.decoded.mnemonic) {
      case ZYDIS_MNEMONIC_MOVUPS:
      case ZYDIS_MNEMONIC_MOVUPD:
      case ZYDIS_MNEMONIC_MOVDQU:
      case ZYDIS_MNEMONIC_VMOVUPS:
      case ZYDIS_MNEMONIC_VMOVUPD:
      case ZYDIS_MNEMONIC_VMOVDQU:
      case ZYDIS_MNEMONIC_VMOVDQU8:
      case ZYDIS_MNEMONIC_VMOVDQU16:
      case ZYDIS_MNEMONIC_VMOVDQU32:
      case ZYDIS_MNEMONIC_VMOVDQU64: return false;
      default: return true;
    }
  }

  // Restores the flags and all registers except the one that holds the address.
  void put_back() {
    put_flags();
    load(bits_, 4);
    load(entry_, 3);
    load(ZYDIS_REGISTER_RCX, 2);
    load(ZYDIS_REGISTER_RAX, 1);
  }

  void jump_slow(uint8_t condition) { slow_jumps_.push_back(jump_if(condition)); }

  std::span<const Instruction> window_;
  int at_ = 0;
  uint64_t size_ = 0;
  ZydisRegister address_{}, entry_{}, bits_{};
  std::vector<std::byte> rewritten_;
  std::vector<size_t> slow_jumps_;
};

// Instructions that store more or less than their operand says or at another address, or that use state which a second
// execution would see changed.
bool is_special(const Instruction& instruction) {
  switch (instruction.decoded.mnemonic) {
    case ZYDIS_MNEMONIC_BTS:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTC: return instruction.operand(1).type != ZYDIS_OPERAND_TYPE_IMMEDIATE;
    default: break;
  }
  switch (instruction.decoded.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_RET:
    case ZYDIS_CATEGORY_STRINGOP:
    case ZYDIS_CATEGORY_PUSH:
    case ZYDIS_CATEGORY_POP:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_X87_ALU:
    case ZYDIS_CATEGORY_XSAVE:
    case ZYDIS_CATEGORY_XSAVEOPT:
    case ZYDIS_CATEGORY_SCATTER: return true;
    default: return false;
  }
}

}  // namespace

bool is_patchable_store(const Instruction& instruction) {
  const int at = memory_operand(instruction);
  if (at < 0 || is_special(instruction) || instruction.decoded.address_width != 64) return false;
  const ZydisDecodedOperand& to = instruction.operand(static_cast<unsigned>(at));
  if (to.visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT || to.mem.type != ZYDIS_MEMOP_TYPE_MEM ||
      !(to.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
    return false;
  if (to.mem.segment == ZYDIS_REGISTER_FS || to.mem.segment == ZYDIS_REGISTER_GS || to.mem.base == ZYDIS_REGISTER_EIP)
    return false;
  const size_t size = to.size / 8u;
  return size > 0 && size <= widest_patched_store;
}

bool is_displaceable(const Instruction& instruction) {
  if (!only_computes(instruction)) return false;
  switch (instruction.decoded.meta.category) {
    case ZYDIS_CATEGORY_CALL:
    case ZYDIS_CATEGORY_UNCOND_BR:
    case ZYDIS_CATEGORY_COND_BR:
    case ZYDIS_CATEGORY_RET: return false;
    default: break;
  }
  switch (instruction.decoded.mnemonic) {
    // endbr64 marks a jump target. pushf and popf transfer the trap flag too.
    case ZYDIS_MNEMONIC_ENDBR64:
    case ZYDIS_MNEMONIC_POPF:
    case ZYDIS_MNEMONIC_POPFQ:
    case ZYDIS_MNEMONIC_PUSHF:
    case ZYDIS_MNEMONIC_PUSHFQ: return false;
    default: return true;
  }
}

bool ends_window(const Instruction& instruction) {
  if (instruction.decoded.operand_count == 0 || instruction.operand(0).type != ZYDIS_OPERAND_TYPE_IMMEDIATE ||
      !instruction.operand(0).imm.is_relative)
    return false;
  if (instruction.decoded.meta.category == ZYDIS_CATEGORY_COND_BR)
    return (instruction.decoded.opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
            (instruction.decoded.opcode & 0xf0) == 0x70) ||
           (instruction.decoded.opcode_map == ZYDIS_OPCODE_MAP_0F && (instruction.decoded.opcode & 0xf0) == 0x80);
  return instruction.decoded.mnemonic == ZYDIS_MNEMONIC_JMP;
}

std::optional<PadCode> build_store_patch(std::span<const Instruction> window, Addr base, Addr save) {
  StoreWriter writer(window, base, save);
  if (!writer.write()) return std::nullopt;
  return writer.finish();
}

}  // namespace friday
