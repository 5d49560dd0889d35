// Hides the shim's data from the program. The shim is in the loader's list like every library, and dl_iterate_phdr(3)
// reports its segments. A program that reads all writable segments, as a garbage collector does to find roots, would
// read data that is different at replay. So the loader is given a copy of the shim's program headers without writable
// segments.
#include <linux/auxvec.h>
#include <linux/elf.h>

#include "core/shim/memory.h"

namespace friday::shim {

namespace {

// struct link_map and struct r_debug of <link.h>. musl's struct dso begins with the fields of link_map.
struct LinkMap {
  uint64_t base;
  const char* name;
  const Elf64_Dyn* dynamic;
  LinkMap *next, *previous;
};
struct Debug {
  int version;
  LinkMap* first;
};

constexpr unsigned kMostHeaders = 16;
Elf64_Phdr shown[kMostHeaders];

LinkMap* first_library(const uint64_t* auxv) {
  const Elf64_Phdr* headers = nullptr;
  uint64_t count = 0, base = 0;
  for (; *auxv; auxv += 2) {
    if (auxv[0] == AT_PHDR) headers = (const Elf64_Phdr*)auxv[1];
    if (auxv[0] == AT_PHNUM) count = auxv[1];
  }
  for (uint64_t i = 0; i < count; i++)
    if (headers[i].p_type == PT_PHDR) base = (uint64_t)headers - headers[i].p_vaddr;
  for (uint64_t i = 0; i < count; i++) {
    if (headers[i].p_type != PT_DYNAMIC) continue;
    for (const Elf64_Dyn* d = (const Elf64_Dyn*)(base + headers[i].p_vaddr); d->d_tag; d++)
      if (d->d_tag == DT_DEBUG && d->d_un.d_ptr) return ((const Debug*)d->d_un.d_ptr)->first;
  }
  return nullptr;
}

}  // namespace

void hide_data(const uint64_t* auxv) {
  const Elf64_Ehdr* header = (const Elf64_Ehdr*)__ehdr_start;
  const Elf64_Phdr* own = (const Elf64_Phdr*)(__ehdr_start + header->e_phoff);
  if (header->e_phnum > kMostHeaders) return;
  for (unsigned i = 0; i < header->e_phnum; i++) {
    shown[i] = own[i];
    if ((own[i].p_type == PT_LOAD && own[i].p_flags & PF_W) || own[i].p_type == PT_GNU_RELRO) shown[i].p_type = PT_NULL;
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
