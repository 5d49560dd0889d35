// Hides the shim's data from the program. The shim is in the loader's list like every library, and dl_iterate_phdr(3)
// reports its segments. A program that reads all writable segments, as a garbage collector does to find roots, would
// read data that is different at replay. So the loader is given a copy of the shim's program headers without writable
// segments.
#include <linux/auxvec.h>

#include "core/shim/memory.h"

namespace friday::shim {

namespace {

struct Header {  // Elf64_Ehdr, without its last fields
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, sections;
  uint32_t flags;
  uint16_t size, program_header_size, program_header_count;
};
struct ProgramHeader {  // Elf64_Phdr
  uint32_t type, flags;
  uint64_t offset, address, physical, file_size, memory_size, align;
};
constexpr uint32_t kNull = 0, kLoad = 1, kDynamic = 2, kPhdr = 6, kRelro = 0x6474e552, kWritable = 2;

struct Dynamic {
  int64_t tag;
  uint64_t value;
};
constexpr int64_t kDebug = 21;

// struct link_map and struct r_debug of <link.h>. musl's struct dso begins with the fields of link_map.
struct LinkMap {
  uint64_t base;
  const char* name;
  const Dynamic* dynamic;
  LinkMap *next, *previous;
};
struct Debug {
  int version;
  LinkMap* first;
};

constexpr unsigned kMostHeaders = 16;
ProgramHeader shown[kMostHeaders];

LinkMap* first_library(const uint64_t* auxv) {
  const ProgramHeader* headers = nullptr;
  uint64_t count = 0, base = 0;
  for (; *auxv; auxv += 2) {
    if (auxv[0] == AT_PHDR) headers = (const ProgramHeader*)auxv[1];
    if (auxv[0] == AT_PHNUM) count = auxv[1];
  }
  for (uint64_t i = 0; i < count; i++)
    if (headers[i].type == kPhdr) base = (uint64_t)headers - headers[i].address;
  for (uint64_t i = 0; i < count; i++) {
    if (headers[i].type != kDynamic) continue;
    for (const Dynamic* d = (const Dynamic*)(base + headers[i].address); d->tag; d++)
      if (d->tag == kDebug && d->value) return ((const Debug*)d->value)->first;
  }
  return nullptr;
}

}  // namespace

void hide_data(const uint64_t* auxv) {
  const Header* header = (const Header*)__ehdr_start;
  const ProgramHeader* own = (const ProgramHeader*)(__ehdr_start + header->program_headers);
  if (header->program_header_count > kMostHeaders) return;
  for (unsigned i = 0; i < header->program_header_count; i++) {
    shown[i] = own[i];
    if ((own[i].type == kLoad && own[i].flags & kWritable) || own[i].type == kRelro) shown[i].type = kNull;
  }
  LinkMap* library = first_library(auxv);
  while (library && library->base != (uint64_t)__ehdr_start) library = library->next;
  if (!library) return;
  // The loader keeps the address of the program headers behind the public fields, at an offset that depends on its
  // version. So it is searched for.
  uint64_t words[160];
  const uint64_t to[2] = {(uint64_t)words, sizeof words}, from[2] = {(uint64_t)(library + 1), sizeof words};
  const long got = native(sys::process_vm_readv, native(sys::getpid), to, 1, from, 1, 0);
  for (long i = 0; i < got / 8; i++)
    if (words[i] == (uint64_t)own) {
      ((uint64_t*)(library + 1))[i] = (uint64_t)shown;
      return;
    }
}

}  // namespace friday::shim
