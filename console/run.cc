#include "console/run.h"

#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string_view>

#include <pybind11/stl.h>

#include "console/options.h"
#include "console/paths.h"
#include "console/python.h"

namespace friday {

namespace py = pybind11;

namespace {

struct RunOptions {
  std::string script, nodes, sync = "clock", json, junit;
  std::vector<std::string> scripts, recordings, args, symbols;
  int jobs = 0, worker = -1, slices = 1;
  std::string begin, end;
  bool stop_at_first = false, unconfined = false, origin = false, is_slice = false;
};

py::object text_or_none(const std::string& text) {
  return text.empty() ? py::object(py::none()) : py::object(py::str(text));
}

int run_scripts(RunOptions options) {
  // a single run of a batch must not outlive the batch
  if (options.worker >= 0) (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  options.scripts.insert(options.scripts.begin(), options.script);
  return with_python("run", "friday.runner", [&](py::module_& runner) {
    using namespace py::literals;
    return runner
        .attr("main")(options.scripts, options.recordings,
                      runner.attr("Options")(
                          "nodes"_a = text_or_none(options.nodes), "sync"_a = options.sync,
                          "symbols"_a = py::tuple(py::cast(options.symbols)), "unconfined"_a = options.unconfined,
                          "stop_at_first"_a = options.stop_at_first, "origin"_a = options.origin,
                          "begin"_a = options.begin, "end"_a = options.end, "is_slice"_a = options.is_slice),
                      "json_path"_a = text_or_none(options.json), "junit_path"_a = text_or_none(options.junit),
                      "args"_a = options.args,
                      "jobs"_a = options.jobs ? py::object(py::int_(options.jobs)) : py::object(py::none()),
                      "worker"_a = options.worker >= 0 ? py::object(py::int_(options.worker)) : py::object(py::none()),
                      "slices"_a = options.slices, "executable"_a = executable_path())
        .cast<int>();
  });
}

}  // namespace

std::vector<std::string> take_script_args(int& argc, char** argv) {
  const auto end = argv + argc,
             dashes = std::find_if(argv, end, [](const char*word) { return std::string_view(word) == "--"; });
  if (argc < 2 || std::string_view(argv[1]) != "run" || dashes == end) return {};
  argc = static_cast<int>(dashes - argv);
  return {dashes + 1, end};
}

void add_run_command(CLI::App& app, int* status, std::vector<std::string> script_args) {
  auto options = std::make_shared<RunOptions>();
  options->args = std::move(script_args);
  auto* command = app.add_subcommand("run",
                                     "Replay under Python scripts: exit 0 if all they check held, 1 if not, 2 bad "
                                     "input, 3 diverged, 4 a component died");
  command->add_option("script", options->script, "The script; friday.session is the session, and it may use @")
      ->required();
  command
      ->add_option(
          "recordings", options->recordings,
          "The recordings, or names of sessions. Each script runs on each of them, on its own and in a process "
          "of its own")
      ->required()
      ->transform(recording_named);
  command->add_option("-s,--script", options->scripts, "One more script; may be repeated")->allow_extra_args(false);
  add_replay_options(*command, options->nodes, options->sync, options->unconfined);
  command->add_option("-j,--jobs", options->jobs, "How many runs at a time (default: the number of processors)")
      ->check(CLI::Range(1, 10000));
  command->add_flag("--stop-at-first", options->stop_at_first, "End each run at its first violation");
  command->add_flag("--origin", options->origin,
                    "Say of the first violation of each predicate where the values that it read come from");
  command->add_option("--from", options->begin,
                      "Begin here, a mark or a time in seconds: from the last checkpoint before it that the recording "
                      "holds (friday checkpoint), or else by running there");
  command->add_option("--to", options->end, "End here, as if the recording did: a mark or a time in seconds");
  command
      ->add_option(
          "--slices", options->slices,
          "Check up to so many parts of the recording at once, each from a checkpoint that the recording holds "
          "(friday checkpoint); for a script that says `needs_past = False`")
      ->check(CLI::Range(1, 10000));
  command->add_option("--json", options->json, "Write the violations, with their evidence, to this file");
  command->add_option("--junit", options->junit,
                      "Write a JUnit report to this file: a test suite a script, a test case a recording");
  add_symbols_option(*command, options->symbols);
  // used by batch.py: the descriptor on which the worker receives requests
  command->add_option("--worker", options->worker)->group("");
  // used by slices.py: this run is one of several parts
  command->add_flag("--slice", options->is_slice)->group("");
  command->footer(
      "What follows -- are arguments for the scripts (sys.argv).\n\nExamples:\n  friday run predicates/ring.py REC "
      "--json found.json -- --verbose\n"
      "  friday run checks.py -s predicates/ring.py recordings/* --junit report.xml -j 4");
  command->callback([options, status] { *status = run_scripts(*options); });
}

}  // namespace friday
