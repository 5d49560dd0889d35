// The extension module _friday: the replay core as pyext/friday/backend.py wants it.
#include <csignal>
#include <new>

#include "core/base/refusals.h"
#include "pyext/bindings.h"

PYBIND11_MODULE(_friday, module) {
  module.doc() = "Friday's replay core. Use the package friday; this module is its backend.";
  // Brings a blocked wait of the session's thread back (ReplaySession::interrupt); nothing to do in the handler.
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  sigaction(SIGURG, &quiet, nullptr);
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      PyErr_SetString(PyExc_MemoryError, friday::kNoMemory);
    }
  });
  friday::bind_values(module);
  friday::bind_session(module);
}
