#include "core/cut/bitcode/link_object.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/cut/bitcode/record.h"

namespace friday::cut {
namespace {

constexpr uint64_t kRetain = 1 << 21;  // SHF_GNU_RETAIN, which glibc 2.36 lacks

}  // namespace

std::string link_object(const std::string& record, bool must_be_kept) {
  struct Property {
    Elf64_Nhdr note{4, 16, NT_GNU_PROPERTY_TYPE_0};
    char name[4]{'G', 'N', 'U', 0};
    uint32_t type = GNU_PROPERTY_X86_FEATURE_1_AND, bytes = 4;
    uint32_t features = GNU_PROPERTY_X86_FEATURE_1_IBT | GNU_PROPERTY_X86_FEATURE_1_SHSTK, padding = 0;
  } property;
  static_assert(sizeof(Property) == 32);
  Elf64_Ehdr head{};
  std::string file(sizeof head, '\0'), names(1, '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](std::string_view name, uint32_t type, uint64_t flags, uint64_t alignment,
                       std::string_view bytes) {
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    Elf64_Shdr section{};
    section.sh_name = static_cast<uint32_t>(names.size());
    section.sh_type = type;
    section.sh_flags = flags;
    section.sh_offset = file.size();
    section.sh_size = bytes.size();
    section.sh_addralign = alignment;
    names.append(name).push_back('\0');
    file += bytes;
    sections.push_back(section);
  };
  add(kSection, SHT_PROGBITS, 0, 1, record);
  if (must_be_kept) add(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR | kRetain, 1, {});
  add(".note.GNU-stack", SHT_PROGBITS, 0, 1, {});
  add(".note.gnu.property", SHT_NOTE, SHF_ALLOC, 8, {reinterpret_cast<const char*>(&property), sizeof property});
  const std::string all_names = names + std::string(".shstrtab") + '\0';
  add(".shstrtab", SHT_STRTAB, 0, 1, all_names);
  file.resize((file.size() + 7) / 8 * 8);
  memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_ident[EI_OSABI] = ELFOSABI_GNU;  // gives SHF_GNU_RETAIN its meaning
  head.e_type = ET_REL;
  head.e_machine = EM_X86_64;
  head.e_version = EV_CURRENT;
  head.e_shoff = file.size();
  head.e_ehsize = sizeof head;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<uint16_t>(sections.size());
  head.e_shstrndx = static_cast<uint16_t>(sections.size() - 1);
  memcpy(file.data(), &head, sizeof head);
  return file.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
}

}  // namespace friday::cut
