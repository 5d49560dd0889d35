// The cut: which functions replay together with the target, and what is logged for them. The minimum cut of the
// data-flow graph, beside two that need no search:
// - the whole program's log (eager): every function is inside, and all that comes from sources is logged as it enters;
// - the naive cut: only the target is inside, and all that it takes from other functions is logged.
// The first is a cut of the same graph, so the minimum is never above it. Stateless; any thread may call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/cut/graph.h"

namespace friday::cut {

// The functions that a target names: "mod_deflate.c" (a source file, or the end of its path) or "FUNC,FILE:FUNC,...",
// and mixtures. Sorted, without duplicates. Fails with not_found, and the nearest names, if one is unknown or has no
// code; and with usage if several functions of one name exist and no file says which.
Result<std::vector<Id>> find_target(const Facts& facts, std::string_view target);

struct CutCost {
  int64_t weight = 0;    // as in the graph
  double bytes = 0;      // as the profile counted; 0 without one
  size_t edges = 0;      // that are logged
  size_t functions = 0;  // that replay
};

struct Choice {
  // An edge of the graph from outside to inside.
  struct Logged {
    uint32_t edge = 0;
    double bytes = 0;
  };
  // A function inside that is not of the target.
  struct Replayed {
    Id function = kNone;
    // What would have to be logged if this function were outside, all others staying where they are, less what is
    // logged for it now. In weights of the graph; above 0.
    int64_t saves = 0;
    std::vector<uint32_t> gives;  // edges to others inside, the heaviest first
  };

  std::string target;         // as it was asked for
  std::vector<Id> functions;  // of the target
  std::vector<bool> inside;   // by node of the graph
  bool has_profile = false;
  CutCost cost, whole, naive;
  // No cut logs less than the whole program. A cut that would log more is never given: then all functions are inside.
  bool whole_program = false;
  std::vector<Logged> logged;      // the heaviest first
  std::vector<Replayed> replayed;  // what saves most first
  uint32_t phases = 0;             // of the search
};

Result<Choice> choose_cut(const Facts& facts, const PointsTo& points_to, const DataFlow& graph,
                          std::string_view target);

// The sides of all nodes, and their cost, if these functions are inside. Objects are inside if `objects` says so and
// they are no source; sets, arguments and results are where they cost least.
struct Sides {
  std::vector<bool> inside;  // by node
  CutCost cost;
};
Sides sides_of(const DataFlow& graph, const std::vector<bool>& functions, const std::vector<bool>& objects);

// What an edge or a node is, for people.
std::string node_text(const Facts& facts, const PointsTo& points_to, const DataFlow& graph, uint32_t node);

}  // namespace friday::cut
