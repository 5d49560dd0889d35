// The registers of a thread as gdb numbers and sizes them: general registers, x87, SSE, orig_rax, segment bases, and
// the upper halves of the AVX registers. A RegisterFile is a copy taken at one stop; the caller writes changed parts
// back to the thread. The numbering is that of target_description(), which gdb reads.
//
// AVX-512 and later state is not shown, because its place in the XSAVE area depends on the processor. It is preserved.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace friday {

// Register numbers that other files need.
enum Register : unsigned {
  kRegisterRbp = 6,
  kRegisterRsp = 7,
  kRegisterRip = 16,
  kRegisterEflags = 17,
  kRegisterFirstX87 = 24,  // from here on in the extended state
  kRegisterOrigRax = 57,   // in the general registers again
  kRegisterFirstYmmHigh = 60,
  kRegisterCount = 76,
};

// True for registers in the XSAVE area, false for those in user_regs_struct.
bool is_extended(unsigned number);

// In bytes; 0 for a number without a register.
size_t register_size(unsigned number);

struct RegisterFile {
  user_regs_struct general{};
  std::vector<std::byte> extended;  // XSAVE area in the standard format; may be empty if only `general` is needed

  // Appends the value in hexadecimal, or "xx..." if it is not available (no extended state).
  void append(std::string& out, unsigned number) const;
  // Returns false if the size is wrong or the register is not available.
  bool set(unsigned number, std::span<const std::byte> value);
};

// Replaces the parts of an XSAVE area that XSTATE_BV marks as initial by the values that the processor loads for them.
void fill_initial_state(std::vector<std::byte>& extended);

// The XML document of qXfer:features:read:target.xml.
const std::string& target_description();

}  // namespace friday
