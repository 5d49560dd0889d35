// Who decides which messages of recorded programs wait for others, so that a certain order of messages comes true: in
// the recorder itself (console/forced_runs.h), or in another process, which the recorders of several hosts ask
// (far_judge.h). The Shaper tells a judge what happens, and does what it says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/poll_set.h"
#include "core/record/sock_peers.h"

namespace friday {

class MessageJudge {
 public:
  using Ticket = uint64_t;
  enum class Verdict { pass, watch, hold };  // send it; send it, and say when it was handled; keep it
  struct Sent {
    Ticket ticket;
    std::string from, to;                         // names of nodes; `to` is empty if nobody knows who will receive it
    std::span<const std::byte> bytes;             // the first ones, at most shim::kMostHeldBytes
    uint64_t length;                              // of the whole message
    const KnownConnection* connection = nullptr;  // null: not known
  };
  struct Released {
    Ticket ticket;
    bool watched;      // say when it was handled
    bool far = false;  // it is watched where it is received, by another recorder (FarJudge)
  };
  virtual ~MessageJudge() = default;
  // The lengths of the messages that stand in what one call has sent.
  virtual std::vector<size_t> messages_in(std::span<const std::byte> bytes) const = 0;
  virtual Verdict sent(const Sent& message) = 0;
  virtual void received(Ticket ticket) = 0;  // a message that is watched, as a whole
  virtual void handled(Ticket ticket) = 0;
  virtual void lost(Ticket ticket) = 0;  // one that is watched or kept: its connection is gone
  virtual void give_up(const std::string& why) = 0;
  // Whether each message of the order waits for the one before. Then one that is next must not stand behind one, on the
  // same connection, that is held.
  virtual bool is_one_line() const = 0;
  // Nothing has come for long: goes on without what is waited for. False: the order is to be given up.
  virtual bool do_without() = 0;
  // Which of those kept are to be sent now, in this order. Asked after each of the calls above.
  virtual std::vector<Released> release() = 0;
  virtual bool is_over() const = 0;  // whatever comes now may pass, and nothing is watched
  virtual std::string waits_for() const = 0;
  virtual bool came_true() const = 0;
  virtual std::string reason() const = 0;  // why it has not
  // Messages are held back from now on.
  virtual void arm() {}
  // All programs of this recorder have ended, or the recording does, with nothing that is kept.
  virtual void leave(const std::string& why) { give_up(why); }
  // What a judge elsewhere says is waited for, too.
  virtual void add_to(PollSet&) {}
};

}  // namespace friday
