// The extension module _friday: the replay core with the interface that pyext/friday/backend.py documents.
#include <csignal>
#include <new>

#include "core/base/refusals.h"
#include "pyext/bindings.h"

PYBIND11_MODULE(_friday, module) {
  module.doc() = "Friday's replay core. Use the package friday; this module is its backend.";
  // The handler does nothing. The signal serves to interrupt a blocking wait of the session's thread
  // (ReplaySession::interrupt).
  struct sigaction quiet {};
  quiet.sa_handler = [](int) {};
  sigaction(SIGURG, &quiet, nullptr);
  // pybind11 says how a translator is called.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  pybind11::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      PyErr_SetString(PyExc_MemoryError, friday::kNoMemory);
    }
  });
  friday::bind_values(module);
  friday::bind_session(module);
  friday::bind_recording(module);
}
