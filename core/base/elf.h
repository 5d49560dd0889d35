// A view of a 64-bit x86 ELF file in memory. Every access is checked: in a damaged or hostile file some parts appear to
// be missing, but nothing outside the file is read. Points into the given content and owns nothing.
#pragma once

#include <elf.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace friday {

struct Elf {
  std::string_view content;
  const Elf64_Ehdr* header = nullptr;  // null if the content is no such file
  std::vector<Elf64_Phdr> segments;

  explicit Elf(std::string_view file);

  // `count` objects at file offset `offset`, or null if they do not lie inside the file.
  template <typename T>
  const T* at(uint64_t offset, uint64_t count = 1) const {
    if (offset > content.size() || count > (content.size() - offset) / sizeof(T)) return nullptr;
    return reinterpret_cast<const T*>(content.data() + offset);
  }
  std::vector<Elf64_Shdr> sections() const;
  // The first section with this name, and its contents; none if there is no such section or the file does not contain
  // its bytes.
  const Elf64_Shdr* find_section(std::string_view name) const;
  std::optional<std::string_view> section(std::string_view name) const;
  // The build id (NT_GNU_BUILD_ID), at most 20 bytes; empty if the file has none.
  std::vector<uint8_t> build_id() const;

  // The value of the first entry with this tag (DT_...) in the dynamic section; none if there is no such entry.
  std::optional<uint64_t> dynamic(int64_t tag) const;
  // The value (st_value) of the dynamic symbol with this name; none if there is no such symbol.
  std::optional<uint64_t> dynamic_symbol(std::string_view name) const;

  // Functions by name: `code`, where those are that the file defines; `words`, which the loader fills with the
  // addresses of those that it takes from other files (R_X86_64_JUMP_SLOT and R_X86_64_GLOB_DAT).
  struct Functions {
    std::unordered_set<uint64_t> code, words;
  };
  Functions functions_named(const std::unordered_set<std::string_view>& names) const;

  // The library's DT_SONAME, under which other files link to it; empty if it has none.
  std::string_view soname() const;

  // Bytes of address space that the file takes when it is loaded, its uninitialised data included; 0 if nothing of it
  // is loaded. They are counted from the address of the file's first byte.
  uint64_t loaded_size() const;

  // The file offset of a virtual address, or ~0 if the file has no bytes for it.
  uint64_t offset_of(uint64_t address) const;
  bool executable(uint64_t address) const;
  // The starts of functions, from symbols, unwind entries and Go's own table; sorted, without duplicates, in executable
  // segments only. A stripped file still has the latter two. Of a section without any, its first byte stands for them.
  std::vector<uint64_t> function_starts() const;
};

}  // namespace friday
