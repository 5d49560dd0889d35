#include "core/base/printable.h"
#include "pyext/bindings.h"

namespace friday {

namespace py = pybind11;

namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// For errors of expressions, gdb's message determines the class, because gdb gives no error codes.
const char* class_of(const Error& error, bool expression) {
  const std::string& m = error.message;
  if (error.code == ErrorCode::call_failed) return "call_failed";
  if (expression) {
    if (m.starts_with("No symbol") || contains(m, "has no member named") || contains(m, "There is no member ") ||
        contains(m, "There is no field named") || contains(m, "has no component named") ||
        m.starts_with("Couldn't find method "))
      return "no_symbol";
    if (m.starts_with("Function \"") || m.starts_with("No function contains") ||
        m.starts_with("No source file named") || m.starts_with("No line "))
      return "no_symbol";
    if (contains(m, "optimized out")) return "optimized_out";
    if (contains(m, "annot access memory")) return "bad_address";
    if (contains(m, "No frame")) return "out_of_scope";
    if (contains(m, "while in a function called from GDB") || contains(m, "The program being debugged"))
      return "call_failed";
  }
  switch (error.code) {
    case ErrorCode::usage: return expression ? "bad_expression" : "usage";
    case ErrorCode::bad_input: return expression ? "bad_expression" : "bad_input";
    case ErrorCode::not_found: return expression ? "no_symbol" : "no_node";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::bad_address: return "bad_address";
    case ErrorCode::node_ended: return "node_ended";
    case ErrorCode::node_not_started: return "node_not_started";
    case ErrorCode::component_died: return "component_died";
    case ErrorCode::diverged: return "diverged";
    case ErrorCode::io: return expression ? "bad_expression" : "error";
    case ErrorCode::call_failed: return "call_failed";
    case ErrorCode::interrupted: return "error";
  }
  return "error";
}

}  // namespace

void raise(const Error& error, bool expression) {
  if (error.code == ErrorCode::interrupted) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  py::object table = py::module_::import("friday.errors").attr("by_code");
  const std::string name = class_of(error, expression);
  py::object kind = table[name.c_str()];
  py::dict options;
  if (error.node) options["node"] = *error.node;
  if (error.event) options["event"] = *error.event;
  if (error.address && name == "bad_address") options["address"] = *error.address;
  if (!error.how.empty() && name == "call_failed") options["how"] = error.how;
  py::object instance = kind(printable_lines(error.message), **options);
  PyErr_SetObject(kind.ptr(), instance.ptr());
  throw py::error_already_set();
}

}  // namespace friday
