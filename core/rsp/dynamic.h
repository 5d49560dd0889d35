// What a loaded library exports and imports, by its dynamic section in the node's memory (ELF gABI, "Dynamic Section").
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/stop/node_control.h"

namespace friday {

// Addresses are those of the node; 0: the library has no such table. Sizes in bytes.
struct DynamicSection {
  uint64_t load_bias = 0;
  uint64_t gnu_hash = 0, symbols = 0, strings = 0;
  struct Relocations {
    uint64_t at = 0, size = 0;
  };
  Relocations plt, others;  // of the slots that calls go through, lazily bound or not
};

Result<DynamicSection> dynamic_section(NodeControl& node, uint64_t load_bias, uint64_t address);

// The address of an exported symbol by the library's own hash table (of a thread-local one its offset, above the load
// bias); not_found if it has none of that name.
Result<Addr> find_symbol(NodeControl& node, const DynamicSection& library, std::string_view name);

// The name of the symbol whose address the loader puts into a slot of the global offset table; not_found if the library
// has no such slot.
Result<std::string> name_of_slot(NodeControl& node, const DynamicSection& library, uint64_t slot);

// The name of the function of the C library that code of the node calls through a slot, once the loader has bound it to
// libc itself; not_found for anything else.
Result<std::string> libc_function(NodeControl& node, uint64_t slot);

}  // namespace friday
