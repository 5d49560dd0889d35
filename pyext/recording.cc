// _friday.Recording: what a recording holds, read from its traces and from the order of its events. Nothing is
// replayed: there is no process and no gdb. friday.Recording (pyext/friday/recording.py) is what users see.
#include <algorithm>
#include <memory>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"
#include "core/replay/cuts.h"
#include "core/replay/restoring.h"
#include "core/trace/aliases.h"
#include "core/trace/calls.h"
#include "core/trace/channels.h"
#include "core/trace/event_json.h"
#include "core/trace/event_text.h"
#include "core/trace/node_end.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"
#include "core/trace/steps.h"
#include "pyext/bindings.h"
#include "pyext/messages.h"
#include "pyext/session.h"

namespace friday {
namespace {

// The opened trace of one node. Events keep it alive.
struct NodeTrace {
  TraceReader reader;
  TraceIndex index;
  ChannelTable channels;
};

struct PyEvent {
  std::shared_ptr<const NodeTrace> trace;
  EventView view;
  uint64_t offset;  // in the trace file
  PyTime time;
};

py::bytes bytes_of(std::span<const std::byte> data) {
  return py::bytes(reinterpret_cast<const char*>(data.data()), data.size());
}

std::optional<std::string> error_of(const EventView& event) {
  constexpr int64_t kLastError = -4095;  // include/linux/err.h, MAX_ERRNO
  if (!event.has_call() || event.type() == format::kRelease || event->result >= 0 || event->result < kLastError)
    return std::nullopt;
  return errno_text(static_cast<int>(-event->result));
}

// (address, bytes) of all that the kernel wrote.
py::tuple memory_of(const EventView& event) {
  py::list list;
  for (PartView part : event.parts())
    if (part.kind() == format::kMemory) list.append(py::make_tuple(part.address(), bytes_of(part.bytes())));
  return py::tuple(list);
}

// (channel, direction, offset, length, peer or None, flags)
py::tuple transfers_of(const PyEvent& event) {
  py::list list;
  for (PartView part : event.view.parts()) {
    const auto* t = part.transfer();
    if (!t) continue;
    const std::string peer = event.trace->channels.peer_text(part, event.offset);
    list.append(py::make_tuple(t->channel, t->direction == format::kIn ? "in" : "out", t->offset, t->length,
                               peer.empty() ? py::object(py::none()) : py::str(printable(peer)),
                               (t->flags & format::kEndOfStream) != 0));
  }
  return py::tuple(list);
}

// The bytes of the event's transfer number `ordinal`, or None; and if None, why.
py::tuple payload_of(const PyEvent& event, uint32_t ordinal) {
  const PayloadAnswer answer = trace_payloads().read(event.view, ordinal);
  if (!answer) return py::make_tuple(py::none(), py::str(std::string(gap_text(answer.error()))));
  return py::make_tuple(bytes_of(answer->joined()), py::none());
}

std::optional<std::string> path_of(const EventView& event) {
  for (PartView part : event.parts())
    if (part.kind() == format::kPath) return printable(part.text());
  return std::nullopt;
}

class PyRecording {
 public:
  PyRecording(const std::string& path, const std::optional<std::string>& nodes)
      : recording_(value_or_raise(Recording::open(path))) {
    std::vector<NodeId> wanted;
    if (nodes) wanted = value_or_raise(parse_node_list(recording_, *nodes));
    const auto needed = nodes ? std::set<NodeId>(wanted.begin(), wanted.end()) : all_readable(recording_);
    recording_ = value_or_raise(completed(std::move(recording_), needed, {default_library_directory(), false, {}}));
    Result<Schedule> order = [&] {
      py::gil_scoped_release release;
      return Schedule::load_or_compute(recording_, wanted);
    }();
    order_ = value_or_raise(std::move(order));
  }

  // The nodes that the order knows, by id.
  std::vector<py::dict> nodes() const {
    std::vector<py::dict> list;
    const auto aliases = aliases_of(recording_.nodes());
    for (NodeId id : order_.nodes()) {
      const NodeInfo& info = *recording_.find(id);
      py::dict node;
      node["id"] = id.value;
      node["name"] = printable(info.name);
      node["program"] = printable(info.program);
      const auto alias = aliases.find(id);
      node["alias"] = alias == aliases.end() ? "" : printable(alias->second);
      py::list arguments;
      for (const std::string& argument : info.argv) arguments.append(printable(argument));
      node["argv"] = py::tuple(arguments);
      node["host"] = printable(info.host);
      node["pid"] = info.pid;
      node["parent"] = info.parent ? py::object(py::int_(info.parent->value)) : py::none();
      node["event_count"] = order_.event_count(id);
      node["ended"] = describe(end_of(recording_, order_, info));
      list.push_back(std::move(node));
    }
    return list;
  }

  PyEvent event(uint32_t node, uint64_t index) {
    const NodeId id = known(node);
    check_event(id, index);
    auto trace = trace_of(id);
    EventView view = value_or_raise(trace->index.event(trace->reader, index));
    const uint64_t offset = trace->index.offset(index);
    return {std::move(trace), view, offset, {order_.time_of(id, {index}), order_.origin()}};
  }

  std::vector<ChannelDescription> channels(uint32_t node) { return trace_of(known(node))->channels.all(); }

  std::vector<PyMessage> messages() {
    Result<std::vector<Message>> found = [&] {
      py::gil_scoped_release release;
      return messages_of(recording_, order_);
    }();
    messages_ = value_or_raise(std::move(found));
    std::vector<PyMessage> list;
    for (const Message& message : messages_)
      list.push_back({list.size() + 1, message, time_of(message.sent), time_of(message.received),
                      message.sent.has_value(), message.received.has_value()});
    return list;
  }

  // The contents of a message of messages(), as contents_of() returns them.
  py::tuple message_contents(uint64_t number) {
    const Message& message = messages_.at(number - 1);
    if (!message.received) return contents_of(message, std::nullopt);
    const auto trace = trace_of(message.received->node);
    return contents_of(message, value_or_raise(trace->index.event(trace->reader, message.received->event)));
  }

  // What `friday record` did to nodes: (node, what, detail, logical time, wall clock in seconds, position).
  std::vector<std::tuple<uint32_t, std::string, std::string, PyTime, double, uint64_t>> steps() const {
    std::vector<std::tuple<uint32_t, std::string, std::string, PyTime, double, uint64_t>> list;
    for (const Step& step : steps_of(recording_, order_))
      list.emplace_back(step.node.value, printable(step.what), printable(step.detail),
                        PyTime{step.time, order_.origin()}, static_cast<double>(step.realtime_ns) / 1e9, step.position);
    return list;
  }

  const std::vector<Edge>& edges() const { return order_.edges(); }
  PyTime time(uint32_t node, uint64_t index) const {
    const NodeId id = known(node);
    check_event(id, index);
    return {order_.time_of(id, {index}), order_.origin()};
  }
  double real_time(uint32_t node, uint64_t index) const {
    (void)time(node, index);
    return static_cast<double>(order_.realtime_ns(NodeId{node}, {index})) / 1e9;
  }
  uint64_t event_count() const { return order_.event_count(); }
  // The marks at which parts of about equal length begin, but for the first.
  std::vector<std::string> parts(uint64_t count) const {
    std::vector<std::string> marks;
    for (const uint64_t cut : value_or_raise(cuts_of_parts(recording_, order_.event_count(), count)))
      marks.push_back(text_of(order_.at_position(cut)));
    return marks;
  }
  std::pair<uint32_t, uint64_t> at_position(uint64_t position) const {
    if (position >= order_.event_count())
      raise({ErrorCode::usage,
             fmt::format("there is no event {} in the group's order: it has {}", position, order_.event_count())});
    const Mark mark = order_.at_position(position);
    return {mark.node.value, mark.event.value};
  }
  uint64_t position_of(uint32_t node, uint64_t index) const {
    (void)time(node, index);
    return order_.position_of(NodeId{node}, {index});
  }

 private:
  NodeId known(uint32_t node) const {
    if (!std::ranges::binary_search(order_.nodes(), NodeId{node}))
      raise({ErrorCode::not_found, fmt::format("there is no node {} among those that were asked for", node)});
    return NodeId{node};
  }
  void check_event(NodeId id, uint64_t index) const {
    if (index >= order_.event_count(id))
      check_or_raise(fail(ErrorCode::usage, "node {} has no event {}: it has {}", id, index, order_.event_count(id)));
  }
  std::optional<PyTime> time_of(const std::optional<MessageEnd>& end) const {
    return end ? std::optional(PyTime{order_.time_of(end->node, {end->event}), order_.origin()}) : std::nullopt;
  }
  std::shared_ptr<const NodeTrace> trace_of(NodeId id) {
    auto& trace = traces_[id];
    if (trace) return trace;
    auto reader = value_or_raise(TraceReader::open(recording_, id));
    auto index = value_or_raise(TraceIndex::load_or_build(recording_, reader));
    auto channels = value_or_raise(ChannelTable::read(reader, index));
    return trace = std::make_shared<NodeTrace>(std::move(reader), std::move(index), std::move(channels));
  }

  Recording recording_;
  Schedule order_;
  std::vector<Message> messages_;  // once somebody has asked for them
  std::map<NodeId, std::shared_ptr<const NodeTrace>> traces_;
};

void bind_event(py::module_& module) {
  py::class_<PyEvent>(module, "Event")
      .def_property_readonly("node", [](const PyEvent& e) { return e.trace->reader.node().value; })
      .def_property_readonly("index", [](const PyEvent& e) { return e.view->index; })
      .def_property_readonly("thread", [](const PyEvent& e) { return e.view.thread(); })
      .def_property_readonly("kind", [](const PyEvent& e) { return record_type_name(e.view.type()); })
      .def_property_readonly(
          "call",
          [](const PyEvent& e) { return e.view.has_call() ? std::optional(call_text(e.view->call)) : std::nullopt; })
      .def_property_readonly("arguments",
                             [](const PyEvent& e) {
                               py::tuple list(e.view.arguments().size());
                               for (size_t i = 0; i < list.size(); i++) list[i] = e.view.arguments()[i];
                               return list;
                             })
      .def_property_readonly("result", [](const PyEvent& e) { return e.view->result; })
      .def_property_readonly("error", [](const PyEvent& e) { return error_of(e.view); })
      .def_property_readonly("signal",
                             [](const PyEvent& e) {
                               return e.view.type() == format::kSignal ? std::optional(signal_text(e.view->call))
                                                                       : std::nullopt;
                             })
      .def_property_readonly("path", [](const PyEvent& e) { return path_of(e.view); })
      .def_property_readonly("memory", [](const PyEvent& e) { return memory_of(e.view); })
      .def_property_readonly("transfers", &transfers_of)
      .def("payload", &payload_of)
      .def_readonly("time", &PyEvent::time)
      .def_property_readonly("text", [](const PyEvent& e) { return event_line(e.view); })
      .def("json", [](const PyEvent& e) {
        const double seconds = static_cast<double>(e.time.time.l - e.time.origin) / 1e9;
        return event_json(e.time.time.node, e.view, seconds, e.trace->channels, e.offset)
            .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      });
}

}  // namespace

void bind_recording(py::module_& module) {
  bind_event(module);
  py::class_<ChannelDescription>(module, "Channel")
      .def_readonly("number", &ChannelDescription::channel)
      .def_property_readonly("kind", [](const ChannelDescription& c) { return channel_kind_name(c.kind); })
      .def_readonly("descriptor", &ChannelDescription::descriptor)
      .def_readonly("event", &ChannelDescription::event)
      .def_property_readonly("local",
                             [](const ChannelDescription& c) {
                               return c.local.known() ? std::optional(printable(text(c.local))) : std::nullopt;
                             })
      .def_property_readonly("remote", [](const ChannelDescription& c) {
        return c.remote.known() ? std::optional(printable(text(c.remote))) : std::nullopt;
      });
  py::class_<Edge>(module, "Edge")
      .def_property_readonly("kind", [](const Edge& e) { return name_of(e.kind); })
      .def_property_readonly("source", [](const Edge& e) { return e.from.value; })
      .def_readonly("source_event", &Edge::from_event)
      .def_property_readonly("target", [](const Edge& e) { return e.to.value; })
      .def_readonly("target_event", &Edge::to_event)
      .def_readonly("bytes", &Edge::bytes);
  py::class_<PyRecording>(module, "Recording")
      .def(py::init<const std::string&, const std::optional<std::string>&>(), py::arg("path"),
           py::arg("nodes") = py::none())
      .def("nodes", &PyRecording::nodes)
      .def("event", &PyRecording::event)
      .def("channels", &PyRecording::channels)
      .def("messages", &PyRecording::messages)
      .def("message_contents", &PyRecording::message_contents)
      .def("edges", &PyRecording::edges)
      .def("steps", &PyRecording::steps)
      .def("time", &PyRecording::time)
      .def("real_time", &PyRecording::real_time)
      .def("event_count", &PyRecording::event_count)
      .def("at_position", &PyRecording::at_position)
      .def("parts", &PyRecording::parts)
      .def("position_of", &PyRecording::position_of);
}

}  // namespace friday
