// `friday record --until-failure`: records a group again and again, until a run fails.
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "console/live_runs.h"
#include "core/base/error.h"
#include "core/record/group_run.h"

namespace friday {

class Interrupts;

// Which recordings stay: those of all runs that did not pass, and of the last `good` runs that passed.
struct Keep {
  std::optional<unsigned> good = 2;  // empty: all
};

// Parses "failed", "all" or a number of good runs.
Result<Keep> parse_keep(const std::string& text);

struct UntilOptions {
  unsigned runs = 1;
  unsigned failures = 1;  // how many runs must fail until the end
  unsigned others = ~0u;  // or how many must end otherwise
  Keep keep{};
  unsigned jobs = 1;  // runs that are made at a time; with more than one `options` are used in other processes
  bool quiet = false;
  const char* command = "record";   // the subcommand, for messages
  std::string resumed_by{};         // for who interrupts it: what goes on with it
  bool for_study = false;           // the last line says nothing of where the runs are listed, as a comparison follows
  std::optional<LiveGroup> live{};  // the group is only the script, and is run against this one
  // The caller's, if there are several series which one signal shall end; otherwise the series has its own.
  const Interrupts* interrupts = nullptr;
};

// -j, --jobs N.
CLI::Option* add_jobs_option(CLI::App& command, unsigned& jobs);

// How a group is run anew for a subcommand: its runs are recorded in `directory`, and predicates judge them.
GroupRunOptions options_of_runs(const char* command, const std::string& directory, bool quiet);

// Warns of what in a group file nearly is a placeholder.
void tell_near_misses(const char* command, const GroupSpec& group);

struct SeriesEnd {
  enum class How { done, interrupted, failed };  // failed: a run could not be made, and that was said
  How how = How::done;
  int code = 0;  // for the caller's exit: that of the first run that failed, or 0
};

// Records into DIRECTORY/run-1, run-2, ..., where DIRECTORY is the recording of `options`, and appends a line of JSON
// for each run to DIRECTORY/runs.jsonl.
SeriesEnd record_until_failure(const GroupSpec& group, GroupRunOptions options, const UntilOptions& until);

}  // namespace friday
