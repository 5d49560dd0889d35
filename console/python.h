// The Python interpreter inside the friday command: Debian's, isolated from the user's environment and site packages,
// with this build's package friday first on its path. FRIDAY_PYTHON may list further directories ("a:b") to search
// before it.
//
// There is at most one interpreter in a process. The subcommands that need it (replay, run) create it on the main
// thread, which holds the interpreter lock while the object lives. Python's own handler for Ctrl-C is installed.
#pragma once

#include <memory>
#include <string>

#include <pybind11/embed.h>

#include "console/complain.h"
#include "core/base/error.h"

namespace friday {

class PythonRuntime {
 public:
  // Fails with a message if the interpreter, its standard library or the package friday cannot be found.
  static Result<std::unique_ptr<PythonRuntime>> start();
  ~PythonRuntime();
  PythonRuntime(const PythonRuntime&) = delete;

  // Writes out what was printed. Raises what the write raises.
  static void flush();
  // Whether nobody reads the standard output any more. Then what is left to be printed is dropped.
  static bool drop_unread_output();

  // Imports a module of the package, for example "friday.console".
  Result<pybind11::module_> import(const char* name);

 private:
  PythonRuntime() = default;
};

// The last line of a Python exception, for example "ModuleNotFoundError: No module named 'friday'".
std::string summary(const pybind11::error_already_set& error);

// Runs the Python part of a subcommand. Errors outside the package become a message and an exit code. A reader of the
// output that goes away, such as head(1), has seen enough.
template <typename Function>
int with_python(const char* subcommand, const char* module, Function&& function) {
  auto runtime = PythonRuntime::start();
  if (!runtime) return complain(subcommand, runtime.error());
  auto imported = (*runtime)->import(module);
  if (!imported) return complain(subcommand, imported.error());
  int code = 0;
  try {
    code = function(*imported);
    PythonRuntime::flush();
    return code;
  } catch (const pybind11::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) return 130;
    if (error.matches(PyExc_BrokenPipeError) && PythonRuntime::drop_unread_output()) return code;
    fmt::print(stderr, "friday {}: {}\n", subcommand, error.what());
    return 2;
  }
}

}  // namespace friday
