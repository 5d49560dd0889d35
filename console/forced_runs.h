// Runs of a group onto which an order of messages is forced.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "console/force_plan.h"
#include "console/until.h"
#include "core/record/group_spec.h"
#include "core/record/shaper.h"

namespace friday {

class RunJudge;  // one run's view of the order

struct ForcedOutcome {
  SeriesEnd::How end = SeriesEnd::How::done;
  size_t runs = 0, forced = 0, forced_failed = 0;
  std::vector<std::pair<unsigned, std::string>> not_forced{};  // run, and why
  // Messages of an exact order that did not come in one of the runs, of which the others did without.
  std::set<uint32_t> left_out{};
  size_t only_received = 0;        // messages that did not become handled before the next one was sent on
  size_t failed_alike = 0;         // of all runs: for the same reason as the run whose order it is
  std::string failed_otherwise{};  // why the last one failed that did so for another reason
};

struct ForcedSeries {
  std::string directory;
  unsigned times = 1;
  unsigned others = ~0u;  // the series ends when so many have not failed
  bool record = false;    // in full
  bool quiet = false;
  // How often in a run it is gone on without messages that do not come; after that the order is given up.
  unsigned most_left_out = 0;
  double patience = kUsualPatience;        // seconds
  bool stops = false;                      // a run ends when its order is given up
  const Interrupts* interrupts = nullptr;  // UntilOptions
};

// What --when-stuck says; empty: as usual.
void apply_when_stuck(const std::string& word, ForcedSeries& series);

// What holds the messages of each run back. `made` gets the judge of each, if it is not empty.
ShaperOptions shaper_options(const std::shared_ptr<const ForcePlan>& plan, const std::string& until,
                             const ForcedSeries& series, std::function<void(std::shared_ptr<RunJudge>)> made);

// Fails, with the reason, if the results cannot be read. That a run could not be made was said then (`end`).
Result<ForcedOutcome> run_forced(const GroupSpec& group, const ForcePlan& plan, const std::string& until,
                                 const ForcedSeries& series);

}  // namespace friday
