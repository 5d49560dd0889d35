// Interpreter of gdb's agent bytecode (gdb manual, appendix "The GDB Agent Expression Mechanism"), the form into which
// `maint agent-eval` compiles a C or C++ expression, with one instruction more: `step` (0x80) with the index of a step
// in two bytes (steps.h). Works on any memory and registers, and executes a bounded number of instructions. Reentrant
// and stateless.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/memory_reader.h"
#include "core/stop/steps.h"

namespace friday {

struct AgentResult {
  uint64_t value = 0;  // top of the stack at `end`; 0 if the stack is empty
  bool empty = true;   // the stack was empty at `end`: the expression only traced memory
  struct Block {
    uint64_t address, size;
  };
  std::vector<Block> traced;  // ranges named by trace opcodes: the memory of a whole object
};

// Fails with bad_address, naming the address, if memory cannot be read; with unsupported for an opcode that only a live
// debugger target can execute (trace state variables, printf); with bad_input if the bytecode is malformed, divides by
// zero, or executes more than `limit` instructions; and where a step fails.
Result<AgentResult> run_agent(std::span<const std::byte> code, MemoryReader& memory, const user_regs_struct& registers,
                              std::span<const PlanStep> steps = {}, uint32_t limit = 10000);

}  // namespace friday
