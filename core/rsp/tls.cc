#include "core/rsp/tls.h"

#include <elf.h>

#include <array>
#include <string_view>

#include "core/rsp/libraries.h"

namespace friday {
namespace {

constexpr size_t kMostLibraries = 4096, kMostDynamicEntries = 512, kMostChain = 4096;

// The part of struct link_map that <link.h> makes public.
struct LinkMap {
  uint64_t load_bias, name, dynamic, next, previous;
};

// The exported symbols of one loaded library.
struct Symbols {
  uint64_t load_bias = 0, gnu_hash = 0, table = 0, strings = 0;
};

Result<Symbols> symbols_of(NodeControl& node, const LinkMap& library) {
  Symbols symbols{.load_bias = library.load_bias};
  // ld.so relocates these pointers in place, except where the dynamic section is read-only.
  auto relocated = [&](uint64_t pointer) { return pointer < library.load_bias ? pointer + library.load_bias : pointer; };
  for (size_t i = 0; i < kMostDynamicEntries; ++i) {
    FRIDAY_TRY(entry, read_value<Elf64_Dyn>(node, library.dynamic + i * sizeof(Elf64_Dyn)));
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_GNU_HASH) symbols.gnu_hash = relocated(entry.d_un.d_ptr);
    if (entry.d_tag == DT_SYMTAB) symbols.table = relocated(entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRTAB) symbols.strings = relocated(entry.d_un.d_ptr);
  }
  return symbols;
}

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

// The address of an exported symbol by the library's own hash table; not_found if it has none of that name.
Result<Addr> lookup(NodeControl& node, const Symbols& symbols, std::string_view name) {
  auto missing = [&] { return fail(ErrorCode::not_found, "no symbol {}", name); };
  if (!symbols.gnu_hash || !symbols.table || !symbols.strings) return missing();
  struct Header {
    uint32_t buckets, first_symbol, bloom_words, bloom_shift;
  };
  FRIDAY_TRY(header, read_value<Header>(node, symbols.gnu_hash));
  if (!header.buckets) return missing();
  uint64_t buckets = symbols.gnu_hash + sizeof(Header) + 8ull * header.bloom_words;
  uint64_t chains = buckets + 4ull * header.buckets;
  uint32_t wanted = gnu_hash(name);
  FRIDAY_TRY(index, read_value<uint32_t>(node, buckets + 4ull * (wanted % header.buckets)));
  if (index < header.first_symbol) return missing();
  for (size_t i = 0; i < kMostChain; ++i, ++index) {
    FRIDAY_TRY(hash, read_value<uint32_t>(node, chains + 4ull * (index - header.first_symbol)));
    if ((hash | 1) == (wanted | 1)) {
      FRIDAY_TRY(symbol, read_value<Elf64_Sym>(node, symbols.table + index * sizeof(Elf64_Sym)));
      FRIDAY_TRY(same, has_name(node, symbols.strings + symbol.st_name, name));
      if (same) return Addr{symbols.load_bias + symbol.st_value};
    }
    if (hash & 1) break;  // the last of its bucket
  }
  return missing();
}

// Where libc says its private fields of struct link_map are.
struct LinkMapLayout {
  uint32_t module_id = 0, static_offset = 0;  // byte offsets of l_tls_modid and l_tls_offset
};

Result<uint32_t> field_offset(NodeControl& node, const Symbols& symbols, std::string_view name) {
  FRIDAY_TRY(address, lookup(node, symbols, name));
  struct Descriptor {
    uint32_t bits, count, offset;
  };
  FRIDAY_TRY(descriptor, read_value<Descriptor>(node, address.value));
  if (descriptor.bits != 64) return fail(ErrorCode::unsupported, "{} describes a field of {} bits", name, descriptor.bits);
  return descriptor.offset;
}

// Searches all libraries that are loaded beside `link_map`, from the first one on.
Result<LinkMapLayout> find_layout(NodeControl& node, Addr link_map) {
  FRIDAY_TRY(library, read_value<LinkMap>(node, link_map.value));
  for (size_t i = 0; library.previous && i < kMostLibraries; ++i) {
    FRIDAY_TRY(previous, read_value<LinkMap>(node, library.previous));
    library = previous;
  }
  for (size_t i = 0; i < kMostLibraries; ++i) {
    if (auto symbols = symbols_of(node, library)) {
      auto module_id = field_offset(node, *symbols, "_thread_db_link_map_l_tls_modid");
      auto offset = field_offset(node, *symbols, "_thread_db_link_map_l_tls_offset");
      if (module_id && offset) return LinkMapLayout{*module_id, *offset};
    }
    if (!library.next) break;
    FRIDAY_TRY(next, read_value<LinkMap>(node, library.next));
    library = next;
  }
  return fail(ErrorCode::unsupported,
              "no loaded library describes glibc's thread-local storage (_thread_db_link_map_l_tls_modid): thread-local "
              "variables of a program with another C library cannot be read");
}

}  // namespace

Result<Addr> thread_local_address(NodeControl& node, ThreadId thread, Addr link_map, uint64_t offset) {
  FRIDAY_TRY(registers, node.registers(thread));
  uint64_t thread_pointer = registers.fs_base;
  if (!thread_pointer) return fail(ErrorCode::unsupported, "thread {} has no thread pointer yet", thread.value);
  LinkMapLayout layout;
  uint64_t module = 1;  // of the program itself, when it is static
  if (link_map.value) {
    FRIDAY_TRY(found, find_layout(node, link_map));
    layout = found;
    FRIDAY_TRY(id, read_value<uint64_t>(node, link_map.value + layout.module_id));
    module = id;
    if (!module) return fail(ErrorCode::not_found, "the library at {} has no thread-local variables", link_map);
  }
  // dtv[-1] holds the number of slots, dtv[module] the block's address, all ones before its first use.
  constexpr uint64_t kSlot = 16, kUnallocated = ~0ull;
  FRIDAY_TRY(dtv, read_value<uint64_t>(node, thread_pointer + 8));
  FRIDAY_TRY(slots, read_value<uint64_t>(node, dtv - kSlot));
  if (module <= slots) {
    FRIDAY_TRY(block, read_value<uint64_t>(node, dtv + module * kSlot));
    if (block && block != kUnallocated) return Addr{block + offset};
  }
  // A block in the static area exists even if the thread never asked for it by the dtv. 0, -1 and -2: no such block.
  if (link_map.value) {
    FRIDAY_TRY(below, read_value<uint64_t>(node, link_map.value + layout.static_offset));
    if (below && below < kUnallocated - 1) return Addr{thread_pointer - below + offset};
  }
  return fail(ErrorCode::not_found, "thread {} has not allocated this library's thread-local variables yet", thread.value);
}

}  // namespace friday
