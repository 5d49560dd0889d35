// What has moved through each channel of a node, how fast, and how much of it the recording leaves out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/trace/channels.h"
#include "core/trace/reader.h"

namespace friday {

struct ChannelTraffic {
  uint64_t channel = 0;
  std::optional<ChannelDescription> about;  // none if the trace does not describe it
  struct Direction {
    uint64_t bytes = 0, messages = 0;
    double most = 0;  // bytes a second, in the 2 s in which it was most
  };
  Direction in, out;
  uint64_t left_out = 0;               // of the bytes that it received
  std::map<Uuid, uint64_t> left_with;  // by node: bytes that a replay of it makes again
  // The first messages of which bytes are left out after one that is whole, and the other way round.
  struct Change {
    uint64_t event;
    bool left_out;
  };
  std::vector<Change> changes;  // the first kMostChangesListed
  uint64_t changed = 0;         // how many there were
  std::optional<Change> last_change;
  bool leaves_out = false;  // at its last message
};
inline constexpr size_t kMostChangesListed = 100;

// Of all channels that have moved bytes, by number. `channels`: those that the node has inherited; the trace's own are
// added. Fails at damage.
Result<std::vector<ChannelTraffic>> channel_traffic(const TraceReader& reader, ChannelTable& channels);

}  // namespace friday
