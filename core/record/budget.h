// Which payload a lean recording stores although a replay would make it again: what comes by channels of low rate,
// which say what the system does (the control plane: Altekar and Stoica, UCB/EECS-2010-74), then the first bytes of
// messages, then the rest, as far as a budget of bytes a second allows. What cannot be made again it gives up only on
// channels that the user has named for that.
//
// One object belongs to one node, and is given what the node has received in the order of its trace.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace/left_out.h"
#include "core/trace/regenerable.h"

namespace friday {

struct LeanOptions {
  // Stored bytes a second for each node; 0: all that can be made again is left out.
  uint64_t budget = 0;
  // Patterns (fnmatch(3)) of channels whose payload is always or never kept, whatever the budget says: a pattern is
  // compared with the channel's kind, its local and its remote address. `keep` wins.
  std::vector<std::string> keep, drop;
  // The same of channels whose payload may be let go for good if it comes from programs that are not recorded: nobody
  // has it then, and it can only be inferred (core/infer). What the budget allows is kept.
  std::vector<std::string> let_go = {};
};

class Budget {
 public:
  // What a pattern is compared with.
  using Names = std::vector<std::string>;
  using NamesOf = std::function<Names(uint64_t channel)>;

  Budget(const LeanOptions& options, uint64_t ticks_per_second, NamesOf names);

  // Chooses which of the regenerable ranges of a block are left out, and which of those that nobody else has.
  std::vector<LeftOut> choose(std::span<const Regenerable> regenerable, std::span<const Regenerable> foreign = {});
  // Call when the block is stored: how many bytes it takes.
  void stored(uint64_t bytes);

  static constexpr double kBurstSeconds = 10;  // so much of the budget may be used at once after a quiet time

 private:
  static constexpr double kAverageSeconds = 2;  // of a channel's rate
  static constexpr double kReserveSeconds = 2;  // so much of it is kept for channels of low rate
  static constexpr double kControlShare = 0.5;  // of the budget, for all channels of low rate together
  static constexpr double kHysteresis = 1.5;    // a channel counts as of low rate until it needs so much more
  static constexpr double kClassifySeconds = 0.25;
  static constexpr size_t kMostFlows = 1 << 14;

  enum class Rule { keep, drop, by_budget };
  struct Flow {
    Rule rule;
    double rate = 0;     // bytes a second, averaged
    uint64_t ticks = 0;  // up to when
    bool control = false;
    bool may_go = false;  // also what nobody else has
  };

  double seconds(uint64_t ticks) const { return static_cast<double>(ticks) / static_cast<double>(ticks_per_second_); }
  Flow& flow(uint64_t channel);
  void advance(uint64_t ticks);
  void classify();
  void decay(Flow& flow) const;
  bool keeps(Flow& flow, const Regenerable& bytes);

  const LeanOptions& options_;
  const uint64_t ticks_per_second_;
  const NamesOf names_;
  std::unordered_map<uint64_t, Flow> flows_;
  // Bytes that may be stored now, and of channels of low rate; below 0 when more than the budget was stored.
  double tokens_, control_tokens_;
  double most_of_control_ = 0;  // bytes a second
  std::optional<uint64_t> now_;
  uint64_t classified_ = 0;
  uint64_t kept_ = 0;  // bytes of this block that were taken from the tokens already
};

}  // namespace friday
