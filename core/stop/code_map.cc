#include "core/stop/code_map.h"

#include <Zydis/Zydis.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "core/base/elf.h"
#include "core/base/mapped_file.h"

namespace friday {

std::shared_ptr<const CodeMap> CodeMap::of(const std::string& path) {
  static std::mutex guard;
  static std::map<std::string, std::weak_ptr<const CodeMap>> known;
  std::lock_guard lock(guard);
  if (auto map = known[path].lock()) return map;
  auto content = MappedFile::open(path);
  if (!content || !Elf(content->text()).header) return nullptr;
  auto map = std::make_shared<const CodeMap>(content->text());
  known[path] = map;
  return map;
}

CodeMap::CodeMap(std::string_view file) {
  Elf elf(file);
  for (const auto& s : elf.segments)
    if (s.p_type == PT_LOAD) segments_.push_back({s.p_offset, s.p_filesz, s.p_vaddr});
  // The last function of a section is followed only by padding up to the next section.
  std::vector<Segment> parts = segments_;
  for (const auto& s : elf.sections())
    if (s.sh_flags & SHF_EXECINSTR) parts.push_back({s.sh_offset, s.sh_size, s.sh_addr});
  const std::vector<uint64_t> starts = elf.function_starts();
  for (size_t i = 0; i < starts.size(); ++i) {
    uint64_t end = i + 1 < starts.size() ? starts[i + 1] : ~uint64_t{0};
    for (const Segment& each : parts)
      if (starts[i] >= each.address && starts[i] < each.address + each.size)
        end = std::min(end, each.address + each.size);
    functions_.push_back({starts[i], end, static_cast<uint32_t>(i)});
  }
  decode(file, elf);
  std::ranges::sort(targets_);
}

void CodeMap::decode(std::string_view file, const Elf& elf) {
  ZydisDecoder decoder;
  ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
  for (uint32_t i = 0; i < functions_.size(); ++i) {
    const Function function = functions_[i];
    const uint64_t offset = elf.offset_of(function.low);
    for (uint64_t at = function.low; at < function.high;) {
      ZydisDecodedInstruction decoded;
      const uint64_t place = offset + (at - function.low);
      if (place >= file.size() ||
          ZYAN_FAILED(ZydisDecoderDecodeInstruction(&decoder, nullptr, file.data() + place,
                                                    std::min(file.size() - place, function.high - at), &decoded))) {
        functions_[group_of(i)].open = true;
        break;
      }
      at += decoded.length;
      const bool jump = decoded.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
      if (decoded.raw.imm[0].is_relative) {
        const uint64_t target = at + static_cast<uint64_t>(decoded.raw.imm[0].value.s);
        targets_.push_back(target);
        const uint32_t other = index_of(target);
        if (other != i && other < functions_.size() && functions_[other].low != target) join(i, other);
      } else if (jump) {
        functions_[group_of(i)].open = true;
      }
    }
  }
}

uint32_t CodeMap::index_of(uint64_t address) const {
  auto it = std::ranges::upper_bound(functions_, address, {}, &Function::low);
  if (it == functions_.begin() || address >= std::prev(it)->high) return static_cast<uint32_t>(functions_.size());
  return static_cast<uint32_t>(std::prev(it) - functions_.begin());
}

uint32_t CodeMap::group_of(uint32_t index) const {
  while (functions_[index].group != index) index = functions_[index].group;
  return index;
}

void CodeMap::join(uint32_t a, uint32_t b) {
  a = group_of(a), b = group_of(b);
  if (a == b) return;
  functions_[b].group = a;
  functions_[a].open |= functions_[b].open;
}

std::optional<uint64_t> CodeMap::address_of(uint64_t file_offset) const {
  for (const Segment& each : segments_)
    if (file_offset >= each.offset && file_offset < each.offset + each.size)
      return each.address + (file_offset - each.offset);
  return std::nullopt;
}

std::optional<uint64_t> CodeMap::function_at(uint64_t address) const {
  const uint32_t index = index_of(address);
  return index < functions_.size() ? std::optional(functions_[index].low) : std::nullopt;
}

bool CodeMap::is_straight(uint64_t low, uint64_t high) const {
  const uint32_t index = index_of(low);
  if (index >= functions_.size() || high > functions_[index].high || functions_[group_of(index)].open) return false;
  auto target = std::ranges::upper_bound(targets_, low);
  return target == targets_.end() || *target >= high;
}

}  // namespace friday
