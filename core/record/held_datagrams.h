// Datagrams of UDP that a shim has given to the collector (core/shim/shaping.h), and the receipt of those that were
// sent on. The network may lose and reorder datagrams, so one is known by its length and its first 64 bytes, and equal
// ones to one socket by their order. Use on one thread, the collector's.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/fd.h"
#include "core/record/sock_peers.h"
#include "core/shim/shim_abi.h"

namespace friday {

struct HeldDatagram {
  UniqueFd fd;         // of the sender's socket
  uint64_t inode = 0;  // of the same
  std::vector<std::byte> bytes;
  sockaddr_storage address{};  // that it is sent to
  socklen_t address_length = 0;
  uint64_t receiver = 0;  // inode of the socket that gets it; 0: not known, or there is none
  uint64_t unread = 0;    // of that socket, when it was looked for
  bool is_for_several() const;
};

class HeldDatagrams {
 public:
  using Ticket = uint64_t;
  struct Receipt {
    Ticket ticket;
    uint64_t inode, ordinal;  // ShapedEnd::received of the socket that has received it, with it
  };

  HeldDatagrams(shim::ShapeArea& area, std::span<const SocketSpace> spaces) : area_(area), spaces_(spaces) {}
  ~HeldDatagrams();

  static HeldDatagram of(const shim::Request& request, std::span<const std::byte> bytes, UniqueFd fd);
  void find_receiver(HeldDatagram& datagram) const;
  enum class Sent {
    sent,
    lost,     // as by the network
    unnoted,  // sent, but so many are under way that no more can be told apart
  };
  // If its receiver is known, its receipt is noted: with a ticket it is told by look(), without one (0) it only comes
  // before equal ones.
  Sent send(const HeldDatagram& datagram, Ticket ticket);
  // What has been received since the last look.
  std::vector<Receipt> look();
  void forget(Ticket ticket);  // it is not waited for any more
  bool awaits() const { return area_.awaited_count > 0; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    Ticket ticket = 0;
    Clock::time_point sent{};
  };
  shim::AwaitedDatagram* free_entry();
  void release(size_t at);

  shim::ShapeArea& area_;
  std::span<const SocketSpace> spaces_;
  Entry entries_[shim::kMaxAwaited];  // as in ShapeArea::awaited
  uint64_t order_ = 0;
};

}  // namespace friday
