// How often code ran and how many bytes it moved, in each context of its function (contexts.h). A profile counts blocks
// of functions; the runs of a function that is analysed in several contexts are shared among them in the ratio of the
// calls that lead there. Belongs to the graph (graph.cc).
#pragma once

#include <vector>

#include "core/cut/counts.h"
#include "core/cut/points_to.h"

namespace friday::cut {

class Weights {
 public:
  // `counts` may be null: then nothing ran. All must stay as long as this does.
  Weights(const Facts& facts, const PointsTo& points_to, const ProgramCounts* counts);

  // How often a block ran in a context of its function.
  double times(Id context, Id block) const;
  // How often a function was entered, in all contexts.
  double entries(Id function) const;
  // How often, at most, it was entered otherwise than by calls that name it.
  double unexplained_entries(Id function) const;
  // How often a call may have reached this function: at most as often as the function was entered.
  double reached(const PointsTo::Target& target) const;
  // Sums over all runs, of the bytes and of what marks them in a log.
  double bytes(Id context, const Access& access) const;
  double bytes(const PointsTo::Effect& effect) const;
  double site_times(uint32_t site) const;

 private:
  double share(Id context, Id function) const;
  double length(Id context, Id function, Id length) const;
  double product(uint32_t site, const AnnotatedBytes& bytes) const;
  double object_size(PointsTo::Node pointer) const;

  const Facts& facts_;
  const PointsTo& points_to_;
  const ProgramCounts* counts_;
  std::vector<double> context_share_;   // by context
  std::vector<double> direct_calls_;    // by function: how often they ran
  std::vector<double> original_share_;  // by function: what its contexts leave
};

}  // namespace friday::cut
