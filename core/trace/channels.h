// The channels of one node, as its trace describes them: open files, sockets, pipes and the like, each by its number in
// the trace. A channel is described before the first event that moves bytes through it, and once more when what is
// known of it changes (bind(2), connect(2)). A ChannelTable is a value; any thread may read one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/address.h"
#include "core/trace/index.h"
#include "core/trace/record.h"

namespace friday {

struct ChannelDescription {
  uint64_t channel = 0;   // its number in the trace, from 1
  uint64_t event = 0;     // index of the first event that stands behind this description
  uint64_t offset = 0;    // of the description in the trace file
  uint32_t kind = 0;      // format::ChannelKind
  int descriptor = -1;    // the file descriptor by which it was seen
  Address local, remote;  // of sockets
  // As fstat(2) shows them: they name a file, or a pipe, whose two ends have the same; 0 of anything else.
  uint64_t device = 0, inode = 0;
};

class ChannelTable {
 public:
  // Reads all descriptions of a trace; `index` is the reader's. Fails where the trace is damaged.
  static Result<ChannelTable> read(const TraceReader& reader, const TraceIndex& index);
  // For who walks the records in their order anyway: takes the description if the record is one.
  void add(const RecordView& record);
  // Takes what is known of the channels that a forked node has from its parent, which are not in its own trace.
  // `offset`: of the fork, in the parent's trace.
  void inherit(const ChannelTable& parent, uint64_t offset);

  // What was known of the channel at the record at `offset`, or null when it had not been described there.
  const ChannelDescription* find(uint64_t channel, uint64_t offset = ~uint64_t{0}) const;
  // The other side of a transfer, a part of the event at `offset`: as the call names it, else as the channel is
  // connected; empty when neither is known.
  std::string peer_text(PartView transfer, uint64_t offset = ~uint64_t{0}) const;
  // The last description of each channel, by number.
  std::vector<ChannelDescription> all() const;

 private:
  std::map<uint64_t, std::vector<ChannelDescription>> known_;  // by channel, in the order of the trace
};

// "file", "stream", "datagram", "seqpacket", "pipe", "device", "event" (eventfd, timerfd, signalfd, epoll), "terminal",
// "listening" or "unknown".
const char* channel_kind_name(uint32_t kind);
// Whether programs talk with each other through channels of this kind: sockets and pipes.
bool is_conversation(uint32_t kind);

}  // namespace friday
