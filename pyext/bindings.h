// Shared by the files of the binding. Exceptions exist only at this level: the core's Errors are converted to the
// classes of friday.errors by one table.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "core/base/error.h"
#include "core/debug/debugger.h"
#include "core/trace/node_list.h"

namespace friday {

// Raises the Python exception for `error`. `expression` is true if the error concerns a C expression.
[[noreturn]] void raise(const Error& error, bool expression = false);

template <typename T>
T value_or_raise(Result<T> result, bool expression = false) {
  if (!result) raise(result.error(), expression);
  return std::move(*result);
}
inline void check_or_raise(Result<void> result, bool expression = false) {
  if (!result) raise(result.error(), expression);
}

// Returns (type id, bytes, address or None).
pybind11::tuple to_python(const RawValue& value);

// A logical time for Python; its text is in seconds since the recording's first event.
struct PyTime {
  LogicalTime time;
  int64_t origin = 0;
};

void bind_values(pybind11::module_& module);
void bind_session(pybind11::module_& module);
void bind_recording(pybind11::module_& module);

}  // namespace friday
