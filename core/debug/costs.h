// What the evaluation of each expression has cost: by its plan, by a call that the core makes, or by gdb. For
// `info costs`, and for a notice about an expression that gdb evaluates again and again. Owned by Expressions; use on
// the session's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace friday {

class Costs {
 public:
  using Time = std::chrono::nanoseconds;
  enum class Way : uint8_t { plan, call, gdb };
  struct Cost {
    Way way = Way::plan;   // how it was evaluated the last time
    std::string reason;    // why gdb had to
    uint64_t count = 0;    // how often it was evaluated, whether it had a value or not
    Time first{}, rest{};  // the first time, in which its plan may have been made, and all others together
    bool told = false;
  };
  static constexpr size_t most = 4096;  // expressions that are kept apart; all others count as the empty one
  static constexpr Time worth_telling = std::chrono::milliseconds(100);

  void note(const std::string& expression, Way way, const std::string& reason, Time taken);
  const std::unordered_map<std::string, Cost>& all() const { return costs_; }
  // A notice for each expression on which gdb has spent more than `worth_telling`, once.
  std::vector<std::string> take_notices();

 private:
  std::unordered_map<std::string, Cost> costs_;
  std::vector<std::string> notices_;
};

const char* name_of(Costs::Way way);

}  // namespace friday
