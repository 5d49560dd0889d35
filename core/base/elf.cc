#include "core/base/elf.h"

#include <algorithm>
#include <cstring>

namespace friday {

namespace {

// The build id in the notes of [offset, offset + size).
std::vector<uint8_t> find_build_id(const Elf& elf, uint64_t offset, uint64_t size) {
  if (size > elf.content.size() || offset > elf.content.size() - size) return {};
  for (const uint64_t end = offset + size; offset + sizeof(Elf64_Nhdr) <= end;) {
    const auto* note = elf.at<Elf64_Nhdr>(offset);
    if (!note) break;
    uint64_t name = offset + sizeof *note, value = name + ((note->n_namesz + 3) & ~3ull);
    const auto* bytes = elf.at<uint8_t>(value, note->n_descsz);
    if (!bytes) break;
    if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz <= 20)
      return {bytes, bytes + note->n_descsz};
    offset = value + ((note->n_descsz + 3) & ~3ull);
  }
  return {};
}

void add_symbols(const Elf& elf, std::vector<uint64_t>& starts) {
  for (const Elf64_Shdr& s : elf.sections()) {
    if (s.sh_type != SHT_SYMTAB && s.sh_type != SHT_DYNSYM) continue;
    const auto* symbols = elf.at<Elf64_Sym>(s.sh_offset, s.sh_size / sizeof(Elf64_Sym));
    if (!symbols) continue;
    for (uint64_t k = 0; k < s.sh_size / sizeof(Elf64_Sym); k++) {
      unsigned type = ELF64_ST_TYPE(symbols[k].st_info);
      if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbols[k].st_shndx != SHN_UNDEF)
        starts.push_back(symbols[k].st_value);
    }
  }
}

// Adds the start of each unwind entry's code, from the sorted table of .eh_frame_hdr (Linux Standard Base).
void add_unwind_entries(const Elf& elf, std::vector<uint64_t>& starts) {
  for (const auto& s : elf.segments) {
    if (s.p_type != PT_GNU_EH_FRAME) continue;
    const auto* bytes = elf.at<uint8_t>(s.p_offset, 12);
    constexpr uint8_t kPcRelData4 = 0x1b, kData4 = 0x03, kDataRelData4 = 0x3b;
    if (!bytes || bytes[0] != 1 || bytes[1] != kPcRelData4 || bytes[2] != kData4 || bytes[3] != kDataRelData4) continue;
    uint32_t count;
    memcpy(&count, bytes + 8, 4);
    const auto* table = elf.at<int32_t>(s.p_offset + 12, uint64_t{count} * 2);
    if (!table) continue;
    for (uint32_t i = 0; i < count; i++) starts.push_back(s.p_vaddr + static_cast<int64_t>(table[2 * i]));
  }
}

}  // namespace

Elf::Elf(std::string_view file) : content(file) {
  const auto* h = at<Elf64_Ehdr>(0);
  if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64)
    return;
  // A file that contains only debug information may have no segments.
  const auto* table =
      h->e_phentsize == sizeof(Elf64_Phdr) || h->e_phnum == 0 ? at<Elf64_Phdr>(h->e_phoff, h->e_phnum) : nullptr;
  if (!table) return;
  header = h;
  segments.assign(table, table + h->e_phnum);
}

std::vector<Elf64_Shdr> Elf::sections() const {
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return {};
  const auto* table = at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  return table ? std::vector<Elf64_Shdr>(table, table + header->e_shnum) : std::vector<Elf64_Shdr>{};
}

std::optional<std::string_view> Elf::section(std::string_view name) const {
  const std::vector<Elf64_Shdr> all = sections();
  if (!header || header->e_shstrndx >= all.size()) return std::nullopt;
  const Elf64_Shdr& names = all[header->e_shstrndx];
  const char* text = at<char>(names.sh_offset, names.sh_size);
  if (!text) return std::nullopt;
  const std::string_view table(text, names.sh_size);
  for (const Elf64_Shdr& s : all) {
    if (s.sh_type == SHT_NOBITS || s.sh_name >= table.size() ||
        table.substr(s.sh_name, table.find('\0', s.sh_name) - s.sh_name) != name)
      continue;
    if (const char* bytes = at<char>(s.sh_offset, s.sh_size)) return std::string_view(bytes, s.sh_size);
  }
  return std::nullopt;
}

uint64_t Elf::loaded_size() const {
  uint64_t low = ~uint64_t{0}, high = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD) continue;
    low = std::min<uint64_t>(low, segment.p_vaddr & ~uint64_t{4095});
    high = std::max<uint64_t>(high, segment.p_vaddr + segment.p_memsz);
  }
  // Only a program that is not position-independent has addresses of its own.
  const bool fixed = header && header->e_type == ET_EXEC;
  return high - (fixed ? std::min(low, high) : 0);
}

std::vector<uint8_t> Elf::build_id() const {
  for (const auto& s : segments)
    if (s.p_type == PT_NOTE)
      if (auto id = find_build_id(*this, s.p_offset, s.p_filesz); !id.empty()) return id;
  // In a file that contains only debug information, segments describe the program's file; only sections describe this
  // one.
  for (const Elf64_Shdr& s : sections())
    if (s.sh_type == SHT_NOTE)
      if (auto id = find_build_id(*this, s.sh_offset, s.sh_size); !id.empty()) return id;
  return {};
}

std::optional<uint64_t> Elf::dynamic(int64_t tag) const {
  for (const auto& s : segments) {
    if (s.p_type != PT_DYNAMIC) continue;
    const uint64_t count = s.p_filesz / sizeof(Elf64_Dyn);
    const auto* entries = at<Elf64_Dyn>(s.p_offset, count);
    for (uint64_t i = 0; entries && i < count && entries[i].d_tag != DT_NULL; i++)
      if (entries[i].d_tag == tag) return entries[i].d_un.d_val;
  }
  return std::nullopt;
}

std::optional<uint64_t> Elf::dynamic_symbol(std::string_view name) const {
  const auto table = dynamic(DT_SYMTAB), hash = dynamic(DT_HASH), text = dynamic(DT_STRTAB);
  if (!table || !text) return std::nullopt;
  // Without DT_HASH nothing says how many symbols there are; the table ends where the names begin, or before.
  uint64_t count = (*text - *table) / sizeof(Elf64_Sym);
  if (const auto* words = hash ? at<uint32_t>(offset_of(*hash), 2) : nullptr) count = words[1];
  const auto* symbols = at<Elf64_Sym>(offset_of(*table), count);
  const std::string_view names = content.substr(std::min<uint64_t>(offset_of(*text), content.size()));
  for (uint64_t i = 1; symbols && i < count; i++) {
    if (symbols[i].st_name >= names.size()) continue;
    const std::string_view from = names.substr(symbols[i].st_name);
    if (from.substr(0, from.find('\0')) == name) return symbols[i].st_value;
  }
  return std::nullopt;
}

std::string_view Elf::soname() const {
  const auto name = dynamic(DT_SONAME), names = dynamic(DT_STRTAB), size = dynamic(DT_STRSZ);
  const char* text = name && names && size && *name < *size ? at<char>(offset_of(*names), *size) : nullptr;
  return text ? std::string_view(text + *name, strnlen(text + *name, *size - *name)) : std::string_view();
}

uint64_t Elf::offset_of(uint64_t address) const {
  for (const auto& s : segments)
    if (s.p_type == PT_LOAD && address >= s.p_vaddr && address < s.p_vaddr + s.p_filesz)
      return address - s.p_vaddr + s.p_offset;
  return ~0ull;
}

bool Elf::executable(uint64_t address) const {
  return std::ranges::any_of(segments, [&](const auto& s) {
    return s.p_type == PT_LOAD && (s.p_flags & PF_X) && address >= s.p_vaddr && address < s.p_vaddr + s.p_filesz;
  });
}

std::vector<uint64_t> Elf::function_starts() const {
  std::vector<uint64_t> starts;
  add_symbols(*this, starts);
  add_unwind_entries(*this, starts);
  std::erase_if(starts, [&](uint64_t a) { return !executable(a); });
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

}  // namespace friday
