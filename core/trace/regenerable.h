// Which received bytes of a recording need not be stored, since a replay of their senders has them again: at the entry
// of the call that sent them, in the sender's memory. The recorded messages (Edge) say which bytes of which call they
// are.
//
// Bytes count as regenerable only if all bytes of their send were received by recorded nodes, so that the hash which
// the sender recorded could be compared. `friday pack --lean` tries besides that a replay makes them again
// (core/replay/restoring.h); `friday record --lean` cannot. Not regenerable are bytes that never were in a recorded
// program's memory (sendfile), out-of-band and peeked bytes, and what a node sends to itself.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/error.h"
#include "core/trace/left_out.h"
#include "core/trace/logical_time.h"
#include "core/trace/recording.h"

namespace friday {

// Consecutive bytes of one receive that came from one send.
struct Regenerable : LeftOut {
  uint64_t in_stream = 0;   // how many bytes the channel had received before; 0 for datagrams
  uint64_t in_message = 0;  // how many bytes of the same receive lie before
  bool stream = false;
  uint64_t channel = 0;  // by which it was received
  uint64_t ticks = 0;    // when the call had returned that received it
};

// For each node of the order, the regenerable bytes that it received, by `offset`. Traces may leave out payload; then
// what is left out is found again by position. Fails at damage.
Result<std::map<NodeId, std::vector<Regenerable>>> find_regenerable(const Recording& recording, const Schedule& order);

}  // namespace friday
