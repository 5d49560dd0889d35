// The messages of a replayed group, as Python sees them: all that the recording holds, in the order of receipt and
// numbered from 1, each with whether it has been sent and received so far.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/trace/index.h"
#include "core/trace/messages.h"
#include "pyext/bindings.h"

namespace friday {

struct PyMessage {
  uint64_t number;  // from 1
  Message message;
  std::optional<PyTime> sent, received;
  bool is_sent, is_received;  // has it happened yet
};

class Messages {
 public:
  // The last messages of a node, or of all nodes, that were sent or received so far.
  std::vector<PyMessage> last(ReplaySession& replay, std::optional<NodeId> node, size_t limit);
  // All messages, or those between the given senders and receivers, in the order of receipt.
  std::vector<PyMessage> between(ReplaySession& replay, const std::optional<std::vector<uint32_t>>& sources,
                                 const std::optional<std::vector<uint32_t>>& targets);
  // The last message that a node has received so far.
  std::optional<PyMessage> last_received(ReplaySession& replay, NodeId node);
  PyMessage message(ReplaySession& replay, uint64_t number);
  // The bytes of a message, or None, and why they are not the whole message, or None.
  pybind11::tuple contents(ReplaySession& replay, uint64_t number);

 private:
  const std::vector<Message>& all(ReplaySession& replay);
  const Message& numbered(ReplaySession& replay, uint64_t number);

  std::optional<std::vector<Message>> messages_;    // computed on first use
  std::map<NodeId, std::vector<size_t>> received_;  // indices of messages_, by receiver
  std::map<NodeId, TraceIndex> indexes_;            // of the receivers whose messages were read
};

// (bytes or None, why they are not the whole message or None); see text_of().
pybind11::tuple contents_of(const Message& message, const std::optional<EventView>& received);

void bind_messages(pybind11::module_& module);

}  // namespace friday
