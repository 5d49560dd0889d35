// Interpreter of gdb's agent bytecode (gdb manual, appendix "The GDB Agent Expression Mechanism"): what
// `maint agent-eval` makes of a C or C++ expression. Runs over any memory and registers, in a bounded number of steps.
// Reentrant; no state is kept.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  virtual Result<void> read(Addr address, std::span<std::byte> out) = 0;
};

struct AgentResult {
  uint64_t value = 0;  // top of the stack at `end`; 0 when the stack is empty
  bool empty = true;   // the stack was empty: the expression only traced
  struct Block {
    uint64_t address, size;
  };
  std::vector<Block> traced;  // what trace opcodes name: the memory of a whole object
};

// Fails with bad_address and the address in the message when memory cannot be read; with unsupported on an opcode that
// needs what a debugger target alone has (trace state variables, printf); with bad_input on bytecode that is not well
// formed, divides by zero, or takes more than `step_limit` steps.
Result<AgentResult> run_agent(std::span<const std::byte> code, MemoryReader& memory, const user_regs_struct& registers,
                              uint32_t step_limit = 10000);

}  // namespace friday
