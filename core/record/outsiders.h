// Finds processes outside the recording that can write to the memory that recorded programs share, because they have
// mapped one of the files or segments for writing. No trace contains what they store, so readers of the recording must
// be warned.
//
// A thread scans /proc when a new object is shared, and then at growing intervals. It sees only what this user may see,
// and only processes that exist during a scan. Four times a second it also checks whether programs that share memory
// stand still (standstill.h).
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/record/standstill.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct Outsider {
  std::string text;         // a sentence for users
  std::set<pid_t> sharers;  // recorded processes with the same mapping, by the pids in their own PID namespaces
};

class Outsiders {
 public:
  Outsiders() = default;
  ~Outsiders();
  Outsiders(const Outsiders&) = delete;

  // `tokens` is the recording's TokenArea; it stays mapped while this object lives. Returns false if the system
  // provides no thread or no memory for it; then nothing is watched.
  bool start(int tokens);
  // Becomes readable when take() has something to return.
  int wake_fd() const { return told_.get(); }
  // What was found since the last call; each combination of process and object is reported once.
  struct Found {
    std::vector<Outsider> outsiders;
    std::vector<KeptToken> kept;
  };
  Found take();

 private:
  void run();
  void look();
  void tell();  // call with guard_ locked

  const shim::TokenArea* area_ = nullptr;
  uint64_t tokens_inode_ = 0;
  std::set<std::pair<pid_t, uint32_t>> known_;  // (process, object); used by the thread only
  std::mutex guard_;
  std::condition_variable wake_;
  std::vector<Outsider> found_;
  std::vector<KeptToken> kept_;
  Standstill standstill_;  // used by the thread only
  UniqueFd told_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace friday
