// The Python interpreter inside the friday command: Debian's, isolated from the user's environment and site packages,
// with the package friday of this build first on its path. FRIDAY_PYTHON may name more directories ("a:b"), which come
// before it.
//
// One interpreter a process, made by the subcommands that need it (replay, run) on the main thread, which holds the
// interpreter's lock as long as the object lives. Python's own handler of Ctrl-C is installed.
#pragma once

#include <memory>
#include <string>

#include <pybind11/embed.h>

#include "core/base/error.h"

namespace friday {

class PythonRuntime {
 public:
  // Fails in words when the interpreter, its standard library or the package friday are not there.
  static Result<std::unique_ptr<PythonRuntime>> start();
  ~PythonRuntime();
  PythonRuntime(const PythonRuntime&) = delete;

  // An imported module of the package, e.g. "friday.console".
  Result<pybind11::module_> import(const char* name);

 private:
  PythonRuntime() = default;
};

// The last line of a Python exception, "ModuleNotFoundError: No module named 'friday'".
std::string summary(const pybind11::error_already_set& error);

// What a subcommand does in Python, with all that may go wrong outside of the package turned into a message and an exit
// code.
template <typename Function>
int with_python(const char* subcommand, const char* module, Function&& function) {
  auto runtime = PythonRuntime::start();
  if (!runtime) {
    fmt::print(stderr, "friday {}: {}\n", subcommand, describe(runtime.error()));
    return 2;
  }
  auto imported = (*runtime)->import(module);
  if (!imported) {
    fmt::print(stderr, "friday {}: {}\n", subcommand, describe(imported.error()));
    return 2;
  }
  try {
    return function(*imported);
  } catch (const pybind11::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) return 130;
    fmt::print(stderr, "friday {}: {}\n", subcommand, error.what());
    return 2;
  }
}

}  // namespace friday
