// Carries the packets of a group's network from host to host, and does on the way what the links say (links.h). It is
// the only way between the hosts: what it does not pass on is lost without an answer, as on a cable that was cut. Runs
// in a process of its own (network.h), which the recorder tells about changes through a socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <vector>

#include "core/record/links.h"
#include "core/record/veth.h"

namespace friday {

// The relay's answer to each message of the recorder. Counts since the start.
struct RelayCounts {
  uint64_t delivered = 0, lost = 0;  // packets; `lost` by the faults that were asked for
  uint64_t overflowed = 0;           // packets that were lost because relay or kernel had no room for them
};

// A message of the recorder is an array of LinkChange, or this one byte: the relay is to end.
inline constexpr char kEndRelay = 'e';
inline constexpr size_t kMostChanges = 512;  // in one message

class Relay {
 public:
  // sockets[i] is the way to host i, whose address is first_address + i (in host byte order).
  Relay(std::vector<FrameSocket> sockets, Links links, uint32_t first_address, uint32_t broadcast);

  // Carries packets until the recorder says that the relay is to end (returns true), or is gone (returns false).
  // `control` is a socket of type SOCK_SEQPACKET. A change is in force when it has been answered.
  bool run(int control);

  // Sends the counts to the recorder.
  void answer(int control);

 private:
  struct Waiting {
    int64_t due_ns;
    uint64_t number;  // packets that are due at once leave in the order in which they came
    uint32_t from, to;
    std::vector<std::byte> frame;
    bool operator>(const Waiting& other) const {
      return due_ns != other.due_ns ? due_ns > other.due_ns : number > other.number;
    }
  };
  enum class Heard { change, end, gone };

  void take(uint32_t from, std::span<const std::byte> frame);
  void pass(uint32_t from, uint32_t to, std::span<const std::byte> frame);
  void deliver(uint32_t from, uint32_t to, std::span<const std::byte> frame);
  void deliver_due();
  Heard hear(int control);

  std::vector<FrameSocket> sockets_;
  Links links_;
  uint32_t first_address_, broadcast_;
  int64_t now_ns_ = 0;
  uint64_t next_number_ = 0;
  size_t waiting_bytes_ = 0;
  std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> waiting_;
  RelayCounts counts_;
};

}  // namespace friday
