#include "console/replay.h"

#include <unistd.h>

#include <memory>
#include <string_view>

#include <pybind11/stl.h>

#include "console/options.h"
#include "console/python.h"
#include "console/repl.h"

namespace friday {

namespace py = pybind11;

namespace {

struct ReplayCommandOptions {
  std::string recording, nodes, sync = "clock", at;
  std::vector<std::string> files, lines, symbols;
  bool batch = false, unconfined = false;
};

int replay(const ReplayCommandOptions& options) {
  const bool terminal = !options.batch && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
  return with_python("replay", "friday.console", [&](py::module_& module) {
    using namespace py::literals;
    py::object nodes = options.nodes.empty() ? py::object(py::none()) : py::object(py::str(options.nodes));
    py::object console = module.attr("open_console")(
        options.recording, "nodes"_a = nodes, "sync"_a = options.sync, "terminal"_a = terminal,
        "batch"_a = options.batch, "symbols"_a = options.symbols, "unconfined"_a = options.unconfined);
    if (py::isinstance<py::int_>(console)) return console.cast<int>();
    if (terminal) console.attr("greet")();
    if (!options.at.empty()) console.attr("goto_first")(options.at, "--at");
    for (const std::string& file : options.files)
      if (!console.attr("done").cast<bool>()) console.attr("source")(file);
    for (const std::string& line : options.lines)
      if (!console.attr("done").cast<bool>()) console.attr("feed")(line);
    if (!options.batch || (options.files.empty() && options.lines.empty())) Repl(console, terminal).run();
    return console.attr("close")().cast<int>();
  });
}

}  // namespace

void accept_gdbs_ex(int argc, char** argv) {
  static char long_form[] = "--ex";  // CLI11 has no long options with one dash
  if (argc < 2 || std::string_view(argv[1]) != "replay") return;
  for (int i = 2; i < argc; i++)
    if (std::string_view(argv[i]) == "-ex") argv[i] = long_form;
}

void add_replay_command(CLI::App& app, int* status) {
  auto options = std::make_shared<ReplayCommandOptions>();
  auto* command = app.add_subcommand(
      "replay", "Replay a recording in a console: stop points and gdb on all nodes, with Python handlers");
  add_recording_options(*command, options->recording, options->nodes, options->sync, options->unconfined);
  command->add_option("--at,--from", options->at,
                      "Go to this place first: a time in seconds, one before the end (-60s), a mark, or whatever else "
                      "the command goto takes");
  command->add_option("-x,--command", options->files,
                      "Carry out the commands of this file first; may be given several times");
  command
      ->add_option("--ex", options->lines,
                   "Carry out this command then; may be given several times. `-ex COMMAND`, as in gdb, is the same")
      ->allow_extra_args(false);
  add_symbols_option(*command, options->symbols);
  command->add_flag(
      "--batch", options->batch,
      "No prompt: end after the files, or with the input; the first error ends it with exit code 2, 3 or 4");
  command->footer(
      "Examples:\n  friday replay REC\n  friday replay REC --at 5.212\n  friday replay REC --node 0,2 --from -60s\n  "
      "friday replay REC --batch -x checks.friday\n"
      "  friday replay REC --batch --ex 'break main' --ex continue --ex 'backtrace'");
  command->callback([options, status] { *status = replay(*options); });
}

}  // namespace friday
