#include "console/python.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

#include "console/paths.h"
#include "core/base/fd.h"

namespace friday {

namespace py = pybind11;

namespace {

// Python derives the location of its standard library from the program's name, so use the interpreter of this build.
constexpr const char* kPython = "/usr/bin/python3";

Result<void> initialize() {
  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.install_signal_handlers = 1;  // Ctrl-C interrupts Python code
  PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, kPython);
  if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  if (PyStatus_Exception(status))
    return fail(ErrorCode::component_died, "Python {}.{} does not start: {}; is the package python3 whole?",
                PY_MAJOR_VERSION, PY_MINOR_VERSION, status.err_msg ? status.err_msg : "no reason given");
  return {};
}

// A signal that is blocked as long as this object exists.
class SignalHeld {
 public:
  explicit SignalHeld(int signal) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    pthread_sigmask(SIG_BLOCK, &one, &before_);
  }
  ~SignalHeld() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalHeld(const SignalHeld&) = delete;

 private:
  sigset_t before_;
};

void extend_path() {
  py::list path = py::module_::import("sys").attr("path");
  py::list first;
  if (const char* more = std::getenv("FRIDAY_PYTHON")) {
    std::istringstream directories(more);
    for (std::string directory; std::getline(directories, directory, ':');)
      if (!directory.empty()) first.append(directory);
  }
  first.append(package_directory());
  path.attr("__setitem__")(py::slice(0, 0, 1), first);
}

// Lets the streams escape characters that the locale cannot encode, since values of programs may contain any text.
void prepare_streams() {
  for (const char* name : {"stdout", "stderr"})
    if (py::object stream = py::module_::import("sys").attr(name); !stream.is_none())
      stream.attr("reconfigure")(py::arg("errors") = "backslashreplace");
}

}  // namespace

std::string summary(const py::error_already_set& error) {
  const std::string name = py::str(error.type().attr("__name__")), text = py::str(error.value());
  return text.empty() ? name : name + ": " + text;
}

Result<std::unique_ptr<PythonRuntime>> PythonRuntime::start() {
  // A Ctrl-C meanwhile would look like a Python that is not whole. It comes to what is imported next.
  const SignalHeld held(SIGINT);
  FRIDAY_TRY_VOID(initialize());
  std::unique_ptr<PythonRuntime> runtime(new PythonRuntime);
  try {
    extend_path();
    prepare_streams();
  } catch (const py::error_already_set& error) {
    return fail(ErrorCode::component_died, "Python cannot be set up: {}", summary(error));
  }
  return runtime;
}

PythonRuntime::~PythonRuntime() { py::finalize_interpreter(); }

void PythonRuntime::flush() {
  if (py::object out = py::module_::import("sys").attr("stdout"); !out.is_none()) out.attr("flush")();
}

bool PythonRuntime::drop_unread_output() {
  pollfd out{STDOUT_FILENO, 0, 0};
  if (poll(&out, 1, 0) <= 0 || !(out.revents & (POLLERR | POLLHUP))) return false;
  const UniqueFd null(open("/dev/null", O_WRONLY | O_CLOEXEC));
  return null && dup2(null.get(), STDOUT_FILENO) >= 0;
}

Result<py::module_> PythonRuntime::import(const char* name) {
  try {
    return py::module_::import(name);
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_KeyboardInterrupt)) return fail(ErrorCode::interrupted, "interrupted");
    return fail(ErrorCode::bad_input, "Friday's Python part cannot be loaded from {}: {}", package_directory(),
                summary(error));
  }
}

}  // namespace friday
