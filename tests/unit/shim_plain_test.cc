// The shim's own table of instructions that may take part in a pure spin (core/shim/plain.h) beside a decoder: all
// one-byte and two-byte opcodes, with every modrm byte, behind the prefixes that the table passes over.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

#include <Zydis/Zydis.h>

#include "core/shim/plain.h"

namespace friday::shim {
namespace {

// Why what the instruction does would not show in the general registers and flags, or would be another thing the next
// time; empty if neither is so.
std::string hidden_effect(const ZydisDecodedInstruction& in, const ZydisDecodedOperand* operands) {
  switch (in.meta.category) {
    case ZYDIS_CATEGORY_SYSCALL:
    case ZYDIS_CATEGORY_SYSRET:
    case ZYDIS_CATEGORY_SYSTEM:
    case ZYDIS_CATEGORY_INTERRUPT:
    case ZYDIS_CATEGORY_IO:
    case ZYDIS_CATEGORY_IOSTRINGOP:
    case ZYDIS_CATEGORY_STRINGOP: return "it is more than one step, or the kernel's";
    default: break;
  }
  switch (in.mnemonic) {
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_RDPID:
    case ZYDIS_MNEMONIC_XGETBV:
    case ZYDIS_MNEMONIC_XBEGIN:
    case ZYDIS_MNEMONIC_XEND:
    case ZYDIS_MNEMONIC_XABORT:
    case ZYDIS_MNEMONIC_HLT: return "execution does not determine its result";
    default: break;
  }
  for (unsigned i = 0; i < in.operand_count; i++) {
    const ZydisDecodedOperand& operand = operands[i];
    const bool written = operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
    const bool read = operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ;
    if (!written) continue;
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER) {
      switch (ZydisRegisterGetClass(operand.reg.value)) {
        case ZYDIS_REGCLASS_GPR8:
        case ZYDIS_REGCLASS_GPR16:
        case ZYDIS_REGCLASS_GPR32:
        case ZYDIS_REGCLASS_GPR64:
        case ZYDIS_REGCLASS_FLAGS:
        case ZYDIS_REGCLASS_IP: break;
        default: return std::string("it writes to ") + ZydisRegisterGetString(operand.reg.value);
      }
    }
    // An exchange leaves in memory what was in a register, and shows what was in memory.
    const bool exchange = in.mnemonic == ZYDIS_MNEMONIC_XCHG || in.mnemonic == ZYDIS_MNEMONIC_CMPXCHG;
    if (operand.type == ZYDIS_OPERAND_TYPE_MEMORY && read && !exchange)
      return "it computes with memory and stores there";
  }
  return "";
}

class PlainInstructions : public testing::Test {
 protected:
  void SetUp() override { ZydisDecoderInit(&decoder_, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64); }

  // Fails the test if the table takes these bytes for plain and the decoder does not.
  void look(const std::array<uint8_t, 16>& bytes) {
    if (!is_plain(bytes.data())) return;
    ZydisDecodedInstruction in;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder_, bytes.data(), bytes.size(), &in, operands))) return;
    plain_++;
    if (std::string why = hidden_effect(in, operands); !why.empty() && ++wrong_ < 20) {
      std::string code;
      for (unsigned i = 0; i < in.length; i++) code += testing::PrintToString(static_cast<int>(bytes[i])) + " ";
      ADD_FAILURE() << code << "(" << ZydisMnemonicGetString(in.mnemonic) << "): " << why;
    }
  }

  ZydisDecoder decoder_;
  unsigned plain_ = 0, wrong_ = 0;
};

TEST_F(PlainInstructions, ShowAllTheyDoInRegistersOrStoreTheSameAgain) {
  static constexpr std::array<uint8_t, 3> kPrefixes[] = {{},           {0x66},       {0xf0},       {0xf3},
                                                         {0x64},       {0x48},       {0x44},       {0x66, 0x48},
                                                         {0xf3, 0x48}, {0xf0, 0x48}, {0x65, 0x4c}, {0x66, 0xf3, 0x48}};
  for (const auto& prefixes : kPrefixes)
    for (unsigned two = 0; two < 2; two++)
      for (unsigned opcode = 0; opcode < 256; opcode++)
        for (unsigned modrm = 0; modrm < 256; modrm++) {
          std::array<uint8_t, 16> bytes{};
          size_t at = 0;
          for (uint8_t prefix : prefixes)
            if (prefix) bytes[at++] = prefix;
          if (two) bytes[at++] = 0x0f;
          bytes[at++] = static_cast<uint8_t>(opcode);
          bytes[at++] = static_cast<uint8_t>(modrm);
          look(bytes);
        }
  EXPECT_GT(plain_, 100000u) << "the table, or the decoder, knows next to nothing";
}

}  // namespace
}  // namespace friday::shim
