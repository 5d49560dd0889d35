// What must hold of facts before anybody uses them: each id is inside its list, the blocks of a function stand
// together, names are where link() needs them. Facts come from files, which may be damaged or a stranger's.
#pragma once

#include "core/base/error.h"
#include "core/cut/facts.h"

namespace friday::cut {

// Fails with bad_input, and names the first thing that is wrong. Takes facts of a module and those of a program.
Result<void> check_facts(const Facts& facts);

}  // namespace friday::cut
