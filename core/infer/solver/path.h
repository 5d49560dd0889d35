// One path: the program's run from a start state to its end, under a model.
#pragma once

#include <chrono>
#include <string>

#include "core/infer/protocol.h"
#include "core/infer/solver/blocks.h"
#include "core/infer/solver/questions.h"
#include "core/infer/solver/symbolic.h"

namespace friday::infer {

// Registers at a path's start or end, and which of their bytes are which expressions' bytes.
struct StartState {
  GuestState state;
  StateShadows shadows{};
};

struct PathEnd {
  bool failed = false;
  Why why = Why::impossible;  // if it failed
  std::string text;           // likewise, for people
  uint64_t address = 0;       // of the instruction at which it ended
  End end = End::system_call;
  uint64_t instructions = 0;
};

class Runner {
 public:
  Runner(Machine& machine, Blocks& blocks, Symbolic& symbolic)
      : machine_(machine), blocks_(blocks), symbolic_(symbolic) {}
  // Runs from the start state, under the model that the expressions have now, until the program's next system call or
  // recorded instruction. The memory's path is left as it is at the end. `most`: instructions.
  PathEnd run(const StartState& start, uint64_t most, Deadline deadline);

 private:
  bool special(const Translated& block, PathEnd* end);  // false if the path ends there
  bool fail(PathEnd* end, Why why, uint64_t address, std::string text = {});

  Machine& machine_;
  Blocks& blocks_;
  Symbolic& symbolic_;
};

// The machine's registers as the protocol has them, to and from VEX's state. The x87 registers and the upper halves of
// ZMM registers are not part of it.
void set_registers(const Registers& registers, GuestState* state);
Registers registers_of(const GuestState& state);
int offset_of_general(unsigned number);  // in the guest state, as in Registers::general
int offset_of_vector(unsigned number);

}  // namespace friday::infer
