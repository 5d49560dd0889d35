#include "core/rsp/dynamic.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <vector>

#include "core/rsp/libraries.h"

namespace friday {
namespace {

constexpr size_t kMostEntries = 512, kMostChain = 4096, kMostRelocations = 1 << 20, kLongestSymbol = 512;

uint32_t gnu_hash(std::string_view name) {
  uint32_t hash = 5381;
  for (char c : name) hash = hash * 33 + static_cast<uint8_t>(c);
  return hash;
}

Result<bool> has_name(NodeControl& node, uint64_t address, std::string_view name) {
  std::string found(name.size() + 1, '\0');
  FRIDAY_TRY_VOID(node.read(Addr{address}, std::as_writable_bytes(std::span(found))));
  return found.starts_with(name) && found.back() == '\0';
}

// Finds the relocation of a slot in one of the tables; none if the slot is not in it.
Result<std::optional<Elf64_Rela>> relocation_of(NodeControl& node, const DynamicSection& library,
                                                DynamicSection::Relocations where, uint64_t slot) {
  std::vector<Elf64_Rela> all(std::min(where.size / sizeof(Elf64_Rela), kMostRelocations));
  FRIDAY_TRY_VOID(node.read(Addr{where.at}, std::as_writable_bytes(std::span(all))));
  for (const Elf64_Rela& each : all) {
    const auto type = ELF64_R_TYPE(each.r_info);
    if (each.r_offset + library.load_bias == slot && (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT))
      return each;
  }
  return std::nullopt;
}

bool is_libc(const LoadedLibrary& library) {
  return std::string_view(library.name).substr(library.name.rfind('/') + 1).starts_with("libc.so.");
}

// The mapped file at an address, in a form that identifies it; empty if there is no file.
std::string file_at(const std::vector<Mapping>& mappings, uint64_t address) {
  const auto found =
      std::ranges::find_if(mappings, [&](const Mapping& each) { return each.low <= address && address < each.high; });
  return found == mappings.end() ? "" : found->path;
}

}  // namespace

Result<DynamicSection> dynamic_section(NodeControl& node, uint64_t load_bias, uint64_t address) {
  DynamicSection library;
  library.load_bias = load_bias;
  // ld.so adds the load bias to these pointers in place, except if the dynamic section is read-only.
  auto relocated = [&](uint64_t pointer) { return pointer < load_bias ? pointer + load_bias : pointer; };
  for (size_t i = 0; i < kMostEntries; ++i) {
    FRIDAY_TRY(entry, read_value<Elf64_Dyn>(node, address + i * sizeof(Elf64_Dyn)));
    switch (entry.d_tag) {
      case DT_NULL: return library;
      case DT_GNU_HASH: library.gnu_hash = relocated(entry.d_un.d_ptr); break;
      case DT_SYMTAB: library.symbols = relocated(entry.d_un.d_ptr); break;
      case DT_STRTAB: library.strings = relocated(entry.d_un.d_ptr); break;
      case DT_JMPREL: library.plt.at = relocated(entry.d_un.d_ptr); break;
      case DT_PLTRELSZ: library.plt.size = entry.d_un.d_val; break;
      case DT_RELA: library.others.at = relocated(entry.d_un.d_ptr); break;
      case DT_RELASZ: library.others.size = entry.d_un.d_val; break;
      default: break;
    }
  }
  return library;
}

Result<Addr> find_symbol(NodeControl& node, const DynamicSection& library, std::string_view name) {
  auto missing = [&] { return fail(ErrorCode::not_found, "no symbol {}", name); };
  if (!library.gnu_hash || !library.symbols || !library.strings) return missing();
  struct Header {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  FRIDAY_TRY(header, read_value<Header>(node, library.gnu_hash));
  if (!header.buckets) return missing();
  uint64_t buckets = library.gnu_hash + sizeof(Header) + 8ull * header.bloom_words;
  uint64_t chains = buckets + 4ull * header.buckets;
  uint32_t wanted = gnu_hash(name);
  FRIDAY_TRY(index, read_value<uint32_t>(node, buckets + 4ull * (wanted % header.buckets)));
  if (index < header.first_symbol) return missing();
  for (size_t i = 0; i < kMostChain; ++i, ++index) {
    FRIDAY_TRY(hash, read_value<uint32_t>(node, chains + 4ull * (index - header.first_symbol)));
    if ((hash | 1) == (wanted | 1)) {
      FRIDAY_TRY(symbol, read_value<Elf64_Sym>(node, library.symbols + index * sizeof(Elf64_Sym)));
      FRIDAY_TRY(same, has_name(node, library.strings + symbol.st_name, name));
      if (same) return Addr{library.load_bias + symbol.st_value};
    }
    if (hash & 1) break;  // the last entry of its bucket
  }
  return missing();
}

Result<std::string> name_of_slot(NodeControl& node, const DynamicSection& library, uint64_t slot) {
  for (const auto& where : {library.plt, library.others}) {
    if (!where.size || !library.symbols || !library.strings) continue;
    FRIDAY_TRY(found, relocation_of(node, library, where, slot));
    if (!found) continue;
    FRIDAY_TRY(symbol, read_value<Elf64_Sym>(node, library.symbols + ELF64_R_SYM(found->r_info) * sizeof(Elf64_Sym)));
    return read_text(node, library.strings + symbol.st_name, kLongestSymbol);
  }
  return fail(ErrorCode::not_found, "no import at {:#x}", slot);
}

Result<std::string> libc_function(NodeControl& node, uint64_t slot) {
  FRIDAY_TRY(bound, read_value<uint64_t>(node, slot));
  FRIDAY_TRY(mappings, node.mappings());
  FRIDAY_TRY(loaded, loaded_libraries(node));
  const std::string target = file_at(mappings, bound);
  if (target.empty() || std::ranges::none_of(loaded.libraries, [&](const auto& each) {
        return is_libc(each) && file_at(mappings, each.base) == target;
      }))
    return fail(ErrorCode::not_found, "what {:#x} leads to is not libc's", slot);
  FRIDAY_TRY(program, read_value<link_map>(node, loaded.program));
  loaded.libraries.push_back({"", loaded.program, program.l_addr, reinterpret_cast<uint64_t>(program.l_ld), 0});
  for (const LoadedLibrary& each : loaded.libraries)
    if (auto library = dynamic_section(node, each.base, each.dynamic))
      if (auto name = name_of_slot(node, *library, slot)) return name;
  return fail(ErrorCode::not_found, "no import at {:#x}", slot);
}

}  // namespace friday
