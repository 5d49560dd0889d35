// What a recorder does for a judge elsewhere (far_judge.h): it tells which of its nodes receives on a connection, when
// everything before a message has come at the receiver's host, and what becomes of messages that its programs receive
// from programs of other recorders.
//
// Nobody has counted the bytes of such a connection from its beginning on both sides. So a message is kept until the
// sender's kernel has nothing unacknowledged of what came before; what the receiver has received, and not read, is all
// of that then, and the message ends so many bytes behind.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/record/far_judge.h"
#include "core/record/receipts.h"

namespace friday {

class FarSide {
 public:
  struct Programs {
    std::function<std::string(uint64_t inode)> owner_of;  // the node that has a socket; empty: none, or several
    std::function<bool(uint64_t inode)> is_gone;          // no program has it any more
    // The connection of a message that is the next one to be sent there; none: others are before it.
    std::function<const KnownConnection*(MessageJudge::Ticket)> next_on;
    std::function<bool(MessageJudge::Ticket)> is_kept;  // it was neither sent nor lost
  };
  // `patience`: how long an answer may take.
  FarSide(FarJudge& judge, shim::ShapeArea& area, std::span<const SocketSpace> spaces, Programs programs,
          std::chrono::nanoseconds patience);

  void look();                // at all that is asked and expected
  bool told(uint64_t inode);  // kHandled; false: of no end that is expected here
  bool must_look_often() const { return !asked_.empty(); }
  bool expects() const { return !receipts_.ends().empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  // A count that has to be the same at several looks, as the shims count behind their calls.
  struct Asked {
    FarJudge::Question question;
    uint64_t inode = 0, measured = 0;
    unsigned times = 0;
    Clock::time_point since = Clock::now(), looked{};
  };
  void answer_who(const FarJudge::Question& question);
  std::optional<uint64_t> measure(Asked& asked) const;
  bool try_answer(Asked& asked);
  void take_note(uint64_t inode);

  FarJudge& judge_;
  shim::ShapeArea& area_;
  std::span<const SocketSpace> spaces_;
  Programs programs_;
  std::chrono::nanoseconds patience_;
  Receipts receipts_;  // by the numbers of questions
  std::vector<Asked> asked_;
  std::map<uint64_t, uint64_t> expected_;  // inodes by numbers of questions
  Clock::time_point looked_for_gone_ = Clock::now();
};

}  // namespace friday
