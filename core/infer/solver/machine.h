// The processor that executes blocks: guest state, temporaries, and why a block was left. This is the concrete half; it
// knows shadows only to stop in front of them (Left::shadows), and symbolic.h takes over there.
#pragma once

#include "core/infer/solver/code.h"
#include "core/infer/solver/memory.h"

namespace friday::infer {

enum class Left : uint8_t {
  block,      // to state.guest_RIP, as `kind` says
  shadows,    // at `at`: memory that it reads or writes has shadows
  no_memory,  // at `at`: `fault_address` does not exist
  division,   // at `at`: by zero, or the quotient is too large
};

class Machine {
 public:
  static constexpr size_t kTemporaries = 1 << 14;  // words

  explicit Machine(Memory& memory)
      : memory(memory), temporaries_(std::make_unique<std::array<uint64_t, kTemporaries>>()) {
    LibVEX_GuestAMD64_initialise(&state);
  }
  Machine(const Machine&) = delete;  // compiled blocks point into it
  Machine& operator=(const Machine&) = delete;

  Frame frame() { return {&state, temporaries_->data(), kTemporaries}; }
  // Executes a block from this step on, until it is left.
  Left run(const Step* step) {
    left = Left::block;
    while (step != nullptr) step = step->execute(*step, *this);
    return left;
  }
  // Stops at `step` for this reason.
  const Step* stop(const Step& step, Left why, uint64_t address = 0) {
    at = &step;
    left = why;
    fault_address = address;
    return nullptr;
  }
  // Loads and stores that the fast way cannot do. Null if the block was left.
  const Step* load_slowly(const Step& step, uint64_t address, uint64_t* to, int bytes);
  const Step* store_slowly(const Step& step, uint64_t address, const uint64_t* from, int bytes);
  // Calls a helper of VEX. Memory that it uses must exist and is copied to and fro.
  const Step* call_helper(const Step& step);
  const Step* compare_swap(const Step& step);
  uint8_t* element(const Indexed& array, uint64_t index) {
    const int place = (static_cast<int>(static_cast<uint32_t>(index)) + array.bias) & (array.count - 1);  // 8 of them
    return reinterpret_cast<uint8_t*>(&state) + array.base + place * array.element;
  }
  size_t temporary_number(const uint64_t* place) const { return static_cast<size_t>(place - temporaries_->data()); }
  bool is_temporary(const uint64_t* place) const { return temporary_number(place) < kTemporaries; }

  alignas(16) GuestState state;
  Memory& memory;
  Workbench bench;
  Left left = Left::block;
  IRJumpKind kind = Ijk_Boring;
  const Step* at = nullptr;
  uint64_t fault_address = 0;
  const Step* exit = nullptr;  // the step that left the block

 private:
  std::unique_ptr<std::array<uint64_t, kTemporaries>> temporaries_;
};

}  // namespace friday::infer
