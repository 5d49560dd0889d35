#include "core/debug/programs.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "core/base/elf.h"
#include "core/base/mapped_file.h"
#include "core/base/memory_map.h"
#include "core/replay/process.h"

namespace friday {
namespace {

// The bytes of address space that a file needs when it is loaded, including uninitialised data; 0 if it is not an ELF
// file.
uint64_t loaded_size(const std::string& path) {
  static std::map<std::string, uint64_t> known;  // files of recordings never change
  auto [it, fresh] = known.try_emplace(path, 0);
  if (!fresh) return it->second;
  auto content = MappedFile::open(path);
  if (!content) return 0;
  it->second = Elf(content->text()).loaded_size();
  return it->second;
}

uint64_t big_endian(const std::byte* from) {
  uint64_t value = 0;
  for (int i = 0; i < 8; i++) value = value << 8 | static_cast<uint8_t>(from[i]);
  return value;
}

// Translates the addresses at these offsets of the bytecode. Returns false if one of them is in no file.
bool move_addresses(std::vector<std::byte>& code, const std::vector<uint32_t>& addresses, const Layout& from,
                    const Layout& to) {
  for (uint32_t at : addresses) {
    if (at + 8 > code.size()) return false;
    auto place = from.place(big_endian(&code[at]));
    if (!place) return false;
    const uint64_t there = to.address(*place);
    for (unsigned i = 0; i < 8; i++) code[at + i] = static_cast<std::byte>(there >> (56 - 8 * i));
  }
  return true;
}

}  // namespace

Result<Layout> Layout::of(pid_t pid) {
  FRIDAY_TRY(maps, read_memory_map(memory_directory(pid)));
  Layout layout;
  std::map<std::string, uint64_t> bases;  // the lowest address at which the first byte of a file is mapped
  std::set<std::string> code;             // files with executable mappings
  for (const MappedRange& map : maps) {
    if (!map.path.starts_with('/')) continue;
    const bool first = map.offset == 0 && !map.shared && (!bases.contains(map.path) || map.low < bases[map.path]);
    if (first) bases[map.path] = map.low;
    if (map.protection & PROT_EXEC) code.insert(map.path);
  }
  for (const std::string& file : code) {
    auto base = bases.find(file);
    const uint64_t size = base == bases.end() ? 0 : loaded_size(file);
    if (!size) continue;
    layout.modules_.push_back({file, base->second, base->second + size});
    layout.key_ += file + '\n';
  }
  return layout;
}

std::optional<Layout::Place> Layout::place(uint64_t address) const {
  std::optional<Place> found;
  for (uint32_t i = 0; i < modules_.size(); i++) {
    if (address < modules_[i].low || address >= modules_[i].high) continue;
    if (found) return std::nullopt;
    found = {i, address - modules_[i].low};
  }
  return found;
}

std::shared_ptr<const ExpressionPlan> moved(const std::shared_ptr<const ExpressionPlan>& plan, const Layout& from,
                                            const Layout& to) {
  if (plan->kind == ExpressionPlan::Kind::gdb) return plan;
  if (!plan->movable) return nullptr;
  auto copy = std::make_shared<ExpressionPlan>(*plan);
  if (!move_addresses(copy->bytecode, copy->addresses, from, to)) return nullptr;
  if (copy->call) {
    if (!move_addresses(copy->call->function.bytecode, copy->call->function.addresses, from, to)) return nullptr;
    for (auto& argument : copy->call->arguments)
      if (!move_addresses(argument.value.bytecode, argument.value.addresses, from, to)) return nullptr;
  }
  if (copy->place && !move_addresses(copy->place->bytecode, copy->place->addresses, from, to)) return nullptr;
  return copy;
}

}  // namespace friday
