// `friday force --live REC`: an order of messages onto programs that run on standby (core/trace/live_order.h).
#pragma once

#include <string>

#include "console/force_plan.h"
#include "core/record/shaper.h"

namespace friday {

// For CollectorOptions::live_order: what holds messages back for the order that the command has written.
Result<ShaperOptions> shaper_for(const std::string& order);

// Switches the programs of options.live on, and waits until the order has come true, or has been given up. Then they
// are put back on standby. Returns the exit code: 0 if it has come true, 1 if not, 130 if it was interrupted. Fails if
// the programs are recorded already, or cannot be switched.
// With options.listen, others may join.
Result<int> force_live(const ForceOptions& options, const ForcePlan& plan);

// The same for the order of a command on another machine (options.join).
Result<int> join_live(const ForceOptions& options);

}  // namespace friday
