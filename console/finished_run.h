// What is left of a run of a series when it is over: small, so that a process that has made the run can hand it on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/record/group_run.h"

namespace friday {

struct FinishedRun {
  unsigned number = 0;
  GroupRun::Result result = GroupRun::Result::undecided;
  double seconds = 0;
  std::string why;
  int code = 0;
  std::optional<uint64_t> seed;         // of the faults, if chance had a part in them
  nlohmann::json programs;              // that were started, as runs.jsonl lists them
  std::vector<std::string> bad_ends{};  // of programs that are not recorded
  std::vector<BadExit> unjudged{};      // of programs of which the group file does not say that they must succeed
  bool is_disk_full = false;
  std::string not_kept{};  // why what was said in it, though it was judged, could not be kept for `friday compare`

  bool is_judged() const { return result == GroupRun::Result::passed || result == GroupRun::Result::failed; }
};

// "passed", "FAILED", "undecided" or "interrupted".
const char* name_of(GroupRun::Result result);

// What is left of a run whose recording is DIRECTORY/run-NUMBER, of which what was said is kept.
FinishedRun finish_run(const GroupRun& run, const std::string& directory, unsigned number);

// Makes a run of a series in DIRECTORY/run-NUMBER and keeps what was said in it.
Result<FinishedRun> make_run(const GroupSpec& group, GroupRunOptions options, const std::string& directory,
                             unsigned number);

// The line of runs.jsonl. `kept`: where the recording is; empty if it was removed.
nlohmann::json line_of(const FinishedRun& run, const std::string& kept);

// Between processes of one program: what was made by the first is read by the second.
nlohmann::json as_json(const Result<FinishedRun>& run);
Result<FinishedRun> finished_run_of(const nlohmann::json& text);

}  // namespace friday
