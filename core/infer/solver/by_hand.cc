#include "core/infer/solver/by_hand.h"

#include <Zydis/Zydis.h>

#include <cstddef>

#include "core/infer/solver/path.h"

namespace friday::infer {
namespace {

// The XSAVE area: offsets in bytes, in the standard format; with these three components the compact one is the same.
constexpr uint64_t kControlWordAt = 0, kControlAt = 24, kLowerAt = 160, kHeaderAt = 512, kUpperAt = 576;
constexpr uint64_t kX87 = 1, kSse = 2, kAvx = 4, kCompact = 1ull << 63;

uint64_t enabled_components() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

int offset_of(ZydisRegister reg) {
  return offset_of_general(
      static_cast<unsigned>(ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg))));
}

bool decoded(const Translated& block, ZydisDecodedInstruction* instruction, ZydisDecodedOperand* operands) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, block.bytes.data(), block.bytes.size(), instruction, operands));
}

}  // namespace

uint64_t ByHand::plain(int offset, uint64_t address) {
  return symbolic_.decide(symbolic_.register_at(offset, 8), Decision::Kind::assumption, address);
}

ByHand::Operand ByHand::memory_operand(const Translated& block) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!decoded(block, &instruction, operands) || operands[0].type != ZYDIS_OPERAND_TYPE_MEMORY) return {};
  const auto& memory = operands[0].mem;
  uint64_t address = memory.disp.has_displacement ? static_cast<uint64_t>(memory.disp.value) : 0;
  if (memory.base == ZYDIS_REGISTER_RIP) address += block.address + block.length;
  else if (memory.base != ZYDIS_REGISTER_NONE) address += plain(offset_of(memory.base), block.address);
  if (memory.index != ZYDIS_REGISTER_NONE) address += plain(offset_of(memory.index), block.address) * memory.scale;
  if (memory.segment == ZYDIS_REGISTER_FS) address += state_.guest_FS_CONST;
  if (memory.segment == ZYDIS_REGISTER_GS) address += state_.guest_GS_CONST;
  return {true, address};
}

bool ByHand::store(uint64_t address, uint64_t value, int bytes) {
  return symbolic_.machine().memory.write(address,
                                          {reinterpret_cast<const uint8_t*>(&value), static_cast<size_t>(bytes)});
}

// Which components are saved is what EDX:EAX and XCR0 have in common.
ByHand::Done ByHand::save(uint64_t address, bool compact) {
  const uint64_t wanted = (plain(offset_of_general(0), address) & 0xffffffff) | plain(offset_of_general(2), address)
                                                                                    << 32;
  const uint64_t components = wanted & enabled_components() & (kX87 | kSse | kAvx);
  Memory& memory = symbolic_.machine().memory;
  bool there = true;
  if ((components & kX87) != 0) {
    there = there && store(address + kControlWordAt, 0x37f, 8);
    for (uint64_t at = 8; at < kLowerAt; at += 8) {
      if (at != kControlAt) there = there && store(address + at, 0, 8);
    }
  }
  if ((components & (kSse | kAvx)) != 0) there = there && store(address + kControlAt, registers_of(state_).mxcsr, 4);
  for (unsigned i = 0; i < 16; ++i) {
    for (int byte = 0; byte < 32; ++byte) {
      const bool upper = byte >= 16;
      if ((components & (upper ? kAvx : kSse)) == 0) continue;
      const uint64_t to = address + (upper ? kUpperAt - 16 : kLowerAt) + 16 * i + static_cast<uint64_t>(byte);
      there = there && symbolic_.set_byte(to, symbolic_.register_at(offset_of_vector(i) + byte, 1));
    }
  }
  uint64_t before = 0;
  there = there && memory.read(address + kHeaderAt, {reinterpret_cast<uint8_t*>(&before), 8});
  there = there && store(address + kHeaderAt, compact ? components : (before & ~wanted) | components, 8);
  if (compact) there = there && store(address + kHeaderAt + 8, components | kCompact, 8);
  return there ? Done::yes : Done::no_memory;
}

ByHand::Done ByHand::restore(uint64_t address) {
  const uint64_t wanted = (plain(offset_of_general(0), address) & 0xffffffff) | plain(offset_of_general(2), address)
                                                                                    << 32;
  Memory& memory = symbolic_.machine().memory;
  uint64_t saved = 0;
  uint32_t control = 0;
  if (!memory.read(address + kHeaderAt, {reinterpret_cast<uint8_t*>(&saved), 8})) return Done::no_memory;
  if (!memory.read(address + kControlAt, {reinterpret_cast<uint8_t*>(&control), 4})) return Done::no_memory;
  if ((wanted & (kSse | kAvx)) != 0) state_.guest_SSEROUND = control >> 13 & 3;
  Expressions& expressions = symbolic_.expressions();
  for (unsigned i = 0; i < 16; ++i) {
    for (int byte = 0; byte < 32; ++byte) {
      const bool upper = byte >= 16;
      const uint64_t component = upper ? kAvx : kSse;
      if ((wanted & component) == 0) continue;
      const uint64_t from = address + (upper ? kUpperAt - 16 : kLowerAt) + 16 * i + static_cast<uint64_t>(byte);
      const Expr value = (saved & component) != 0 ? symbolic_.byte_at(from) : expressions.constant(0, 8);
      if (value == kNone) return Done::no_memory;
      symbolic_.set_register(offset_of_vector(i) + byte, value);
    }
  }
  return Done::yes;
}

ByHand::Done ByHand::base(const Translated& block, bool write) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!decoded(block, &instruction, operands)) return Done::unknown;
  const bool fs = instruction.mnemonic == ZYDIS_MNEMONIC_RDFSBASE || instruction.mnemonic == ZYDIS_MNEMONIC_WRFSBASE;
  ULong& segment = fs ? state_.guest_FS_CONST : state_.guest_GS_CONST;
  const uint64_t mask = operands[0].size == 32 ? 0xffffffff : ~0ull;
  const int offset = offset_of(operands[0].reg.value);
  if (write) segment = plain(offset, block.address) & mask;
  else symbolic_.set_register(offset, symbolic_.expressions().constant(segment & mask, 64));
  return Done::yes;
}

ByHand::Done ByHand::execute(const Translated& block) {
  Done done = Done::yes;
  switch (block.hand) {
    case Hand::nothing: break;
    case Hand::save_state:
    case Hand::restore_state: {
      const Operand operand = memory_operand(block);
      if (!operand.known) return Done::unknown;
      const bool compact = block.name.starts_with("xsavec");
      done = block.hand == Hand::save_state ? save(operand.address, compact) : restore(operand.address);
      break;
    }
    case Hand::get_control_register: {
      const uint64_t number = plain(offset_of_general(1), block.address) & 0xffffffff;
      if (number > 1) return Done::unknown;
      // Number 1 asks which components are in use; that all three are is always allowed.
      const uint64_t value = number == 0 ? enabled_components() : enabled_components() & (kX87 | kSse | kAvx);
      symbolic_.set_register(offset_of_general(0), symbolic_.expressions().constant(value & 0xffffffff, 64));
      symbolic_.set_register(offset_of_general(2), symbolic_.expressions().constant(value >> 32, 64));
      break;
    }
    case Hand::read_base:
    case Hand::write_base: done = base(block, block.hand == Hand::write_base); break;
  }
  if (done == Done::yes) state_.guest_RIP = block.address + block.length;
  return done;
}

}  // namespace friday::infer
