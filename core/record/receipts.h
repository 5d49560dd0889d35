// What programs have received, and handled, of messages that somebody waits for. The shims count the bytes that each
// end of a connection has received, and tell the collector when a count that it wants is reached (core/shim/shaping.h).
// Use on one thread, the collector's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "core/shim/shim_abi.h"

namespace friday {

class Receipts {
 public:
  using Ticket = uint64_t;
  struct News {
    Ticket ticket;
    bool handled;  // else received
    bool operator==(const News&) const = default;
  };

  // `area` must outlive this.
  explicit Receipts(shim::ShapeArea& area) : area_(area) {}

  // A message whose last byte is number `end` of all that the end `inode` receives, as its programs count. Those of one
  // end are given in the order in which they come.
  void expect(uint64_t inode, Ticket ticket, uint64_t end);
  void forget(Ticket ticket);
  void clear() { expected_.clear(); }
  // What has happened at an end since the last look, or before the message was expected. Each message is told once as
  // received and once as handled, and is not expected any more then. The shim tells when it is worth to look again.
  std::vector<News> look(uint64_t inode);
  // The ends at which something is expected.
  std::vector<uint64_t> ends() const;

 private:
  struct Message {
    Ticket ticket;
    uint64_t end;
    bool received = false;
  };
  void want(shim::ShapedEnd& end, const std::deque<Message>& messages) const;

  shim::ShapeArea& area_;
  std::map<uint64_t, std::deque<Message>> expected_;  // by inode; none is empty
};

}  // namespace friday
