// A view of a 64-bit x86 ELF file in memory. Every access is checked: a damaged or hostile file has fewer parts, never
// a read outside. Points into the content given, owns nothing.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace friday {

struct Elf {
  std::string_view content;
  const Elf64_Ehdr* header = nullptr;  // null: not such a file
  std::vector<Elf64_Phdr> segments;

  explicit Elf(std::string_view file);

  // `count` objects at `offset` of the file, or null if they do not lie inside.
  template <typename T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    if (offset > content.size() || count > (content.size() - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(content.data() + offset);
  }
  std::vector<Elf64_Shdr> sections() const;
  // Contents of the first section of this name; none if it has no bytes in the file.
  std::optional<std::string_view> section(std::string_view name) const;
  // NT_GNU_BUILD_ID, at most 20 bytes; empty if the file has none.
  std::vector<uint8_t> build_id() const;

  // What a library is linked by, DT_SONAME; empty if it has none.
  std::string_view soname() const;

  // File offset of a virtual address, or ~0.
  uint64_t offset_of(uint64_t address) const;
  bool executable(uint64_t address) const;
  // Where functions begin, by symbols and by unwind entries: in address order, each once, in executable segments only.
  // A stripped file still has its unwind entries.
  std::vector<uint64_t> function_starts() const;
};

}  // namespace friday
