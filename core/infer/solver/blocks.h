// Finds where a basic block begins and ends, has it translated, and keeps it for as long as the code's bytes are the
// same. A block ends before an instruction that is not translated: one at which runs end, one that is executed by hand,
// and the first of a function that has a summary. Such an instruction is a block of its own, without steps.
#pragma once

#include <string>
#include <unordered_map>

#include "core/infer/protocol.h"
#include "core/infer/solver/code.h"
#include "core/infer/solver/memory.h"

namespace friday::infer {

enum class Special : uint8_t {
  none,
  summary,      // the first instruction of a function with a summary
  system_call,  // syscall
  recorded,     // rdtsc, rdtscp, rdrand, rdseed, cpuid, rdpid
  by_hand,      // as Translated::hand says
  unknown,      // nobody knows it; Translated::name says what it is
  no_memory,    // there is no code
};

// Instructions that VEX 3.19 does not translate and that programs use all the same.
enum class Hand : uint8_t { nothing, save_state, restore_state, get_control_register, read_base, write_base };

struct Translated : Block {
  Special special = Special::none;
  Hand hand = Hand::nothing;
  Function function{};  // of the summary
  uint64_t length = 0;  // of the special instruction
  std::string name;
};

class Blocks {
 public:
  Blocks(Memory& memory, Frame frame) : memory_(memory), frame_(frame) {}
  void add_summary(uint64_t address, Function function);
  void forget();  // all blocks and summaries

  // The block at this address, translated if need be. It lives until forget() or add_summary().
  Translated* at(uint64_t address);
  // The block behind `block`, when control went to `address`.
  Translated* after(Translated* block, uint64_t address) {
    if (block->next_address == address && block->next != nullptr && block->next->verified == memory_.code_changes())
        [[likely]] {
      return static_cast<Translated*>(block->next);
    }
    Translated* next = at(address);
    block->next_address = address;
    block->next = next;
    return next;
  }

  size_t translated() const { return translated_; }

 private:
  bool still_true(const Translated& block);
  std::unique_ptr<Translated> translate(uint64_t address);
  void set_special(Translated* block, const uint8_t* code, size_t available);

  Memory& memory_;
  Frame frame_;
  std::unordered_map<uint64_t, std::unique_ptr<Translated>> blocks_;
  std::unordered_map<uint64_t, Function> summaries_;
  size_t translated_ = 0;
};

// The general register (0 to 15) that rdrand, rdseed or rdpid at these bytes writes, or -1.
int register_written(std::span<const uint8_t> code);

}  // namespace friday::infer
