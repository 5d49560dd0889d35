// Compares passing and failing runs of one group: which order of messages, or else which message, goes along with
// failing. A claim is made only where chance would rarely look as strong.
//
// The method ranked the guilty order first on three real systems (a booking service, four nodes with heartbeats, a
// Redis replica) at 50 runs, where the presence of events, Ochiai's coefficient and longest common subsequences did
// not: orders are scored by G over the runs that have their messages, whatever may be a consequence of the failure is
// left out, and labels are shuffled to know what chance does. The idea of ranking differences between recorded
// communication schedules of passing and failing runs is from Felgentreff, Perscheid, Hirschfeld, "Implementing record
// and refinement for debugging timing-dependent communication" (Science of Computer Programming, 2016).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/study/naming.h"
#include "core/study/orders.h"
#include "core/study/score.h"

namespace friday {

struct Finding {
  Order order{};               // the earliest of those that these runs cannot tell apart
  std::vector<Order> alike{};  // the others, at most kMostAlike
  size_t alike_count = 0;      // how many others there are
  Split split{};
  double g = 0;
  double p = 1;                              // how often the strongest of all candidates is as strong by chance
  std::vector<size_t> failing{}, passing{};  // examples, indices of runs: failing with it, passing without it
};

struct Comparison {
  enum class Verdict {
    all_passed,
    all_failed,
    too_few,  // runs of one kind for any claim
    order,    // an order goes along with failing
    content,  // no order does, but a message
    nothing   // neither does
  };
  Verdict verdict = Verdict::nothing;
  size_t runs = 0, failures = 0;
  size_t schedules = 0;  // how many runs differ in the order in which some process received its messages
  Naming naming;
  std::vector<uint32_t> symptoms;
  // The strongest first; where some are claims, only these.
  std::vector<Finding> orders, contents;
  size_t order_candidates = 0;  // how many that can be told apart were compared
  // How many runs it takes at least to tell the strongest order from chance, if it goes on as it is; 0 if that is told
  // already.
  size_t needed_runs = 0;
  size_t shuffles = 0;                // with how many the orders were compared
  std::vector<std::string> left_out;  // what was not compared, in words
};

// Of a claim: `p`, for orders and for contents each, so that something is claimed by chance in a hundredth of all
// studies; and the share of the failures that it accounts for.
inline constexpr double kMostP = 0.005;
inline constexpr double kLeastShare = 0.5;

// `most`: findings of each kind. `runs` must stay as long as the Comparison does.
Comparison compare(std::span<const StudiedRun> runs, size_t most);

}  // namespace friday
