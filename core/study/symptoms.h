// What follows from a failure must not be taken for its cause. A symptom is a kind of message that many failing runs
// have and no passing run, such as an error's text. Whatever may have been caused by one, because its process had seen
// the symptom or had received a message that had, is tainted.
#pragma once

#include <vector>

#include "core/study/naming.h"

namespace friday {

// Marks the tainted events of failing runs, and returns the symptoms (names of shapes).
std::vector<uint32_t> taint(Naming& naming);

}  // namespace friday
