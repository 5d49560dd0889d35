// The runs of a study as a comparison takes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/study/classes.h"
#include "core/study/study.h"

namespace friday {

// The runs that passed or failed, with what was said in them.
struct Gathered {
  std::vector<StudiedRun> runs;
  size_t undecided = 0, gone = 0;
  std::vector<std::string> unreadable;    // why, for each
  std::map<std::string, size_t> reasons;  // of failures: how often
};

// Reads what was said in the runs, and says how far it is if that takes long; `command` is the subcommand that asks.
// Fails with unsupported if that is too much to be compared.
Result<Gathered> gather_runs(const char* command, const Study& study, const UserClasses& classes);

}  // namespace friday
