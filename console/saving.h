// Saves what a recording holds, at once or when something happens, while it goes on (core/trace/save.h).
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

struct SavingOptions {
  std::string recording;
  std::string place;  // empty: REC-saved-1 and so on
  // "crash": a node was killed by a signal that reports a fault of it; "/REGEX/": a line of a node's output matches;
  // "FILE.py": a node receives what the file waits for (message_trigger.h). Empty: at once.
  std::vector<std::string> when;
  unsigned times = 1;  // after so many it ends
  bool as_json = false;
  bool with_recorder = false;  // `recording` may not be there yet; and ends when the standard input does
};

// Fails with usage if one of `when` is none of the above.
Result<void> check_triggers(const std::vector<std::string>& when);

// Returns the exit code. Waits until it has saved as often as it should, or until nobody records any more.
int save_live(const SavingOptions& options);

// The same in a process of its own, for a recorder: `friday live REC save`. Its end ends that process, which first
// completes what it saves.
class SavingProcess {
 public:
  static Result<SavingProcess> start(const SavingOptions& options);
  SavingProcess(SavingProcess&&) = default;
  ~SavingProcess();

 private:
  SavingProcess(pid_t pid, UniqueFd input) : pid_(pid), input_(std::move(input)) {}
  pid_t pid_;
  UniqueFd input_;  // the far end of its standard input
};

}  // namespace friday
