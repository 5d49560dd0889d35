#include "core/rsp/tls.h"

#include <string_view>

#include "core/rsp/dynamic.h"
#include "core/rsp/libraries.h"

namespace friday {
namespace {

// The public part of struct link_map, from <link.h>.
struct LinkMap {
  uint64_t load_bias, name, dynamic, next, previous;
};

// The offsets of libc's private fields of struct link_map.
struct LinkMapLayout {
  uint32_t module_id = 0, static_offset = 0;  // of l_tls_modid and l_tls_offset, in bytes
};

Result<uint32_t> field_offset(NodeControl& node, const DynamicSection& symbols, std::string_view name) {
  FRIDAY_TRY(address, find_symbol(node, symbols, name));
  struct Descriptor {
    uint32_t bits, count, offset;
  };
  FRIDAY_TRY(descriptor, read_value<Descriptor>(node, address.value));
  if (descriptor.bits != 64)
    return fail(ErrorCode::unsupported, "{} describes a field of {} bits", name, descriptor.bits);
  return descriptor.offset;
}

// Searches all loaded libraries of the list that contains `link_map`, from its head.
Result<LinkMapLayout> find_layout(NodeControl& node, Addr link_map) {
  FRIDAY_TRY(library, read_value<LinkMap>(node, link_map.value));
  for (size_t i = 0; library.previous && i < kMostLibraries; ++i) {
    FRIDAY_TRY(previous, read_value<LinkMap>(node, library.previous));
    library = previous;
  }
  for (size_t i = 0; i < kMostLibraries; ++i) {
    if (auto symbols = dynamic_section(node, library.load_bias, library.dynamic)) {
      auto module_id = field_offset(node, *symbols, "_thread_db_link_map_l_tls_modid");
      auto offset = field_offset(node, *symbols, "_thread_db_link_map_l_tls_offset");
      if (module_id && offset) return LinkMapLayout{*module_id, *offset};
    }
    if (!library.next) break;
    FRIDAY_TRY(next, read_value<LinkMap>(node, library.next));
    library = next;
  }
  return fail(
      ErrorCode::unsupported,
      "no loaded library describes glibc's thread-local storage (_thread_db_link_map_l_tls_modid): thread-local "
      "variables of a program with another C library cannot be read");
}

}  // namespace

Result<Addr> thread_local_address(NodeControl& node, ThreadId thread, Addr link_map, uint64_t offset) {
  FRIDAY_TRY(registers, node.registers(thread));
  uint64_t thread_pointer = registers.fs_base;
  if (!thread_pointer) return fail(ErrorCode::unsupported, "thread {} has no thread pointer yet", thread.value);
  LinkMapLayout layout;
  uint64_t module = 1;  // the module id of a static program
  if (link_map.value) {
    FRIDAY_TRY(found, find_layout(node, link_map));
    layout = found;
    FRIDAY_TRY(id, read_value<uint64_t>(node, link_map.value + layout.module_id));
    module = id;
    if (!module) return fail(ErrorCode::not_found, "the library at {} has no thread-local variables", link_map);
  }
  // dtv[-1] is the number of slots. dtv[module] is the address of the block, or all ones before the block's first use.
  constexpr uint64_t kSlot = 16, kUnallocated = ~0ull;
  FRIDAY_TRY(dtv, read_value<uint64_t>(node, thread_pointer + 8));
  FRIDAY_TRY(slots, read_value<uint64_t>(node, dtv - kSlot));
  if (module <= slots) {
    FRIDAY_TRY(block, read_value<uint64_t>(node, dtv + module * kSlot));
    if (block && block != kUnallocated) return Addr{block + offset};
  }
  // A block in the static TLS area exists even if the thread has never accessed it through the dtv. The offsets 0, -1
  // and -2 mean that the module has no such block.
  if (link_map.value) {
    FRIDAY_TRY(below, read_value<uint64_t>(node, link_map.value + layout.static_offset));
    if (below && below < kUnallocated - 1) return Addr{thread_pointer - below + offset};
  }
  return fail(ErrorCode::not_found, "thread {} has not allocated this library's thread-local variables yet",
              thread.value);
}

Result<Addr> errno_address(NodeControl& node, ThreadId thread) {
  FRIDAY_TRY(loaded, loaded_libraries(node));
  for (const LoadedLibrary& each : loaded.libraries) {
    auto library = dynamic_section(node, each.base, each.dynamic);
    if (!library) continue;
    if (auto symbol = find_symbol(node, *library, "errno"))
      return thread_local_address(node, thread, Addr{each.link_map}, symbol->value - each.base);
  }
  return fail(ErrorCode::not_found, "no loaded library has errno");
}

}  // namespace friday
