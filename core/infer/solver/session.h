// What friday-infer does for one node, from Begin on: the state between runs, and each request of the protocol
// (protocol.h).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "core/infer/protocol.h"
#include "core/infer/solver/search.h"

namespace friday::infer {

class Session {
 public:
  // `memory`: a descriptor of /proc/PID/mem, which stays the caller's.
  Session(const Begin& limits, int memory);

  void original(uint64_t address, std::span<const uint8_t> bytes) { memory_.set_original(address, bytes); }
  void summary(uint64_t address, Function function) { blocks_.add_summary(address, function); }
  void unknown(const Unknown& unknown);
  void known(uint64_t address, uint64_t length) { memory_.drop_start_shadows(address, length); }

  struct RunResult {
    PathEnd end;
    Done done{};
    std::vector<std::pair<Patch, std::vector<uint8_t>>> patches;
  };
  // `accepts`: whether an end at which all demands hold is the right one; it may look().
  RunResult run(uint32_t thread, const Registers& registers, const std::vector<DemandedValue>& demands,
                const std::function<bool(const PathEnd&)>& accepts);
  // Memory at the end of the path that was run last; no bytes if some of it does not exist.
  struct Look {
    bool exists = false, depends = false;
    std::vector<uint8_t> bytes;
  };
  Look look(uint64_t address, uint64_t length);
  void adopt();
  void forget();
  std::vector<ShadowChange> shadow();
  std::vector<Symbol> values(const Values& asked);

 private:
  // What is adopted or forgotten.
  struct Pending {
    uint32_t thread = 0;
    StartState end;
    std::vector<Expr> conditions, assumptions;
    std::optional<Model> model;  // if it is another one
  };

  StartState start_of(uint32_t thread, const Registers& registers) const;
  void keep_end(const PathEnd& end, Pending* pending);
  void drop_results_of_instruction(const PathEnd& end, StartState* state);
  bool find_patches(const StartState& start, const Registers& registers, const std::optional<Model>& other,
                    RunResult* result);
  void find_proved(std::vector<Sure>* sure, Deadline deadline);

  Begin limits_;
  Expressions expressions_;
  Memory memory_{expressions_};
  Machine machine_{memory_};
  Blocks blocks_{memory_, machine_.frame()};
  Symbolic symbolic_{machine_, expressions_};
  Runner runner_{machine_, blocks_, symbolic_};
  Questions questions_{expressions_};
  Model model_;
  std::vector<Range> new_;                  // memory that was made unknown since the last run that was adopted
  std::vector<Expr> conditions_;            // that the program's decisions and the recording give
  std::vector<Expr> assumptions_;           // of the solver
  std::map<uint32_t, StartState> threads_;  // at the ends of their last runs, where registers have shadows
  std::unique_ptr<Pending> pending_;
};

}  // namespace friday::infer
