#include "pyext/messages.h"

#include <algorithm>

namespace friday {

namespace py = pybind11;

const std::vector<Message>& Messages::all(ReplaySession& replay) {
  if (messages_) return *messages_;
  messages_ = value_or_raise(messages_of(replay.recording(), replay.schedule()));
  for (size_t i = 0; i < messages_->size(); i++)
    if (const auto& end = (*messages_)[i].received) received_[end->node].push_back(i);
  return *messages_;
}

std::vector<PyMessage> Messages::last(ReplaySession& replay, std::optional<NodeId> node, size_t limit) {
  std::vector<std::pair<uint64_t, size_t>> found;  // (position of its latest event, index)
  const auto& order = replay.schedule();
  std::map<NodeId, uint64_t> done;
  for (NodeId id : replay.nodes()) done[id] = replay.mark(id).event.value;
  const auto& list = all(replay);
  for (size_t i = 0; i < list.size(); i++) {
    const Message& m = list[i];
    if (node && !(m.sent && m.sent->node == *node) && !(m.received && m.received->node == *node)) continue;
    const MessageEnd* last = m.received && m.received->event < done[m.received->node] ? &*m.received
                             : m.sent && m.sent->event < done[m.sent->node]           ? &*m.sent
                                                                                      : nullptr;
    if (last) found.emplace_back(order.position_of(last->node, {last->event}), i);
  }
  limit = std::min(limit, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<ptrdiff_t>(limit), found.end(), std::greater<>());
  std::vector<PyMessage> out;
  for (size_t i = limit; i-- > 0;) out.push_back(message(replay, found[i].second + 1));
  return out;
}

std::vector<PyMessage> Messages::between(ReplaySession& replay, const std::optional<std::vector<uint32_t>>& sources,
                                         const std::optional<std::vector<uint32_t>>& targets) {
  auto wanted = [](const std::optional<std::vector<uint32_t>>& nodes, const std::optional<MessageEnd>& end) {
    return !nodes || (end && std::find(nodes->begin(), nodes->end(), end->node.value) != nodes->end());
  };
  const auto& list = all(replay);
  std::vector<PyMessage> out;
  for (size_t i = 0; i < list.size(); i++)
    if (wanted(sources, list[i].sent) && wanted(targets, list[i].received)) out.push_back(message(replay, i + 1));
  return out;
}

std::optional<PyMessage> Messages::last_received(ReplaySession& replay, NodeId node) {
  const auto& list = all(replay);
  const auto& mine = received_[node];
  const uint64_t done = replay.mark(node).event.value;
  const auto after =
      std::partition_point(mine.begin(), mine.end(), [&](size_t i) { return list[i].received->event < done; });
  if (after == mine.begin()) return std::nullopt;
  return message(replay, *std::prev(after) + 1);
}

const Message& Messages::numbered(ReplaySession& replay, uint64_t number) {
  const auto& list = all(replay);
  if (number == 0 || number > list.size())
    raise({ErrorCode::usage, fmt::format("there is no message {}: {}", number,
                                         list.empty() ? "no node sends or receives any"
                                                      : fmt::format("they have the numbers 1 to {}", list.size()))});
  return list[number - 1];
}

py::tuple Messages::contents(ReplaySession& replay, uint64_t number) {
  const Message& m = numbered(replay, number);
  if (!m.received) return contents_of(m, std::nullopt);
  const NodeId id = m.received->node;
  const TraceReader& reader = replay.find(id)->reader();
  auto known = indexes_.find(id);
  if (known == indexes_.end())
    known = indexes_.emplace(id, value_or_raise(TraceIndex::load_or_build(replay.recording(), reader))).first;
  return contents_of(m, value_or_raise(known->second.event(reader, m.received->event)));
}

PyMessage Messages::message(ReplaySession& replay, uint64_t number) {
  const Message& m = numbered(replay, number);
  auto time = [&](const std::optional<MessageEnd>& end) {
    return end ? std::optional(PyTime{replay.schedule().time_of(end->node, {end->event}), replay.schedule().origin()})
               : std::nullopt;
  };
  auto done = [&](const std::optional<MessageEnd>& end) {
    return end && end->event < replay.mark(end->node).event.value;
  };
  return {number, m, time(m.sent), time(m.received), done(m.sent), done(m.received)};
}

py::tuple contents_of(const Message& message, const std::optional<EventView>& received) {
  const MessageText text = text_of(message, received);
  const bool has_none = text.bytes.empty() && !text.missing.empty();
  return py::make_tuple(has_none ? py::object(py::none()) : py::bytes(text.bytes),
                        text.missing.empty() ? py::object(py::none()) : py::str(text.missing));
}

void bind_messages(py::module_& module) {
  auto node = [](const std::optional<MessageEnd>& end) { return end ? std::optional(end->node.value) : std::nullopt; };
  auto event = [](const std::optional<MessageEnd>& end) { return end ? std::optional(end->event) : std::nullopt; };
  py::class_<PyMessage>(module, "Message")
      .def_readonly("number", &PyMessage::number)
      .def_property_readonly("source", [=](const PyMessage& m) { return node(m.message.sent); })
      .def_property_readonly("source_event", [=](const PyMessage& m) { return event(m.message.sent); })
      .def_readonly("sent", &PyMessage::sent)
      .def_readonly("is_sent", &PyMessage::is_sent)
      .def_property_readonly("target", [=](const PyMessage& m) { return node(m.message.received); })
      .def_property_readonly("target_event", [=](const PyMessage& m) { return event(m.message.received); })
      .def_readonly("received", &PyMessage::received)
      .def_readonly("is_received", &PyMessage::is_received)
      .def_property_readonly("bytes", [](const PyMessage& m) { return m.message.bytes; })
      .def_property_readonly("channel", [](const PyMessage& m) { return name_of(m.message.kind); })
      .def("__repr__", [=](const PyMessage& m) {
        auto text = [](auto id) { return id ? fmt::format("node {}", *id) : std::string("outside"); };
        return fmt::format("<message {} {} -> {}, {} bytes>", m.number, text(node(m.message.sent)),
                           text(node(m.message.received)), m.message.bytes);
      });
}

}  // namespace friday
