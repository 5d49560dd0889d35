// _friday.Stop: why the group has stopped.
#include <nlohmann/json.hpp>

#include "core/trace/calls.h"
#include "pyext/session.h"

namespace friday {
namespace {

// Whether the time of the stop is the time of the next event: then everything before that event in the group's order is
// done, although the last event of the node itself may be much earlier.
bool stands_before(Stop::Kind kind) {
  return kind == Stop::Kind::reached || kind == Stop::Kind::timer || kind == Stop::Kind::caught;
}

// The values that friday.Divergence is made from (pyext/friday/errors.py).
py::object report_of(const Divergence& divergence) {
  return py::module_::import("json").attr("loads")(
      to_json(divergence).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

py::object optional_value(const std::optional<RawValue>& value) {
  return value ? py::object(to_python(*value)) : py::object(py::none());
}
py::object optional_text(const std::string& text) {
  return text.empty() ? py::object(py::none()) : py::object(py::str(text));
}

}  // namespace

void bind_stop(py::module_& module) {
  py::class_<PyStop>(module, "Stop")
      .def_property_readonly("kind", [](const PyStop& s) { return name_of(s.stop.kind); })
      .def_property_readonly("ids",
                             [](const PyStop& s) {
                               py::tuple ids(s.stop.ids.size());
                               for (size_t i = 0; i < s.stop.ids.size(); i++) ids[i] = s.stop.ids[i];
                               return ids;
                             })
      .def_property_readonly("node", [](const PyStop& s) { return s.stop.node.value; })
      .def_property_readonly("thread", [](const PyStop& s) { return s.stop.thread.value; })
      .def_property_readonly("writer",
                             [](const PyStop& s) -> py::object {
                               if (!s.stop.writer) return py::none();
                               return py::make_tuple(
                                   s.stop.writer->node.value, s.stop.writer->thread.value,
                                   s.session->location(s.stop.writer->node.value, s.stop.writer->pc.value));
                             })
      .def_property_readonly("pc", [](const PyStop& s) { return s.stop.pc.value; })
      .def_property_readonly("location",
                             [](const PyStop& s) -> py::object {
                               if (!s.stop.pc.value) return py::none();
                               return py::str(s.session->location(s.stop.node.value, s.stop.pc.value));
                             })
      .def_property_readonly("changes",
                             [](const PyStop& s) {
                               py::dict changes;
                               for (const WatchChange& each : s.stop.changes)
                                 changes[py::int_(each.id)] = py::make_tuple(
                                     each.expression, optional_value(each.old_value), optional_value(each.new_value));
                               return changes;
                             })
      .def_property_readonly("logical_time",
                             [](const PyStop& s) {
                               if (s.stop.writer) return s.session->time_of(s.stop.writer->node, s.stop.writer->events);
                               return s.stop.kind == Stop::Kind::exit
                                          ? s.session->time_of_end(s.stop.node)
                                          : s.session->time_of(s.stop.node,
                                                               stands_before(s.stop.kind) ? s.event + 1 : s.event);
                             })
      .def_property_readonly(
          "real_time",
          [](const PyStop& s) {
            if (s.stop.kind == Stop::Kind::exit)
              return static_cast<double>(s.session->replay().realtime_ns(s.stop.node)) / 1e9;
            auto& order = s.session->replay().schedule();
            const uint64_t count = order.event_count(s.stop.node);
            if (!count) return 0.0;
            return static_cast<double>(order.realtime_ns(s.stop.node, {s.event ? std::min(s.event, count) - 1 : 0})) /
                   1e9;
          })
      .def_property_readonly("event",
                             [](const PyStop& s) -> std::optional<uint64_t> {
                               return s.event ? std::optional(s.event - 1) : std::nullopt;
                             })
      .def_property_readonly("signal",
                             [](const PyStop& s) -> py::object {
                               return s.stop.signal ? py::object(py::str(signal_text(s.stop.signal))) : py::none();
                             })
      .def_property_readonly(
          "mark", [](const PyStop& s) { return s.stop.mark ? std::optional(text_of(s.stop.mark)) : std::nullopt; })
      .def_property_readonly("returned", [](const PyStop& s) { return optional_text(s.stop.returned); })
      .def_property_readonly("caught", [](const PyStop& s) { return optional_text(s.stop.caught); })
      .def_property_readonly("message", [](const PyStop& s) { return optional_text(s.stop.message); })
      .def_property_readonly(
          "divergence",
          [](const PyStop& s) -> py::object { return s.stop.divergence ? report_of(*s.stop.divergence) : py::none(); })
      .def("__repr__", [](const PyStop& s) {
        return fmt::format("<Stop {} node {} event {}>", name_of(s.stop.kind), s.stop.node, s.event);
      });
}

py::object make_stop(const py::object& self, DebugStop stop) {
  auto& session = self.cast<Session&>();
  const uint64_t event = session.replay().mark(stop.node).event.value;
  return py::cast(PyStop{&session, self, std::move(stop), event});
}

py::object make_stop(const py::object& self, std::optional<DebugStop> stop) {
  return stop ? make_stop(self, *std::move(stop)) : py::object(py::none());
}

}  // namespace friday
