// Which messages descend from those of one program, the root. An example of a root is a diagnosis script that asks a
// system which other clients go on using. A connection descends from the root if the root itself sends or receives on
// it, or if a process sends on it because of a message that descends from the root.
//
// A trace does not show why a thread sends something. It is taken to send because of the message that it has received
// last, whoever that was from. A thread that receives nothing itself, such as a worker to which other threads hand
// requests, is taken to send because of the message that its process has received last.
#pragma once

#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/trace/facts.h"
#include "core/trace/logical_time.h"

namespace friday {

class Descent {
 public:
  // `roots`: the node ids of the program and of its children.
  Descent(const Schedule& schedule, const FactSet& facts, const std::set<uint32_t>& roots);

  // Whether the message that `transfer` has sent or received on the channel descends from the root. If one message of a
  // stream does, all of them do; each datagram is decided for itself.
  bool has(uint32_t channel, const Transfer& transfer) const;

 private:
  std::vector<bool> channels_;  // by index in FactSet::channels: the streams that descend
  // The datagrams that descend: channel, event and Transfer::part of each.
  std::set<std::tuple<uint32_t, uint64_t, uint32_t>> messages_;
};

}  // namespace friday
