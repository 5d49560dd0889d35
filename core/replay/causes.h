// Why a replay may have diverged: which of the limits that docs/determinism.md lists as "not seen" the node has met
// before it differed, as far as its recording shows that. A cause is a possibility and no proof.
#pragma once

#include <string>
#include <vector>

#include "core/base/ids.h"

namespace friday {

class Recording;
class Schedule;
class TraceReader;

// A sentence for each: writers of the node's memory that are not in the recording, files mapped privately that were
// written to behind that, code made at run time, asynchronous I/O. `before`: the event that differs; `reader`: the
// node's trace. Reads the traces of all nodes of the schedule if the node has mapped a file privately.
std::vector<std::string> possible_causes(const Recording& recording, const Schedule& schedule,
                                         const TraceReader& reader, EventIndex before);

}  // namespace friday
