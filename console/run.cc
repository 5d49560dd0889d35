#include "console/run.h"

#include <memory>

#include <pybind11/stl.h>

#include "console/options.h"
#include "console/python.h"

namespace friday {

namespace py = pybind11;

namespace {

struct RunOptions {
  std::string script, recording, nodes, sync = "clock", json;
  std::vector<std::string> args, symbols;
};

py::object text_or_none(const std::string& text) { return text.empty() ? py::object(py::none()) : py::object(py::str(text)); }

int run_script(const RunOptions& options) {
  return with_python("run", "friday.runner", [&](py::module_& runner) {
    using namespace py::literals;
    return runner.attr("main")(options.script, options.recording, "nodes"_a = text_or_none(options.nodes), "sync"_a = options.sync,
                               "json_path"_a = text_or_none(options.json), "args"_a = options.args, "symbols"_a = options.symbols)
        .cast<int>();
  });
}

}  // namespace

void add_run_command(CLI::App& app, int* status) {
  auto options = std::make_shared<RunOptions>();
  auto* command = app.add_subcommand(
      "run", "Replay under a Python script: exit 0 if all it checks held, 1 if not, 2 bad input, 3 diverged, 4 a component died");
  command->add_option("script", options->script, "The script; friday.session is the session, and it may use @")->required();
  add_recording_options(*command, options->recording, options->nodes, options->sync);
  command->add_option("--json", options->json, "Write the violations, with their evidence, to this file");
  add_symbols_option(*command, options->symbols);
  command->add_option("args", options->args, "Arguments for the script (sys.argv), after --");
  command->footer("Example:\n  friday run predicates/ring.py REC --json found.json -- --verbose");
  command->callback([options, status] { *status = run_script(*options); });
}

}  // namespace friday
