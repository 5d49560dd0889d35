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

// Reads numbers one after the other. What lies behind the end reads as 0, and `past_end` says so.
struct Numbers {
  std::string_view bytes;
  size_t at = 0;
  bool past_end = false;

  template <typename T>
  T take() {
    T value{};
    if (at > bytes.size() || bytes.size() - at < sizeof value) past_end = true;
    else memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  }
  uint64_t take_leb() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<uint8_t>();
      value |= uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80)) break;
    }
    return value;
  }
};

// How the addresses are encoded of the code that an entry of .eh_frame is about: what its CIE says behind the letter R
// (Linux Standard Base, Exception Frames). 0xff: it cannot be told.
uint8_t address_encoding(std::string_view section, size_t cie) {
  constexpr uint8_t kUnknown = 0xff;
  Numbers in{section, cie + 8};
  in.take<uint8_t>();  // version
  const size_t from = in.at, to = section.find('\0', from);
  if (to == std::string_view::npos) return kUnknown;
  const std::string_view letters = section.substr(from, to - from);
  in.at = to + 1;
  for (unsigned i = 0; i < 3; i++) in.take_leb();  // alignment of code and data, register of the return address
  if (letters.empty() || letters[0] != 'z') return letters.empty() ? 0 : kUnknown;
  in.take_leb();
  for (const char letter : letters.substr(1)) {
    if (letter == 'R') return in.take<uint8_t>();
    if (letter == 'L') in.take<uint8_t>();
    else if (letter == 'P') {
      const uint8_t size = in.take<uint8_t>() & 7;  // of the personality routine: 2, 4 or 8 bytes
      in.at += size == 2 ? 2 : size == 3 ? 4 : 8;
    } else if (letter != 'S' && letter != 'B') return kUnknown;
  }
  return 0;
}

// Adds the start of each unwind entry's code, from .eh_frame itself. Statically linked programs have no table of its
// entries.
void add_unwind_section(const Elf& elf, std::vector<uint64_t>& starts) {
  constexpr uint8_t kRelative = 0x10, kAbsolute4 = 0x03, kAbsolute8 = 0x00, kSigned4 = 0x0b;
  const auto* header = elf.find_section(".eh_frame");
  const auto section = header ? elf.section(".eh_frame") : std::nullopt;
  if (!section) return;
  for (size_t at = 0; at < section->size();) {
    Numbers in{*section, at};
    const auto size = in.take<uint32_t>(), cie = in.take<uint32_t>();
    if (in.past_end || size < 4 || size == ~0u) return;
    at += 4 + size_t{size};
    if (cie == 0 || cie > in.at - 4) continue;  // this is a CIE itself, or nonsense
    const uint8_t encoding = address_encoding(*section, in.at - 4 - cie);
    const uint64_t place = header->sh_addr + in.at, base = encoding & kRelative ? place : 0;
    switch (encoding & ~kRelative) {
      case kAbsolute8: starts.push_back(base + in.take<uint64_t>()); break;
      case kAbsolute4: starts.push_back(base + in.take<uint32_t>()); break;
      case kSigned4: starts.push_back(base + static_cast<uint64_t>(int64_t{in.take<int32_t>()})); break;
      default: break;
    }
  }
}

// Adds the functions of a program in Go, which has no unwind entries: the table of Go's own runtime, which a stripped
// program has too (src/runtime/symtab.go and src/debug/gosym/pclntab.go; the form since Go 1.18).
void add_go_functions(const Elf& elf, std::vector<uint64_t>& starts) {
  const auto table = elf.section(".gopclntab");
  if (!table) return;
  constexpr uint32_t kGo118 = 0xfffffff0, kGo120 = 0xfffffff1;
  Numbers in{*table};
  const auto magic = in.take<uint32_t>();
  in.take<uint16_t>();
  const auto quantum = in.take<uint8_t>(), pointer = in.take<uint8_t>();
  const auto count = in.take<uint64_t>();
  in.take<uint64_t>();  // number of files
  auto text = in.take<uint64_t>();
  for (unsigned i = 0; i < 4; i++) in.take<uint64_t>();  // offsets of names, compilation units, files and line tables
  const auto functions = in.take<uint64_t>();
  if ((magic != kGo118 && magic != kGo120) || quantum != 1 || pointer != 8 || functions > table->size()) return;
  // In a position-independent program a relocation has the address.
  if (const auto* section = text == 0 ? elf.find_section(".text") : nullptr) text = section->sh_addr;
  in.at = functions;
  for (uint64_t i = 0; i < count; i++) {
    const auto from = in.take<uint32_t>();
    in.take<uint32_t>();  // where the function is described
    if (in.past_end) return;
    starts.push_back(text + from);
  }
}

// Of an executable section in which nothing is known to start, decoding begins at its first byte.
void add_unknown_sections(const Elf& elf, std::vector<uint64_t>& starts) {
  std::vector<uint64_t> more;
  for (const Elf64_Shdr& s : elf.sections()) {
    if (s.sh_type != SHT_PROGBITS || !(s.sh_flags & SHF_EXECINSTR)) continue;
    const auto first = std::ranges::lower_bound(starts, s.sh_addr);
    if (first == starts.end() || *first - s.sh_addr >= s.sh_size) more.push_back(s.sh_addr);
  }
  starts.insert(starts.end(), more.begin(), more.end());
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

const Elf64_Shdr* Elf::find_section(std::string_view name) const {
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum) return nullptr;
  const auto* all = at<Elf64_Shdr>(header->e_shoff, header->e_shnum);
  if (!all) return nullptr;
  const Elf64_Shdr& names = all[header->e_shstrndx];
  const char* text = at<char>(names.sh_offset, names.sh_size);
  if (!text) return nullptr;
  const std::string_view table(text, names.sh_size);
  for (const auto* s = all; s < all + header->e_shnum; s++) {
    if (s->sh_type != SHT_NOBITS && s->sh_name < table.size() &&
        table.substr(s->sh_name, table.find('\0', s->sh_name) - s->sh_name) == name &&
        at<char>(s->sh_offset, s->sh_size))
      return s;
  }
  return nullptr;
}

std::optional<std::string_view> Elf::section(std::string_view name) const {
  const Elf64_Shdr* s = find_section(name);
  return s ? std::optional(std::string_view(at<char>(s->sh_offset), s->sh_size)) : std::nullopt;
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

Elf::Functions Elf::functions_named(const std::unordered_set<std::string_view>& names) const {
  Functions found;
  const auto name_at = [](std::string_view text, uint64_t at) {
    const std::string_view from = at < text.size() ? text.substr(at) : std::string_view();
    return from.substr(0, from.find('\0'));
  };
  const std::vector<Elf64_Shdr> all = sections();
  for (const Elf64_Shdr& s : all) {
    if (s.sh_type != SHT_SYMTAB && s.sh_type != SHT_DYNSYM && s.sh_type != SHT_RELA) continue;
    const Elf64_Shdr* symbols = s.sh_type == SHT_RELA ? s.sh_link < all.size() ? &all[s.sh_link] : nullptr : &s;
    const Elf64_Shdr* text = symbols && symbols->sh_link < all.size() ? &all[symbols->sh_link] : nullptr;
    const char* bytes = text ? at<char>(text->sh_offset, text->sh_size) : nullptr;
    const uint64_t count = symbols ? symbols->sh_size / sizeof(Elf64_Sym) : 0;
    const auto* symbol = symbols ? at<Elf64_Sym>(symbols->sh_offset, count) : nullptr;
    if (!bytes || !symbol) continue;
    const std::string_view strings(bytes, text->sh_size);
    if (s.sh_type != SHT_RELA) {
      for (uint64_t i = 0; i < count; i++)
        if (ELF64_ST_TYPE(symbol[i].st_info) == STT_FUNC && symbol[i].st_shndx != SHN_UNDEF &&
            names.contains(name_at(strings, symbol[i].st_name)))
          found.code.insert(symbol[i].st_value);
      continue;
    }
    const uint64_t entries = s.sh_size / sizeof(Elf64_Rela);
    const auto* entry = at<Elf64_Rela>(s.sh_offset, entries);
    for (uint64_t i = 0; entry && i < entries; i++) {
      const uint64_t type = ELF64_R_TYPE(entry[i].r_info), of = ELF64_R_SYM(entry[i].r_info);
      if ((type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT) && of < count &&
          names.contains(name_at(strings, symbol[of].st_name)))
        found.words.insert(entry[i].r_offset);
    }
  }
  return found;
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
  const size_t symbols = starts.size();
  add_unwind_entries(*this, starts);
  if (starts.size() == symbols) add_unwind_section(*this, starts);
  add_go_functions(*this, starts);
  std::sort(starts.begin(), starts.end());
  add_unknown_sections(*this, starts);
  std::erase_if(starts, [&](uint64_t a) { return !executable(a); });
  std::sort(starts.begin(), starts.end());
  starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
  return starts;
}

}  // namespace friday
