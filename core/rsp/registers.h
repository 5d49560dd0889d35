// The registers of a thread as gdb numbers and sizes them: the amd64 core, x87, SSE, orig_rax, the segment bases, and
// the upper halves of the AVX registers. One RegisterFile holds a copy for one stop; store() of the changed parts is
// the caller's. The numbering is that of target_description(), which is what gdb is told.
//
// AVX-512 and later state is not shown: where it lies in an XSAVE area differs between processors. It is kept as it is.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace friday {

// Numbers that others need by name.
enum Register : unsigned {
  kRegisterRbp = 6,
  kRegisterRsp = 7,
  kRegisterRip = 16,
  kRegisterEflags = 17,
  kRegisterFirstX87 = 24,  // from here on in the extended state ...
  kRegisterOrigRax = 57,   // ... up to here, and again
  kRegisterFirstYmmHigh = 60,
  kRegisterCount = 76,
};

// True for registers that live in the XSAVE area rather than in user_regs_struct.
bool is_extended(unsigned number);

// Size in bytes; 0 for a number that does not exist.
size_t register_size(unsigned number);

struct RegisterFile {
  user_regs_struct general{};
  std::vector<std::byte> extended;  // an XSAVE area in standard format; may be empty when only `general` is wanted

  // Appends the value in hexadecimal, or "xx..." when it is not available (no extended state).
  void append(std::string& out, unsigned number) const;
  // False when the size is wrong or the register is not available.
  bool set(unsigned number, std::span<const std::byte> value);
};

// Gives the parts of an XSAVE area that XSTATE_BV calls initial the values that the processor would load for them.
void fill_initial_state(std::vector<std::byte>& extended);

// The XML that qXfer:features:read:target.xml answers.
const std::string& target_description();

}  // namespace friday
