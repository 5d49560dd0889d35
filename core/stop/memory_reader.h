// Memory of a node, as the interpreters of plans read it.
#pragma once

#include <cstddef>
#include <span>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  virtual Result<void> read(Addr address, std::span<std::byte> out) = 0;
};

}  // namespace friday
