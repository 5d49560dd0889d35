// Questions about symbols: is there a value for each such that these conditions hold, and which? Conditions that hold
// under the model that is at hand keep their symbols' values; those that do not are solved together with all that share
// symbols with them, directly or through others. One symbol alone is tried out; the rest is asked of Z3, each question
// by itself (not incrementally), with a limit of time.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/infer/solver/expression.h"

namespace friday::infer {

enum class Answer : uint8_t { yes, no, unknown };  // unknown: the limit of time or memory

using Deadline = std::chrono::steady_clock::time_point;

class Questions {
 public:
  explicit Questions(Expressions& expressions);
  ~Questions();

  // Changes `*model` such that all conditions (of 1 bit) hold. It is unchanged if the answer is not yes. The model of
  // the expressions is another one.
  Answer solve(std::span<const Expr> conditions, Model* model, Deadline deadline);
  // The symbols of a condition, ascending.
  const std::vector<uint32_t>& symbols_of(Expr condition);
  // Expressions were truncated: what is kept of them does not hold any more.
  void forget() { symbols_.clear(); }

  uint64_t asked() const { return asked_; }  // of Z3

  // Conditions that are connected by their symbols.
  struct Island {
    std::vector<Expr> conditions;
    std::vector<uint32_t> symbols;
  };
  // Those with a condition for which `of_interest` says yes.
  std::vector<Island> islands_around(std::span<const Expr> conditions, const std::vector<bool>& of_interest);

 private:
  class Solver;
  Answer solve_island(const Island& island, Model* model, Deadline deadline);
  Answer try_out(const Island& island, Model* model);
  bool try_single_symbols(const Island& island, Model* model);
  std::vector<Expr> broken_of(const Island& island, const Model* model);
  Answer ask_with_few_free(const Island& island, Model* model, size_t free, Deadline deadline);

  Expressions& expressions_;
  std::unique_ptr<Solver> solver_;
  std::unordered_map<Expr, std::vector<uint32_t>> symbols_;
  uint64_t asked_ = 0;
  std::mt19937 random_;  // always the same
};

}  // namespace friday::infer
