// The symbolic half of the processor: executes steps of a block whose operands have shadows. A run is "concolic": the
// model gives each symbol a value, so every temporary, register and byte of memory has a plain value too, and control
// goes where these values lead. What was decided on the way because of symbols (which way a branch went, which address
// was meant) is noted as a condition on them. Steps without shadows are executed as ever.
//
// Values that only depend on symbols through an operation that is not known as an expression are assumed to be what
// they are under the model; this is noted as a condition, too, but as one that is not the program's.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <unordered_set>

#include "core/infer/solver/blocks.h"
#include "core/infer/solver/machine.h"
#include "core/infer/solver/operations.h"

namespace friday::infer {

struct Decision {
  enum class Kind : uint8_t {
    branch,      // one of two ways: the other one is where `holds` is false
    choice,      // one of many: an address that is jumped to, a length, a position
    assumption,  // one of many, which the program does not distinguish
  };
  Expr holds = kNone;  // 1 bit; true under the model
  Kind kind = Kind::branch;
  uint64_t address = 0;  // of the instruction
  bool way = true;       // of a branch: which way it went
};

using StateShadows = std::array<Shadow, sizeof(GuestState)>;  // of each byte of the guest state

class Symbolic {
 public:
  Symbolic(Machine& machine, Expressions& expressions)
      : machine_(machine), memory_(machine.memory), x_(expressions), temporaries_(Machine::kTemporaries) {}

  // Whether a condition can hold together with all that was decided; true if that is not known.
  std::function<bool(Expr condition)> may_hold = [](Expr) { return true; };
  uint64_t largest_table = 4096;  // in bytes

  // A new path: nothing is decided; these registers are shadowed.
  void start(const StateShadows& shadows);
  const StateShadows& shadows() const { return shadows_; }
  const std::vector<Decision>& decisions() const { return decisions_; }
  uint64_t touched() const { return touched_; }  // instructions that had to do with shadows

  bool concerns(const Block& block) const {
    return ((block.reads[0] | block.writes[0]) & shadowed_words_[0]) != 0 ||
           ((block.reads[1] | block.writes[1]) & shadowed_words_[1]) != 0;
  }
  // Executes a block from this step on until it is left, like Machine::run().
  Left run(const Block& block, const Step* step);

  // What library functions are made of (library.h). `bits` are 8, 16, 32 or 64.
  Expr register_at(int offset, int bytes);
  void set_register(int offset, Expr value);
  void forget_register(int offset, int bytes);  // takes its shadows away
  // A byte of memory, of 8 bits; none if it does not exist.
  Expr byte_at(uint64_t address);
  bool set_byte(uint64_t address, Expr value);
  bool copy_byte(uint64_t from, uint64_t to);
  // The value that an expression has under the model; from now on it has no other.
  uint64_t decide(Expr expression, Decision::Kind kind, uint64_t address);
  // Whether a condition holds under the model; from now on it does, or does not.
  bool branch(Expr condition, uint64_t address);
  void note(Expr holds, Decision::Kind kind, uint64_t address, bool way = true);
  uint64_t value(Expr expression) { return x_.value(expression); }
  Expressions& expressions() { return x_; }
  Machine& machine() { return machine_; }

 private:
  struct Places {        // where an access through an address that depends on symbols may lead
    uint64_t first = 0;  // the lowest address
    Expr key = kNone;    // which one, of key_bits
    int key_bits = 0;
    uint64_t stride = 1;         // addresses are first + key * stride
    std::vector<uint64_t> keys;  // ascending
  };

  Expr temporary(const uint64_t* place) const {
    return machine_.is_temporary(place) ? temporaries_[machine_.temporary_number(place)] : kNone;
  }
  bool shadowed(const uint64_t* place, int words) const;
  Expr word(const uint64_t* place) {
    const Expr shadow = temporary(place);
    return shadow != kNone ? shadow : x_.constant(*place, 64);
  }
  void set_word(uint64_t* place, Expr value);
  // Makes a temporary a plain value.
  void assume(const uint64_t* place, int words, Decision::Kind kind = Decision::Kind::assumption);

  const Step* execute(const Step& step);
  const Step* operation(const Step& step);
  bool excludes_bad_division(const Step& step, IROp op);
  const Step* choose(const Step& step);
  const Step* get(const Step& step, int offset, int bytes);
  const Step* put(const Step& step, int offset, int bytes, const uint64_t* from);
  const Step* indexed(const Step& step, bool is_put);
  const Step* load(const Step& step, int bytes);
  const Step* store(const Step& step, int bytes);
  const Step* load_if(const Step& step);
  const Step* compare_swap(const Step& step);
  const Step* call(const Step& step);
  Expr known_call(const Call& call);
  Expr linear_call(const Call& call);
  const Step* dirty(const Step& step);
  const Step* leave(const Step& step);

  Expr gathered(const Shadow* shadows, const uint8_t* bytes, int count);
  Expr load_word(uint64_t address, int bytes, bool* exists);  // none if no byte is shadowed
  bool load_words(uint64_t address, uint64_t* to, int bytes);
  bool store_words(uint64_t address, const uint64_t* from, int bytes);
  std::optional<Places> places_of(Expr address, uint64_t most);
  std::optional<std::vector<uint64_t>> values_of(Expr expression, size_t most);
  std::set<uint64_t> values_by_trying(Expr expression, std::span<const Expr> nodes);
  std::set<uint64_t> values_of_node(const Node& node, std::unordered_map<Expr, std::set<uint64_t>>& known, size_t most);
  std::optional<Places> window_around(Expr address, uint64_t most);
  void leave_out_missing(Places* places, int bytes);
  bool read_through(Expr address, uint64_t* to, int bytes);
  bool write_through(Expr address, const uint64_t* from, int bytes);
  Shadow shadow_of_byte(Expr value, int byte);
  void mark_state(int offset, int bytes);
  Shadow& state_shadow(int offset) { return shadows_[static_cast<size_t>(offset)]; }
  void touch(const Step& step);
  uint64_t here(const Step& step) const {
    return block_->instructions.empty() ? block_->address : block_->instructions[step.instruction];
  }

  Machine& machine_;
  Memory& memory_;
  Expressions& x_;
  std::vector<Expr> temporaries_;  // 64 bits each
  std::vector<uint32_t> set_;      // those that are not none
  StateShadows shadows_{};
  StateWords shadowed_words_{};
  std::vector<Decision> decisions_;
  std::unordered_set<Expr> noted_;
  const Block* block_ = nullptr;
  uint64_t address_ = 0;  // of the instruction that is executed
  uint64_t touched_ = 0;
  int last_touched_ = -1;
};

}  // namespace friday::infer
