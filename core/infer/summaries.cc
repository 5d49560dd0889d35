#include "core/infer/summaries.h"

#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/elf.h"
#include "core/base/mapped_file.h"

namespace friday::infer {

namespace {

const std::unordered_map<std::string_view, Function>& known_functions() {
  static const std::unordered_map<std::string_view, Function> known = {
      {"memcpy", Function::memcpy},
      {"memmove", Function::memmove},
      {"mempcpy", Function::mempcpy},
      {"__mempcpy", Function::mempcpy},
      {"memset", Function::memset},
      {"memcmp", Function::memcmp},
      {"bcmp", Function::bcmp},
      {"__memcmpeq", Function::bcmp},
      {"memchr", Function::memchr},
      {"rawmemchr", Function::rawmemchr},
      {"__rawmemchr", Function::rawmemchr},
      {"memrchr", Function::memrchr},
      {"strlen", Function::strlen},
      {"strnlen", Function::strnlen},
      {"strcmp", Function::strcmp},
      {"strncmp", Function::strncmp},
      {"strcasecmp", Function::strcasecmp},
      {"__strcasecmp", Function::strcasecmp},
      {"strncasecmp", Function::strncasecmp},
      {"strchr", Function::strchr},
      {"index", Function::strchr},
      {"strchrnul", Function::strchrnul},
      {"strrchr", Function::strrchr},
      {"rindex", Function::strrchr},
      {"strcpy", Function::strcpy},
      {"strncpy", Function::strncpy},
      {"stpcpy", Function::stpcpy},
      {"__stpcpy", Function::stpcpy},
      {"strcat", Function::strcat},
      {"strspn", Function::strspn},
      {"strcspn", Function::strcspn},
      {"strpbrk", Function::strpbrk},
      {"__memcpy_chk", Function::memcpy},
      {"__memmove_chk", Function::memmove},
      {"__mempcpy_chk", Function::mempcpy},
      {"__memset_chk", Function::memset},
      {"__strcpy_chk", Function::strcpy},
      {"__strcat_chk", Function::strcat},
      {"__strncpy_chk", Function::strncpy},
      {"__stpcpy_chk", Function::stpcpy},
      {"memmem", Function::memmem},
      {"strstr", Function::strstr},
  };
  return known;
}

// The name of a symbol in `strings`; empty if it has none there.
std::string_view name_in(std::string_view strings, uint64_t at) {
  const std::string_view from = at < strings.size() ? strings.substr(at) : std::string_view();
  return from.substr(0, from.find('\0'));
}

// The dynamic symbols of a file, which its relocations name.
struct DynamicSymbols {
  const Elf64_Sym* symbols = nullptr;
  uint64_t count = 0;
  std::string_view strings;

  explicit DynamicSymbols(const Elf& elf) {
    const std::vector<Elf64_Shdr> sections = elf.sections();
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
      const Elf64_Shdr& text = sections[section.sh_link];
      const char* bytes = elf.at<char>(text.sh_offset, text.sh_size);
      count = section.sh_size / sizeof(Elf64_Sym);
      symbols = elf.at<Elf64_Sym>(section.sh_offset, count);
      if (!bytes || !symbols) count = 0;
      else strings = {bytes, text.sh_size};
      return;
    }
  }
  // By what function the name is known; none if it is not.
  std::optional<Function> known(uint64_t index) const {
    if (index >= count) return std::nullopt;
    const auto found = known_functions().find(name_in(strings, symbols[index].st_name));
    return found == known_functions().end() ? std::nullopt : std::optional(found->second);
  }
};

// A file that is mapped from its first byte on.
struct LoadedFile {
  std::string path;
  uint64_t low = ~uint64_t{0};
};

class Search {
 public:
  Search(NodeControl& node, const std::vector<Mapping>& mappings) : node_(node), mappings_(mappings) {}

  void look_at(const LoadedFile& file) {
    const auto mapped = MappedFile::open(file.path);
    if (!mapped) return;
    const Elf elf(mapped->text());
    const auto base = base_of(file, elf);
    if (!base) return;
    const DynamicSymbols symbols(elf);
    // By the address of the resolver, which picks one of the implementations.
    std::unordered_map<uint64_t, Function> resolvers;
    for (uint64_t i = 0; i < symbols.count; i++) {
      const Elf64_Sym& symbol = symbols.symbols[i];
      const auto known = symbols.known(i);
      if (!known || symbol.st_shndx == SHN_UNDEF) continue;
      if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) resolvers[symbol.st_value] = *known;
      else if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) found[*base + symbol.st_value] = *known;
    }
    for (const Elf64_Shdr& section : elf.sections()) {
      if (section.sh_type != SHT_RELA) continue;
      const uint64_t count = section.sh_size / sizeof(Elf64_Rela);
      const auto* entries = elf.at<Elf64_Rela>(section.sh_offset, count);
      for (uint64_t i = 0; entries && i < count; i++) look_at(file, *base, symbols, resolvers, entries[i]);
    }
  }

  std::map<uint64_t, Function> found;

 private:
  void look_at(const LoadedFile& file, uint64_t base, const DynamicSymbols& symbols,
               const std::unordered_map<uint64_t, Function>& resolvers, const Elf64_Rela& entry) {
    const uint64_t type = ELF64_R_TYPE(entry.r_info);
    std::optional<Function> function;
    if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) {
      function = symbols.known(ELF64_R_SYM(entry.r_info));
    } else if (type == R_X86_64_IRELATIVE) {
      const auto resolver = resolvers.find(static_cast<uint64_t>(entry.r_addend));
      if (resolver != resolvers.end()) function = resolver->second;
    }
    uint64_t target = 0;
    if (!function || !node_.read(Addr{base + entry.r_offset}, std::as_writable_bytes(std::span(&target, 1)))) return;
    // A slot that has not been resolved yet leads back into the file's own table.
    if (target && (type == R_X86_64_IRELATIVE || !is_in(file, target))) found[target] = *function;
  }
  // What is added to the file's addresses; none if nothing of it is loaded from its first byte on.
  static std::optional<uint64_t> base_of(const LoadedFile& file, const Elf& elf) {
    if (!elf.header) return std::nullopt;
    for (const Elf64_Phdr& segment : elf.segments)
      if (segment.p_type == PT_LOAD && segment.p_offset == 0) return file.low - (segment.p_vaddr & ~uint64_t{4095});
    return std::nullopt;
  }
  bool is_in(const LoadedFile& file, uint64_t target) const {
    for (const Mapping& mapping : mappings_)
      if (target >= mapping.low && target < mapping.high) return mapping.path == file.path;
    return true;  // nowhere
  }

  NodeControl& node_;
  const std::vector<Mapping>& mappings_;
};

}  // namespace

std::map<uint64_t, Function> find_summaries(NodeControl& node) {
  const auto mappings = node.mappings();
  if (!mappings) return {};
  std::map<std::string, LoadedFile> files;
  for (const Mapping& mapping : *mappings) {
    if (mapping.path.empty() || mapping.offset != 0) continue;
    LoadedFile& file = files[mapping.path];
    file.path = mapping.path;
    file.low = std::min(file.low, mapping.low);
  }
  Search search(node, *mappings);
  for (const auto& [path, file] : files) search.look_at(file);
  return search.found;
}

}  // namespace friday::infer
