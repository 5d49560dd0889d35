#include "core/stop/registers.h"

#include <cstddef>
#include <cstring>

namespace friday {

namespace {

#define AT(name) offsetof(user_regs_struct, name)
constexpr size_t by_encoding[16] = {AT(rax), AT(rcx), AT(rdx), AT(rbx), AT(rsp), AT(rbp), AT(rsi), AT(rdi),
                                    AT(r8),  AT(r9),  AT(r10), AT(r11), AT(r12), AT(r13), AT(r14), AT(r15)};
constexpr size_t by_remote_number[24] = {AT(rax), AT(rbx),    AT(rcx), AT(rdx), AT(rsi), AT(rdi), AT(rbp), AT(rsp),
                                         AT(r8),  AT(r9),     AT(r10), AT(r11), AT(r12), AT(r13), AT(r14), AT(r15),
                                         AT(rip), AT(eflags), AT(cs),  AT(ss),  AT(ds),  AT(es),  AT(fs),  AT(gs)};
#undef AT

uint64_t at_offset(const user_regs_struct& registers, size_t offset) {
  uint64_t value;
  std::memcpy(&value, reinterpret_cast<const char*>(&registers) + offset, sizeof value);
  return value;
}

// The number of a register within its class. Zydis answers -1 for a register that has none, whose class nobody here
// asks about.
unsigned number_of(ZydisRegister reg) { return static_cast<uint8_t>(ZydisRegisterGetId(reg)); }

// In Zydis' class GPR8, ah ch dh bh have the ids 4-7, and spl bpl sil dil start at 8.
struct ByteRegister {
  unsigned id;
  unsigned shift;
};
ByteRegister byte_register(ZydisRegister reg) {
  switch (reg) {
    case ZYDIS_REGISTER_AH: return {0, 8};
    case ZYDIS_REGISTER_CH: return {1, 8};
    case ZYDIS_REGISTER_DH: return {2, 8};
    case ZYDIS_REGISTER_BH: return {3, 8};
    default: return {number_of(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)), 0};
  }
}

}  // namespace

uint64_t general_register(const user_regs_struct& registers, unsigned id) {
  return at_offset(registers, by_encoding[id & 15]);
}

void set_general_register(user_regs_struct& registers, unsigned id, uint64_t value) {
  std::memcpy(reinterpret_cast<char*>(&registers) + by_encoding[id & 15], &value, sizeof value);
}

std::optional<uint64_t> remote_register(const user_regs_struct& registers, unsigned number) {
  if (number < 24) return at_offset(registers, by_remote_number[number]);
  if (number == 57) return registers.orig_rax;
  if (number == 58) return registers.fs_base;
  if (number == 59) return registers.gs_base;
  return std::nullopt;
}

std::optional<uint64_t> read_register(const user_regs_struct& registers, ZydisRegister reg) {
  switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR64: return general_register(registers, number_of(reg));
    case ZYDIS_REGCLASS_GPR32: return static_cast<uint32_t>(general_register(registers, number_of(reg)));
    case ZYDIS_REGCLASS_GPR16: return static_cast<uint16_t>(general_register(registers, number_of(reg)));
    case ZYDIS_REGCLASS_GPR8: {
      ByteRegister byte = byte_register(reg);
      return static_cast<uint8_t>(general_register(registers, byte.id) >> byte.shift);
    }
    default: break;
  }
  switch (reg) {
    case ZYDIS_REGISTER_RIP: return registers.rip;
    case ZYDIS_REGISTER_CS: return registers.cs;
    case ZYDIS_REGISTER_DS: return registers.ds;
    case ZYDIS_REGISTER_ES: return registers.es;
    case ZYDIS_REGISTER_FS: return registers.fs;
    case ZYDIS_REGISTER_GS: return registers.gs;
    case ZYDIS_REGISTER_SS: return registers.ss;
    default: return std::nullopt;
  }
}

bool write_register(user_regs_struct& registers, ZydisRegister reg, uint64_t value) {
  auto id = number_of(reg);
  switch (ZydisRegisterGetClass(reg)) {
    case ZYDIS_REGCLASS_GPR64: set_general_register(registers, id, value); return true;
    case ZYDIS_REGCLASS_GPR32: set_general_register(registers, id, static_cast<uint32_t>(value)); return true;
    case ZYDIS_REGCLASS_GPR16:
      set_general_register(registers, id, (general_register(registers, id) & ~0xffffull) | (value & 0xffff));
      return true;
    case ZYDIS_REGCLASS_GPR8: {
      ByteRegister byte = byte_register(reg);
      uint64_t keep = general_register(registers, byte.id) & ~(0xffull << byte.shift);
      set_general_register(registers, byte.id, keep | (value & 0xff) << byte.shift);
      return true;
    }
    default: return false;
  }
}

}  // namespace friday
