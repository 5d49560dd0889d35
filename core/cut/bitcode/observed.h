// Compares what a checked build (observing.h) did with what the analysis of the program predicts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/cut/facts.h"

namespace friday::cut {

struct ObservedReport {
  uint64_t files = 0;
  uint64_t pairs = 0;      // of an access and memory, each once
  uint64_t predicted = 0;  // of these
  uint64_t replaced = 0;   // of code or memory that another module's definition replaced when the facts were linked
  std::vector<std::string> unpredicted;  // the rest, for people: at most kMostNamed
  uint64_t unpredicted_count = 0;
  static constexpr size_t kMostNamed = 50;
};

// All files *.observed of a directory. Fails with not_found if there are none, and with bad_input if one is damaged or
// of another build. `program`: its facts with the ids of its modules.
Result<ObservedReport> compare_with_prediction(const LinkedProgram& program, const std::string& directory);

}  // namespace friday::cut
