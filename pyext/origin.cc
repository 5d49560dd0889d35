// _friday.Hop: one step on the way back of a value.
#include "core/origin/origin.h"

#include "pyext/session.h"

namespace friday {
namespace {

py::bytes to_bytes(const std::vector<std::byte>& value) {
  return {reinterpret_cast<const char*>(value.data()), value.size()};
}

Bytes::In in_named(const std::string& name) {
  if (name == "memory") return Bytes::In::memory;
  if (name == "general") return Bytes::In::general;
  if (name == "vector") return Bytes::In::vector;
  raise({ErrorCode::usage, fmt::format("bytes are in memory, general or vector registers, not in \"{}\"", name)});
}
const char* name_of(Bytes::In in) {
  return in == Bytes::In::memory ? "memory" : in == Bytes::In::general ? "general" : "vector";
}

}  // namespace

std::vector<Hop> origin_of(Session& session, uint32_t node, const std::string& in, uint64_t low, uint64_t size,
                           std::pair<unsigned, unsigned> bits, size_t most, const py::object& found) {
  const Bytes bytes{in_named(in), low, size};
  value_or_raise(session.replay().node({node}));
  const auto tell = [&](const Hop& hop) {
    const py::gil_scoped_acquire locked;
    try {
      if (!found.is_none()) found(hop.node.value, friday::name_of(hop.how));
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("what is told of the hops of an origin");
    }
  };
  auto result = session.interruptible([&](Debugger& d) {
    return Origin(d).follow({node}, bytes, most, {bits.first, bits.second}, tell);
  });
  if (!result && result.error().code == ErrorCode::interrupted) session.clear_interrupt();
  return value_or_raise(std::move(result));
}

void bind_origin(py::module_& module) {
  py::class_<Bytes>(module, "Bytes")
      .def_property_readonly("where", [](const Bytes& b) { return name_of(b.in); })
      .def_readonly("low", &Bytes::low)
      .def_readonly("size", &Bytes::size)
      .def("__str__", [](const Bytes& b) { return text_of(b); });
  py::class_<Hop::Input>(module, "Input")
      .def_readonly("bytes", &Hop::Input::bytes)
      .def_property_readonly("value", [](const Hop::Input& i) { return to_bytes(i.value); })
      .def_readonly("part_at", &Hop::Input::part_at)
      .def_readonly("part_of", &Hop::Input::part_of)
      .def_property_readonly("mark",
                             [](const Hop::Input& i) { return i.mark ? py::cast(text_of(*i.mark)) : py::none(); })
      .def_readonly("written", &Hop::Input::written);
  py::class_<Hop>(module, "Hop")
      .def_property_readonly("how", [](const Hop& h) { return friday::name_of(h.how); })
      .def_property_readonly("node", [](const Hop& h) { return h.node.value; })
      .def_property_readonly("thread", [](const Hop& h) { return h.thread.value; })
      .def_property_readonly("mark", [](const Hop& h) { return text_of(h.mark); })
      .def_property_readonly("pc", [](const Hop& h) { return h.pc.value; })
      .def_readonly("bytes", &Hop::bytes)
      .def_property_readonly("value", [](const Hop& h) { return to_bytes(h.value); })
      .def_readonly("part_at", &Hop::part_at)
      .def_readonly("part_of", &Hop::part_of)
      .def_readonly("swapped", &Hop::swapped)
      .def_readonly("text", &Hop::text)
      .def_readonly("inputs", &Hop::inputs);
}

}  // namespace friday
