// The messages of a recording, one after the other: each transfer through a socket or pipe with both of its ends, where
// matching found both. Derived from the traces and a Schedule on request, for people who ask what a node last heard;
// the order itself needs only the edges.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/trace/logical_time.h"

namespace friday {

struct MessageEnd {
  NodeId node;
  uint64_t event;  // sender: where the call was entered; receiver: where it returned
};

// Of a stream: the bytes of one send that one receive got.
struct Message {
  // None: the other end is not among the schedule's nodes, or is the node itself.
  std::optional<MessageEnd> sent, received;
  uint64_t bytes;
  EdgeKind kind;  // is_message(kind)

  const MessageEnd& last() const { return received ? *received : *sent; }
};

// In the order of receipt; those that no node of the schedule received, where they were sent.
Result<std::vector<Message>> messages_of(const Recording& recording, const Schedule& schedule);

}  // namespace friday
