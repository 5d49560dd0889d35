// A study: the runs of one group, each of which passed or failed, as `friday record --until-failure` and `friday
// diagnose` make them. STUDY/runs.jsonl lists them, STUDY/run-N is the recording of a run as long as it is kept, and
// STUDY/messages/run-N is what was said in it (talk.h), which stays.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/study/naming.h"

namespace friday {

struct StudyRun {
  // Undecided: a predicate came to no answer, or the disk was full. Interrupted: by the user.
  enum class Result { passed, failed, undecided, interrupted };
  unsigned number = 0;
  Result result = Result::undecided;
  std::string why;
};

// What STUDY/study.json says of its messages, which `friday diagnose` writes.
struct MessageRules {
  Framing framing{};    // how they are told apart
  std::string scope{};  // only those that descend from messages of this role count (descent.h); empty: all
};
// Fails with bad_input if that file is damaged.
Result<MessageRules> message_rules_of(const std::string& study);

// Keeps what was said in a run of STUDY, whose recording is there, so that the recording may be removed.
Result<void> keep_messages(const std::string& study, unsigned run);

class Study {
 public:
  // Fails with not_found if the directory has no list of runs, with bad_input if that is damaged.
  static Result<Study> open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const std::vector<StudyRun>& runs() const { return runs_; }
  std::string recording_of(const StudyRun& run) const;

  // What was said in a run. It is taken from the file, or else from the recording; the file is written then, if it can
  // be. Fails with not_found if there is neither.
  Result<Talk> talk_of(const StudyRun& run) const;

 private:
  std::string directory_;
  std::vector<StudyRun> runs_;
};

}  // namespace friday
