// `friday force --minimise`: the fewest messages of a failing run whose order still makes the group fail.
#pragma once

#include <string>
#include <vector>

#include "console/force_plan.h"
#include "console/forced_runs.h"
#include "core/record/group_spec.h"

namespace friday {

struct Minimised {
  ExactOrder order;
  size_t messages = 0;  // of the whole run
  size_t left_out = 0;  // of these, those that did not come again, so that the search went on without them
  size_t tried = 0;     // orders
  size_t runs = 0;
  unsigned repeats = 0;  // how many runs in succession must have failed, for an order to count as enough for that
  bool interrupted = false;
};

// `plan`: of the whole run, whose `whole` is taken away. The runs are recorded in `directory`, which must not exist,
// and which is removed. Fails with unsupported if the order of all messages does not make the group fail, or none is
// needed for that.
Result<Minimised> minimise_order(const GroupSpec& group, ForcePlan& plan, const ForceOptions& options,
                                 const std::string& directory);

}  // namespace friday
