#include "core/stop/passage_patch.h"

#include <vector>

#include "core/stop/patch_writer.h"
#include "core/stop/registers.h"

namespace friday {
namespace {

constexpr size_t kCount = offsetof(PassageWords, count) / 8, kWanted = offsetof(PassageWords, wanted) / 8,
                 kMatch = offsetof(PassageWords, match) / 8;
constexpr unsigned kRax = 0, kRsp = 4;

ZydisRegister general(unsigned number) {
  return ZydisRegisterEncode(ZYDIS_REGCLASS_GPR64, static_cast<ZyanU8>(number));
}

}  // namespace

std::array<uint64_t, 16> general_registers(const user_regs_struct& registers) {
  std::array<uint64_t, 16> all{};
  for (unsigned i = 0; i < all.size(); i++) all[i] = general_register(registers, i);
  return all;
}

std::optional<PassagePatch> build_passage_patch(std::span<const Instruction> window, Addr base, Addr words) {
  PatchWriter code(base, words);
  const ZydisRegister rax = ZYDIS_REGISTER_RAX;
  code.pad().means(window.front().address);
  code.save(rax, 0);
  code.take_flags();
  code.save(rax, 1);
  code.emit(ZYDIS_MNEMONIC_ADD, {code.saved(kCount), PatchWriter::number(1)});
  code.load(rax, kCount);
  code.emit(ZYDIS_MNEMONIC_CMP, {PatchWriter::reg(rax), code.saved(kWanted)});
  constexpr uint8_t kEqual = 0x84, kNotEqual = 0x85;
  const size_t counted = code.jump_if(kEqual);
  std::vector<size_t> differs;
  const auto compare = [&](unsigned number) {
    code.emit(ZYDIS_MNEMONIC_CMP, {PatchWriter::reg(general(number)), code.saved(kMatch + number)});
  };
  compare(kRsp);
  differs.push_back(code.jump_if(kNotEqual));
  for (unsigned number = 0; number < 16; number++) {
    if (number == kRax || number == kRsp) continue;
    compare(number);
    differs.push_back(code.jump_if(kNotEqual));
  }
  code.load(rax, 0);
  compare(kRax);
  const size_t matches = code.jump_if(kEqual);
  for (size_t each : differs) code.come_from(each);
  const auto put_back = [&] {
    code.load(rax, 1);
    code.put_flags();
    code.load(rax, 0);
  };
  put_back();
  PassagePatch patch{.copy = code.pad().size()};
  if (!code.displaced(window, Addr{window.back().next()})) return std::nullopt;
  code.come_from(counted);
  code.come_from(matches);
  put_back();
  patch.trap = code.pad().size();
  code.pad().bytes({0xcc});
  if (code.failed() || code.pad().size() > passage_patch_size) return std::nullopt;
  patch.code = code.pad().finish();
  return patch;
}

}  // namespace friday
