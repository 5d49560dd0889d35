// The memory of a replayed program: what was recorded as inside is mapped at its addresses, and the variables of the
// outside cannot be reached. Stateless but for the list of what is there, which is made once, before anything runs.
#pragma once

#include "core/cut/runtime/log_reader.h"

namespace friday::cut {

// Reads the whole log once, which checks that each record is whole, and maps what it names. Leaves the log rewound.
void map_recorded_memory(LogReader& log);
void take_outside_away();

}  // namespace friday::cut
