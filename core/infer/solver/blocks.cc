#include "core/infer/solver/blocks.h"

#include <Zydis/Zydis.h>

namespace friday::infer {
namespace {

constexpr int kMostInstructions = 40;
constexpr size_t kLongestInstruction = 15;
constexpr size_t kLookAhead = 64;  // bytes that VEX may look at behind the last instruction

struct Decoded {
  Special special = Special::none;
  Hand hand = Hand::nothing;
  bool ends_block = false;
  size_t length = 0;
  std::string name;
};

const ZydisDecoder& decoder() {
  static const ZydisDecoder made = [] {
    ZydisDecoder decoder;
    ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    return decoder;
  }();
  return made;
}

void classify(const ZydisDecodedInstruction& instruction, Decoded* decoded) {
  switch (instruction.mnemonic) {
    case ZYDIS_MNEMONIC_SYSCALL: decoded->special = Special::system_call; return;
    case ZYDIS_MNEMONIC_RDTSC:
    case ZYDIS_MNEMONIC_RDTSCP:
    case ZYDIS_MNEMONIC_RDRAND:
    case ZYDIS_MNEMONIC_RDSEED:
    case ZYDIS_MNEMONIC_CPUID:
    case ZYDIS_MNEMONIC_RDPID: decoded->special = Special::recorded; return;
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64: decoded->hand = Hand::save_state; break;
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64: decoded->hand = Hand::restore_state; break;
    case ZYDIS_MNEMONIC_XGETBV: decoded->hand = Hand::get_control_register; break;
    case ZYDIS_MNEMONIC_RDFSBASE:
    case ZYDIS_MNEMONIC_RDGSBASE: decoded->hand = Hand::read_base; break;
    case ZYDIS_MNEMONIC_WRFSBASE:
    case ZYDIS_MNEMONIC_WRGSBASE: decoded->hand = Hand::write_base; break;
    case ZYDIS_MNEMONIC_RDSSPD:  // without a shadow stack these two do nothing
    case ZYDIS_MNEMONIC_RDSSPQ:
    case ZYDIS_MNEMONIC_INCSSPD:
    case ZYDIS_MNEMONIC_INCSSPQ: decoded->special = Special::by_hand; return;
    default:
      if (instruction.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) decoded->special = Special::unknown;
      decoded->ends_block = instruction.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE;
      return;
  }
  decoded->special = Special::by_hand;
}

Decoded decode(const uint8_t* code, size_t available) {
  ZydisDecodedInstruction instruction;
  Decoded decoded;
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder(), nullptr, code, available, &instruction))) {
    decoded.special = available < kLongestInstruction ? Special::no_memory : Special::unknown;
    decoded.name = "bytes that are no instruction";
    return decoded;
  }
  decoded.length = instruction.length;
  decoded.name = ZydisMnemonicGetString(instruction.mnemonic);
  classify(instruction, &decoded);
  return decoded;
}

}  // namespace

void Blocks::add_summary(uint64_t address, Function function) {
  summaries_[address] = function;
  blocks_.clear();
}

void Blocks::forget() {
  summaries_.clear();
  blocks_.clear();
}

bool Blocks::still_true(const Translated& block) {
  std::vector<uint8_t> now(block.bytes.size());
  return memory_.read(block.address, now) && now == block.bytes;
}

Translated* Blocks::at(uint64_t address) {
  std::unique_ptr<Translated>& kept = blocks_[address];
  if (kept == nullptr || (kept->verified != memory_.code_changes() && !still_true(*kept))) {
    // A block that others may point to is changed in place.
    std::unique_ptr<Translated> translated = translate(address);
    if (kept == nullptr) {
      kept = std::move(translated);
    } else {
      *kept = std::move(*translated);
    }
  }
  kept->verified = memory_.code_changes();
  return kept.get();
}

void Blocks::set_special(Translated* block, const uint8_t* code, size_t available) {
  const Decoded decoded = decode(code, available);
  block->special = decoded.special;
  block->hand = decoded.hand;
  block->length = decoded.length;
  block->name = decoded.name;
  block->bytes.assign(code, code + decoded.length);
}

std::unique_ptr<Translated> Blocks::translate(uint64_t address) {
  ++translated_;
  auto block = std::make_unique<Translated>();
  block->address = address;
  if (const auto summary = summaries_.find(address); summary != summaries_.end()) {
    block->special = Special::summary;
    block->function = summary->second;
    return block;
  }
  uint8_t code[kMostInstructions * kLongestInstruction + kLookAhead] = {};
  const size_t available = memory_.read_some(address, {code, sizeof(code) - kLookAhead});
  int instructions = 0;
  size_t length = 0;
  while (instructions < kMostInstructions) {
    const Decoded next = decode(code + length, available - length);
    if (next.special != Special::none || (length > 0 && summaries_.contains(address + length))) break;
    length += next.length;
    ++instructions;
    if (next.ends_block) break;
  }
  if (available == 0) {
    block->special = Special::no_memory;
    return block;
  }
  if (instructions == 0) {
    set_special(block.get(), code, available);
    return block;
  }
  // A block with too many temporaries, or with an operation that is not known, is tried with fewer instructions.
  for (;; instructions /= 2) {
    const IRSB* lifted = lift(address, code, instructions);
    while (lifted != nullptr && compile_operations(*lifted)) lifted = lift(address, code, instructions);
    std::string unknown = "an instruction on which VEX fails";
    if (lifted != nullptr && compile(*lifted, frame_, block.get(), &unknown)) break;
    block = std::make_unique<Translated>();
    block->address = address;
    if (instructions > 1) continue;
    set_special(block.get(), code, available);
    block->special = Special::unknown;
    block->name += " (" + unknown + ")";
    return block;
  }
  block->bytes.assign(code, code + length);
  memory_.mark_code(address, length);
  return block;
}

int register_written(std::span<const uint8_t> code) {
  ZydisDecodedInstruction instruction;
  ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
  if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder(), code.data(), code.size(), &instruction, operands))) return -1;
  if (instruction.operand_count == 0 || operands[0].type != ZYDIS_OPERAND_TYPE_REGISTER) return -1;
  return ZydisRegisterGetId(ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operands[0].reg.value));
}

}  // namespace friday::infer
