// A basic block in the form in which it is interpreted: VEX's IR, compiled to an array of steps. A step holds the
// function that executes it and pointers to its operands: to a temporary of the machine, to the guest state or to a
// constant of the block. Copies and conversions that change nothing have no step.
//
// All values lie in 64-bit words: narrow ones alone in a word with zeros above, vectors of 128 and 256 bits in 2 and 4
// words.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "core/infer/solver/vex.h"

namespace friday::infer {

class Machine;
struct Step;
// Executes the step and returns the next one, or null if the block is left; Machine::left() tells why.
using Execute = const Step* (*)(const Step& step, Machine& machine);

enum class Does : uint8_t {
  operation,     // to = number(from...): an IROp
  choose,        // to = from[0] ? from[1] : from[2]
  get,           // to = from[0], of `number` bytes of the guest state
  put,           // to, of `number` bytes of the guest state, = from[0]
  get_indexed,   // to = element from[0] of extra: Indexed
  put_indexed,   // element from[0] of extra: Indexed = from[1]
  load,          // to = `number` bytes of memory at from[0]
  store,         // `number` bytes of memory at from[0] = from[1]
  load_if,       // to = from[2] ? memory at from[0], converted as extra: GuardedLoad says : from[1]
  store_if,      // from[2]: memory at from[0] = from[1]
  compare_swap,  // extra: CompareSwap
  call,          // to = function of extra: Call; it looks at its arguments only
  dirty,         // extra: Call; it may look at guest state and memory
  leave_if,      // if from[0], to extra: Exit
  leave,         // to from[0], as extra: Exit says
};

struct Step {
  Execute execute = nullptr;
  uint64_t* to = nullptr;
  const uint64_t* from[4] = {};
  const void* extra = nullptr;
  uint16_t number = 0;
  Does does = Does::operation;
  uint8_t words = 1;         // of the result
  uint16_t instruction = 0;  // which one of the block
};

struct Exit {
  uint64_t target = 0;
  IRJumpKind kind = Ijk_Boring;
};

struct Indexed {
  uint64_t base = 0;  // in the guest state
  int element = 0;    // bytes
  int count = 0;
  int bias = 0;
};

struct GuardedLoad {
  int bytes = 0;
  int to_bits = 0;
  bool is_signed = false;
};

struct CompareSwap {
  int bytes = 0;  // of one half
  const uint64_t* address = nullptr;
  const uint64_t* expected[2] = {};  // low, high; high is null for a swap of one half
  const uint64_t* data[2] = {};
  uint64_t* old[2] = {};
};

struct Call {
  enum class Argument : uint8_t { value, state, result };  // state: a pointer to the guest state; result: to the result
  const void* function = nullptr;
  const char* name = "";
  std::vector<std::pair<Argument, const uint64_t*>> arguments;
  const uint64_t* guard = nullptr;  // of a dirty call
  uint64_t* to = nullptr;           // null: none
  int result_bits = 64;
  bool reads_memory = false, writes_memory = false;
  const uint64_t* address = nullptr;  // of the memory
  int bytes = 0;
  struct Part {
    int offset = 0, bytes = 0;
    bool read = false, written = false;
  };
  std::vector<Part> parts;  // of the guest state
};

// What does not change as long as the machine lives.
struct Frame {
  GuestState* state = nullptr;
  uint64_t* temporaries = nullptr;
  size_t words = 0;
};

inline constexpr size_t kStateWords = (sizeof(GuestState) + 7) / 8;
using StateWords = std::array<uint64_t, 2>;  // a bit for each word of the guest state
static_assert(kStateWords <= 128);

struct Block {
  uint64_t address = 0;
  std::vector<uint8_t> bytes;
  std::vector<uint64_t> instructions;  // their addresses
  std::vector<Step> steps;
  StateWords reads{}, writes{};
  uint64_t verified = 0;  // Memory::code_changes() when the bytes were last compared
  // The block that came next last time.
  uint64_t next_address = 0;
  Block* next = nullptr;

  std::deque<std::array<uint64_t, 4>> constants;
  std::deque<Exit> exits;
  std::deque<Indexed> indexed;
  std::deque<GuardedLoad> guarded_loads;
  std::deque<CompareSwap> swaps;
  std::deque<Call> calls;
};

// Has VEX compile the operations that are executed by its code. True if there were any: then `from`, which lies in
// VEX's memory, does not exist any more and must be lifted again.
bool compile_operations(const IRSB& from);
// Compiles the IR, of which compile_operations() has said false. False if an operation is not known; `unknown` then
// says which.
bool compile(const IRSB& from, const Frame& frame, Block* block, std::string* unknown);

// The function that executes an operation, or null if it is executed by the code that VEX makes of it.
Execute function_of(IROp operation);
Execute function_of_native();  // Step::extra is a NativeStep
Execute function_of_get(int bytes);
Execute function_of_put(int bytes);
Execute function_of_load(int bytes);
Execute function_of_store(int bytes);
Execute function_of(Does does);  // all others

struct NativeStep {
  const NativeOperation* operation = nullptr;
  Signature signature;
};

// An operation that changes nothing where narrow values have zeros above.
bool only_widens(IROp operation);

}  // namespace friday::infer
