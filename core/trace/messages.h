// The list of all messages of a recording: each transfer through a socket or pipe, with both of its ends where matching
// found both. It is computed on request from the traces and a Schedule, for users who ask what a node heard last; the
// event order itself needs only the edges.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/logical_time.h"
#include "core/trace/reader.h"

namespace friday {

struct MessageEnd {
  NodeId node;
  uint64_t event;  // the event at which the call was entered (sender) or returned (receiver)
};

// For streams, one Message is the part of one send that one receive got.
struct Message {
  // Empty if the other end was not found among the schedule's nodes.
  std::optional<MessageEnd> sent, received;
  uint64_t bytes;
  EdgeKind kind;  // one for which is_message() is true
  MessagePlace place{};

  const MessageEnd& last() const { return received ? *received : *sent; }
};

struct Channel;
struct Transfer;
// What messages through a channel are; none if it carries none.
std::optional<EdgeKind> message_kind(const Channel& channel);
// Whether a transfer of such a channel moved bytes of a message, or an empty datagram: not one that only looked at
// them.
bool moves_message(const Channel& channel, const Transfer& transfer);

// Ordered by the position of the receive, within one receive by the place of their bytes; a message without a known
// receive is ordered by its send.
Result<std::vector<Message>> messages_of(const Recording& recording, const Schedule& schedule);

// The contents of a message, as its receiver got them. What a program sends is computed again at replay, so the
// recording keeps no bytes of it.
struct MessageText {
  std::string bytes;    // from the first one on
  std::string missing;  // why they are not the whole message; empty if they are
};
// `received`: the event of Message::received; none if nobody has received the message.
MessageText text_of(const Message& message, const std::optional<EventView>& received);

}  // namespace friday
