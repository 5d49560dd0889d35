// The search for a path that ends as the recording says (Altekar and Stoica, UCB/EECS-2010-74, section 3.3). The first
// path follows the model that there is. If its end differs from what is demanded, it is asked whether other values lead
// to the demanded end by the same path; if not, another path is tried: one of the decisions on a path is negated,
// together with those before it this gives a model, and the path of that model is run from the beginning ("generational
// search"). By turns, that decision is taken next at whose place in the program the fewest were negated so far, and one
// of the path whose end was nearest to what is demanded: as many bytes as possible as demanded, and the others
// dependent on as many symbols as possible.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>

#include "core/infer/solver/path.h"

namespace friday::infer {

struct DemandedValue {
  Of of = Of::memory;
  uint32_t number = 0;  // of the register, as in Registers::general
  uint64_t address = 0;
  std::vector<uint8_t> bytes;  // at most 8 of a register
};

struct SearchLimits {
  uint64_t instructions = 0;  // of one path
  uint32_t paths = 0;
  Deadline deadline;
};

class Search {
 public:
  // `conditions` and `assumptions`: what holds already. `model`: what is followed first. All must stay as they are.
  Search(Runner& runner, Symbolic& symbolic, Questions& questions, const std::vector<Expr>& conditions,
         const std::vector<Expr>& assumptions, const Model& model)
      : runner_(runner),
        symbolic_(symbolic),
        x_(symbolic.expressions()),
        questions_(questions),
        conditions_(conditions),
        assumptions_(assumptions),
        first_model_(model) {}

  // If the result has not failed, the path's end is what registers, memory and decisions are now.
  PathEnd find(const StartState& start, const std::vector<DemandedValue>& demands, const SearchLimits& limits);
  uint32_t paths() const { return paths_; }
  // If set: whether an end at which all demands hold is the right one. If not, another path is tried.
  std::function<bool(const PathEnd&)> accepts;
  // What leads where it is demanded, if the first model does not. The expressions refer to it until they get another.
  std::optional<Model>& other_model() { return other_model_; }
  // What was demanded of expressions at the end.
  const std::vector<Expr>& demanded() const { return demanded_; }

 private:
  // A path that was run.
  struct Tried {
    std::vector<Decision> decisions;
    std::vector<Expr> excluded;  // choices at the place `bound` that were made before
    uint32_t number = 0;         // of the path
    size_t bound = 0;            // decisions before it were negated by those that this path comes from
    std::vector<std::pair<uint32_t, uint8_t>> model;  // where it is not the first one
    size_t matched = 0;                               // bytes that were as demanded
    size_t freedom = 0;                               // symbols on which those depend that were not
  };
  struct Candidate {
    std::shared_ptr<const Tried> path;
    size_t decision = 0;
    uint64_t order = 0;
    bool taken = false;
  };
  // In two orders. The fair one: how often decisions at this place of the program were negated when the candidate was
  // queued, and the newest first. The near one: paths whose end is nearer to what is demanded, the oldest of those, and
  // late decisions first.
  struct Fair {
    uint64_t negated_before = 0;
    std::shared_ptr<Candidate> candidate;
    bool operator<(const Fair& other) const {
      if (negated_before != other.negated_before) return negated_before > other.negated_before;
      return candidate->order < other.candidate->order;
    }
  };
  struct Near {
    std::shared_ptr<Candidate> candidate;
    bool operator<(const Near& other) const {
      const Tried &path = *candidate->path, &its = *other.candidate->path;
      if (path.matched != its.matched) return path.matched < its.matched;
      if (path.freedom != its.freedom) return path.freedom < its.freedom;
      if (path.number != its.number) return path.number > its.number;
      return candidate->decision < other.candidate->decision;
    }
  };
  // A question about demands that was not answered in the time for one.
  struct Hard {
    std::vector<Expr> conditions;
    std::vector<std::pair<uint32_t, uint8_t>> model;
  };
  struct Judgement {
    bool holds = false;          // all that is demanded
    bool can_hold = true;        // what does not hold are expressions
    size_t matched = 0;          // bytes that are as demanded
    size_t freedom = 0;          // symbols on which those depend that are not
    std::vector<Expr> demanded;  // conditions
  };

  PathEnd attempt(Tried tried);
  void queue_candidates(Tried tried);
  Answer model_of(const Candidate& candidate, Model* model);
  Judgement judge(const PathEnd& end);
  Expr found_at(const DemandedValue& demand, size_t byte);
  PathEnd run();
  std::vector<std::pair<uint32_t, uint8_t>> changes_of_model() const;
  Model changed(const std::vector<std::pair<uint32_t, uint8_t>>& changes) const;
  std::vector<Expr> held() const;
  std::vector<Expr> path_conditions() const;
  const Model& model() const { return other_model_ ? *other_model_ : first_model_; }
  std::shared_ptr<Candidate> next_candidate();
  PathEnd try_negation(const Candidate& candidate);
  PathEnd try_hard();
  PathEnd given_up() const;
  uint64_t& negated_at(const Decision& decision) {
    return negated_[{decision.address, static_cast<int>(decision.kind) * 2 + decision.way}];
  }

  Runner& runner_;
  Symbolic& symbolic_;
  Expressions& x_;
  Questions& questions_;
  const std::vector<Expr>&conditions_, &assumptions_;
  const Model& first_model_;
  std::optional<Model> other_model_;  // is followed instead
  const StartState* start_ = nullptr;
  const std::vector<DemandedValue>* demands_ = nullptr;
  SearchLimits limits_;
  std::priority_queue<Fair> fair_;
  std::priority_queue<Near> near_;
  std::vector<Hard> hard_;
  bool near_next_ = true;
  std::map<std::pair<uint64_t, int>, uint64_t> negated_;
  uint32_t paths_ = 0;
  uint64_t order_ = 0;
  bool succeeded_ = false, unanswered_ = false;
  PathEnd first_failure_;
  std::vector<Expr> demanded_;
};

}  // namespace friday::infer
