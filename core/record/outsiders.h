// Who else can write to the memory that recorded programs share: processes that are not recorded and have one of the
// files or segments mapped for writing. What they store is in no trace, so whoever reads the recording is told.
//
// A thread of its own looks through /proc when something new is shared and then less and less often. It sees what this
// user may see, and only processes that live when it looks. Four times a second it also looks whether those that share
// memory stand still (standstill.h).
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
  std::string text;         // a sentence for people
  std::set<pid_t> sharers;  // recorded processes with the same mapping, by the numbers that they have for themselves
};

class Outsiders {
 public:
  Outsiders() = default;
  ~Outsiders();
  Outsiders(const Outsiders&) = delete;

  // `tokens`: the recording's TokenArea; mapped while this object lives. False: the system gives no
  // thread or no room for it, and nothing is looked for.
  bool start(int tokens);
  // Readable when take() has something.
  int wake_fd() const { return told_.get(); }
  // What was found since the last time; each process and thing once.
  struct Found {
    std::vector<Outsider> outsiders;
    std::vector<KeptToken> kept;
  };
  Found take();

 private:
  void run();
  void look();
  void tell();  // with the guard

  const shim::TokenArea* area_ = nullptr;
  uint64_t tokens_inode_ = 0;
  std::set<std::pair<pid_t, uint32_t>> known_;  // process and object; of the thread alone
  std::mutex guard_;
  std::condition_variable wake_;
  std::vector<Outsider> found_;
  std::vector<KeptToken> kept_;
  Standstill standstill_;  // of the thread alone
  UniqueFd told_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace friday
