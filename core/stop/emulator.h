// Carries out one storing instruction of a stopped thread in the tracer: reads and writes memory through Access,
// changes registers and flags as the processor would. Knows the forms that programs store with; says so when it does
// not know one, and has then changed nothing.
//
// Memory is written before registers are changed, so a write that is refused leaves the thread as it was.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/instruction.h"

namespace friday {

// The thread and the memory that an instruction works on.
class StoreAccess {
 public:
  virtual ~StoreAccess() = default;
  virtual bool read(uint64_t address, std::span<std::byte> out) = 0;
  // False when the program may not write there (or Friday cannot): nothing was written.
  virtual bool write(uint64_t address, std::span<const std::byte> data) = 0;
  // The XSAVE area of the thread in the standard format; empty when it cannot be had.
  virtual std::span<const std::byte> extended_state() = 0;
};

enum class Emulated : uint8_t {
  done,
  partial,  // a rep instruction came to an address that cannot be read or written; registers say how far it came
  no,       // unknown form, or memory that cannot be read or written: nothing was changed
};

Emulated emulate_store(const Instruction& instruction, user_regs_struct& registers, StoreAccess& access);

}  // namespace friday
