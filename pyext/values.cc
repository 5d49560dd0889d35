// Small values that are passed to Python: logical times and raw values.
#include <pybind11/operators.h>

#include "pyext/bindings.h"

namespace friday {

namespace py = pybind11;

py::tuple to_python(const RawValue& value) {
  py::object address = value.address ? py::object(py::int_(*value.address)) : py::object(py::none());
  return py::make_tuple(value.type, py::bytes(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size()),
                        address);
}

namespace {
double seconds(const PyTime& t) { return t.time.l == 0 ? 0.0 : static_cast<double>(t.time.l - t.origin) / 1e9; }
}  // namespace

void bind_values(py::module_& module) {
  py::class_<PyTime>(module, "LogicalTime",
                     "A point in the group's total order; ordered, hashable; float() and str() are seconds since the "
                     "recording's first event.")
      .def("__lt__", [](const PyTime& a, const PyTime& b) { return a.time < b.time; })
      .def("__le__", [](const PyTime& a, const PyTime& b) { return a.time <= b.time; })
      .def("__gt__", [](const PyTime& a, const PyTime& b) { return a.time > b.time; })
      .def("__ge__", [](const PyTime& a, const PyTime& b) { return a.time >= b.time; })
      .def("__eq__", [](const PyTime& a,
                        const py::object& b) { return py::isinstance<PyTime>(b) && a.time == b.cast<PyTime>().time; })
      .def("__hash__",
           [](const PyTime& a) {
             return py::hash(py::make_tuple(a.time.l, a.time.c, a.time.node.value, a.time.sequence));
           })
      .def("__float__", seconds)
      .def("__sub__", [](const PyTime& a, const PyTime& b) { return static_cast<double>(a.time.l - b.time.l) / 1e9; })
      .def("__str__", [](const PyTime& a) { return fmt::format("{:.6f}", seconds(a)); })
      .def("__repr__",
           [](const PyTime& a) {
             return fmt::format("<LogicalTime {:.9f} s, {}, node {}>", seconds(a), a.time.c, a.time.node);
           })
      .def_property_readonly("node", [](const PyTime& a) { return a.time.node.value; })
      .def_property_readonly("counter", [](const PyTime& a) { return a.time.c; });
}

}  // namespace friday
