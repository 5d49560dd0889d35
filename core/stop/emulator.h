// Executes one storing instruction of a stopped thread in the tracer: accesses memory through StoreAccess and changes
// registers and flags as the processor would. Knows the forms that compilers and libc use for stores; for any other
// form it reports so and changes nothing.
//
// Memory is written before registers change, so the thread is unchanged if a write is refused.
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

// The memory and vector state that an instruction works on.
class StoreAccess {
 public:
  virtual ~StoreAccess() = default;
  virtual bool read(uint64_t address, std::span<std::byte> out) = 0;
  // Returns false, having written nothing, if the program may not write there or Friday cannot.
  virtual bool write(uint64_t address, std::span<const std::byte> data) = 0;
  // The thread's XSAVE area in the standard format; empty if it cannot be read.
  virtual std::span<const std::byte> extended_state() = 0;
};

enum class Emulated : uint8_t {
  done,
  partial,  // a rep instruction reached memory that it may not access; the registers show how far it came
  no,       // unknown form, or memory that cannot be accessed: nothing was changed
};

Emulated emulate_store(const Instruction& instruction, user_regs_struct& registers, StoreAccess& access);

}  // namespace friday
