#include "console/cut.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/bitcode_tool.h"
#include "console/cc_profile.h"
#include "console/complain.h"
#include "console/say.h"
#include "core/base/files.h"
#include "core/base/scratch.h"
#include "core/cut/choice_text.h"
#include "core/cut/choose.h"
#include "core/cut/counts.h"
#include "core/cut/plan.h"
#include "core/cut/program.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

struct CutOptions {
  std::string program, target, profile, plan, picture;
  std::vector<std::string> annotations, libraries;
  size_t most = 20;
  bool as_json = false;
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Result<void> make_facts(const std::string& program, const std::vector<std::string>& libraries,
                        const std::string& directory) {
  std::vector<std::string> words{"facts", program};
  words.insert(words.end(), libraries.begin(), libraries.end());
  words.insert(words.end(), {"-o", directory});
  FRIDAY_TRY(code, run_bitcode_tool(words));
  if (code != 0)
    return fail(ErrorCode::bad_input,
                "friday-bitcode cannot make facts of {} (exit code {}); its message stands above. Was the program "
                "built with `friday cc`?",
                program, code);
  return {};
}

// `place` is an executable, or a directory with facts.
Result<cut::LinkedProgram> facts_at(const std::string& place, const std::vector<std::string>& libraries) {
  struct stat status {};
  if (::stat(place.c_str(), &status) != 0) return fail_errno(errno, "cannot find the program " + place);
  const std::string name = std::filesystem::path(place).lexically_normal().filename().string();
  if (S_ISDIR(status.st_mode)) return cut::read_program(name.empty() ? place : name, place);
  FRIDAY_TRY(scratch, ScratchDirectory::make());
  FRIDAY_TRY_VOID(make_facts(place, libraries, scratch.path()));
  return cut::read_program(name, scratch.path());
}

struct AnalysisSeconds {
  double facts = 0, points_to = 0, graph = 0, cut = 0;
};

// What both commands need. The parts point to those before them, so it stays where it is.
struct CutAnalysis {
  cut::LinkedProgram program;
  cut::Annotations annotations;
  std::unique_ptr<cut::PointsTo> points_to;
  cut::DataFlow graph;
  AnalysisSeconds seconds;
};

Result<std::unique_ptr<CutAnalysis>> analyse(const CutOptions& options) {
  auto all = std::make_unique<CutAnalysis>();
  auto start = Clock::now();
  FRIDAY_TRY(program, facts_at(options.program, options.libraries));
  all->program = std::move(program);
  FRIDAY_TRY(annotations, cut::Annotations::standard());
  all->annotations = std::move(annotations);
  for (const std::string& each : options.annotations) FRIDAY_TRY_VOID(all->annotations.add_file(each));
  cut::ProgramCounts counts;
  if (!options.profile.empty()) {
    FRIDAY_TRY(profile, cut::Counts::read(options.profile));
    FRIDAY_TRY(summed, cut::counts_of(all->program.facts, profile));
    counts = std::move(summed);
  }
  if (!options.target.empty()) FRIDAY_TRY_VOID(cut::find_target(all->program.facts, options.target));
  all->seconds.facts = seconds_since(std::exchange(start, Clock::now()));
  all->points_to = std::make_unique<cut::PointsTo>(all->program.facts, all->annotations);
  all->seconds.points_to = seconds_since(std::exchange(start, Clock::now()));
  FRIDAY_TRY(graph, cut::build_graph(all->program.facts, *all->points_to, options.profile.empty() ? nullptr : &counts));
  all->graph = std::move(graph);
  all->seconds.graph = seconds_since(start);
  return all;
}

nlohmann::json seconds_json(const AnalysisSeconds& seconds) {
  return {{"facts", seconds.facts}, {"points_to", seconds.points_to}, {"graph", seconds.graph}, {"cut", seconds.cut}};
}

int run_cut_graph(const CutOptions& options) {
  auto all = analyse(options);
  if (!all) return complain("cut graph", all.error());
  const auto& [program, annotations, points_to, graph, seconds] = **all;
  if (options.as_json) {
    auto json = cut::graph_json(program.facts, *points_to, graph);
    json["seconds"] = seconds_json(seconds);
    say_json(json);
  } else {
    fmt::print("{}", printable_lines(cut::graph_text(program.facts, *points_to, graph, options.most)));
    say("\nanalysed in {:.1f} s (points-to sets {:.1f} s)\n", seconds.facts + seconds.points_to + seconds.graph,
        seconds.points_to);
  }
  return 0;
}

Result<void> write_results(const CutOptions& options, const CutAnalysis& all, const cut::Choice& choice) {
  if (!options.plan.empty())
    FRIDAY_TRY_VOID(cut::write_plan(cut::make_plan(all.program, *all.points_to, all.graph, choice), options.plan));
  if (!options.picture.empty())
    FRIDAY_TRY_VOID(write_file_atomically(options.picture,
                                          cut::choice_dot({all.program.facts, *all.points_to, all.graph, choice})));
  return {};
}

int run_cut_choose(const CutOptions& options) {
  auto all = analyse(options);
  if (!all) return complain("cut choose", all.error());
  const auto start = Clock::now();
  const auto choice = cut::choose_cut((*all)->program.facts, *(*all)->points_to, (*all)->graph, options.target);
  if (!choice) return complain("cut choose", choice.error());
  (*all)->seconds.cut = seconds_since(start);
  if (const auto written = write_results(options, **all, *choice); !written)
    return complain("cut choose", written.error());
  const cut::ChoiceView view{(*all)->program.facts, *(*all)->points_to, (*all)->graph, *choice};
  if (options.as_json) {
    auto json = cut::choice_json(view);
    json["seconds"] = seconds_json((*all)->seconds);
    say_json(json);
  } else {
    fmt::print("{}", printable_lines(cut::choice_text(view, options.most)));
  }
  return 0;
}

void add_cut_options(CLI::App& command, CutOptions& options) {
  command
      .add_option("program", options.program,
                  "The program, built with `friday cc`; or a directory with its facts (*.facts)")
      ->required();
  command.add_option("--profile", options.profile,
                     "Directory with counts (`friday cut profile`); without them all edges weigh the same");
  command
      .add_option("--annotations", options.annotations,
                  "File that says what functions without code do; may be repeated")
      ->allow_extra_args(false);
  command
      .add_option("--library", options.libraries,
                  "A shared library of the program that was built with `friday cc`, too; may be repeated")
      ->allow_extra_args(false);
  command.add_option("--most", options.most, "List so many functions and edges at most (20)");
  command.add_flag("--json", options.as_json, "Print the result as JSON");
}

}  // namespace

void add_cut_command(CLI::App& app, int* status) {
  auto* command =
      app.add_subcommand("cut", "Choose what to log so that one part of a program can be replayed by itself");
  command->require_subcommand(1);
  auto graph_options = std::make_shared<CutOptions>();
  auto* graph =
      command->add_subcommand("graph", "Show the size of a program's data flow, and what the analysis does not see");
  add_cut_options(*graph, *graph_options);
  graph->footer("Example:\n  friday cut graph ./httpd");
  graph->callback([graph_options, status] { *status = run_cut_graph(*graph_options); });

  add_profile_command(*command, status);
  auto options = std::make_shared<CutOptions>();
  auto* choose =
      command->add_subcommand("choose", "Find the cheapest cut between what is non-deterministic and the target");
  add_cut_options(*choose, *options);
  choose
      ->add_option("--target", options->target,
                   "What to replay: a source file, or functions: mod_deflate.c or parse,util.c:hash")
      ->required();
  choose->add_option("--plan", options->plan, "Write the plan, which the instrumentation reads, to this file");
  choose->add_option("--picture", options->picture,
                     "Write a picture of the cut to this file, in Graphviz's language (dot -Tsvg)");
  choose->footer("Example:\n  friday cut choose --target mod_deflate.c --profile counts --plan httpd.plan ./httpd");
  choose->callback([options, status] { *status = run_cut_choose(*options); });
}

}  // namespace friday
