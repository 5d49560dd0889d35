// What the runs of a study have in common: the group, and the script that is run against it. STUDY/study.json keeps it.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/record/group_spec.h"

namespace friday {

struct StudyOrigin {
  std::string group;   // path of the group file; empty: the group is `live`
  std::string live{};  // path of the recording of a group that is there already
  std::string script_name = "script";
  std::vector<std::string> script;  // empty: the group file says when a run has failed
  std::vector<std::string> predicates;
  std::string directory;  // in which the programs ran
  bool schedule = false;  // only schedules are recorded
  std::string frame{};    // how messages are told apart; of a study that is there, message_rules_of() says it
  bool scoped = false;    // only what descends from the script's messages is compared; message_rules_of() says it, too
};

// The group with the script as its last program: it starts when all others are ready, the group is stopped when it has
// ended, and the run has failed if it has. Of a live group the script alone.
Result<GroupSpec> group_of(const StudyOrigin& origin);

// Fails if the study was made of something else; else notes what it is made of. `runs`: how many it has already.
Result<void> claim_study(const std::string& study, const StudyOrigin& origin, unsigned runs);

// The command that adds runs to a study or a series until it has `wanted`; it has `present` by now. Options that no
// study notes, such as --chaos, are left to the user.
std::string command_for_more(const std::string& study, size_t present, size_t wanted);

// What the study is made of. Fails with not_found if it was not made by `friday diagnose`, and with bad_input if the
// group file is another one by now.
Result<StudyOrigin> origin_of(const std::string& study);

}  // namespace friday
