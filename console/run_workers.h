// Makes several runs of a series at a time, each in a process of its own: the launcher of a group takes the signals and
// the children of its process. The runs are handed on in the order of their numbers.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "console/finished_run.h"
#include "core/base/fd.h"
#include "core/record/interrupts.h"

namespace friday {

class RunWorkers {
 public:
  explicit RunWorkers(const Interrupts& interrupts) : interrupts_(interrupts) {}
  RunWorkers(const RunWorkers&) = delete;
  RunWorkers& operator=(const RunWorkers&) = delete;
  // Stops what still runs, as a SIGINT does, and waits for its end.
  ~RunWorkers();

  // `make` is called in the new process, which notices signals with the Interrupts that it is given. `part`: which
  // share of the free ports is the run's (GroupRunOptions::part). The process must have no other threads.
  Result<void> start(unsigned number, unsigned part, std::function<Result<FinishedRun>(const Interrupts&)> make);
  size_t running() const { return workers_.size(); }
  bool is_used(unsigned part) const;
  // Of those that are over and not taken: how many have failed, or could not be made.
  size_t failed() const;

  // Waits until a run is over, at most so long. A signal to this process is one to all that runs.
  void wait(std::chrono::milliseconds most);
  // The next run by its number, if it is over. Fails as making it has failed, or if its process died.
  std::optional<Result<FinishedRun>> take();

 private:
  struct Worker {
    unsigned part = 0;
    pid_t pid = -1;
    UniqueFd process{};  // a descriptor of the process
    UniqueFd result{};   // a file in memory, into which it writes the run
  };
  void signal_all() const;

  const Interrupts& interrupts_;
  unsigned signals_ = 0;                              // that were passed on
  std::map<unsigned, Worker> workers_;                // by number of the run
  std::map<unsigned, Result<FinishedRun>> finished_;  // and not taken
};

}  // namespace friday
