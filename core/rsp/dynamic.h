// Reads a loaded library's exports and imports from its dynamic section in the node's memory (ELF gABI, "Dynamic
// Section").
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/stop/node_control.h"

namespace friday {

// Addresses are those of the node; 0 means that the library has no such table. Sizes are in bytes.
struct DynamicSection {
  uint64_t load_bias = 0;
  uint64_t gnu_hash = 0, symbols = 0, strings = 0;
  struct Relocations {
    uint64_t at = 0, size = 0;
  };
  Relocations plt, others;  // relocations of the slots that calls go through, lazily bound or not
};

Result<DynamicSection> dynamic_section(NodeControl& node, uint64_t load_bias, uint64_t address);

// Finds an exported symbol through the library's own hash table. Returns its address; for a thread-local symbol, its
// offset plus the load bias. Fails with not_found if the library has no such symbol.
Result<Addr> find_symbol(NodeControl& node, const DynamicSection& library, std::string_view name);

// The name of the symbol whose address the loader writes into a slot of the global offset table. Fails with not_found
// if the library has no such slot.
Result<std::string> name_of_slot(NodeControl& node, const DynamicSection& library, uint64_t slot);

// The name of the C library function that code of the node calls through `slot`. Fails with not_found if the loader has
// not bound the slot yet, or has bound it to anything but libc.
Result<std::string> libc_function(NodeControl& node, uint64_t slot);

}  // namespace friday
