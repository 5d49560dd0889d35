#include "console/refine.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <pybind11/stl.h>

#include "console/compare.h"
#include "console/complain.h"
#include "console/options.h"
#include "console/order_text.h"
#include "console/paths.h"
#include "console/python.h"
#include "console/study_runs.h"
#include "core/base/counted.h"
#include "core/study/compare.h"
#include "core/study/moment.h"
#include "core/trace/mark.h"
#include "core/trace/recording.h"

namespace friday {

namespace py = pybind11;

namespace {

struct RefineOptions {
  std::vector<std::string> what, expressions, symbols, ignored, classes;
  unsigned only = 1, frames = 12, depth = 3, around = 0;
  unsigned message = 0;  // of the order, from 1; 0: the last one
  bool all = false, as_json = false, unconfined = false;
};

// A place that is looked at: what it is called, the recording, the mark.
using Place = std::tuple<std::string, std::string, std::string>;

bool can_be_replayed(const std::string& directory) {
  const auto recording = Recording::open(directory);
  return recording && std::ranges::none_of(recording->nodes(), [](const NodeInfo& node) { return node.schedule; });
}

// ---- The runs of a study, and those onto which an order was forced (STUDY/forced-...)

class Places {
 public:
  // `message`: which one of the order, from 0.
  Places(const Comparison& comparison, const Order& order, size_t message, const UserClasses& classes)
      : comparison_(comparison), order_(order), message_(message), classes_(classes) {}

  // Looks among the runs of a directory for one that failed and one that passed, as far as there is none yet.
  void look_in(const Study& study, const std::string& prefix) {
    for (const StudyRun& run : study.runs()) {
      const bool failed = run.result == StudyRun::Result::failed;
      if (!failed && run.result != StudyRun::Result::passed) continue;
      std::optional<Place>& place = failed ? failed_ : passed_;
      if (place || !can_be_replayed(study.recording_of(run))) continue;
      if (const auto mark = mark_in(study, run, failed))
        place = {fmt::format("{}run-{} ({})", prefix, run.number, failed ? "failed" : "passed"),
                 study.recording_of(run), *mark};
    }
  }
  std::vector<Place> found() const {
    std::vector<Place> out;
    for (const auto& each : {failed_, passed_})
      if (each) out.push_back(*each);
    return out;
  }

 private:
  std::optional<std::string> mark_in(const Study& study, const StudyRun& run, bool failed) const {
    auto talk = study.talk_of(run);
    if (!talk) return std::nullopt;
    classes_.apply(*talk);
    const auto event = moment_in(*talk, comparison_.naming, order_, failed, message_);
    if (!event) return std::nullopt;
    const TalkEvent& there = talk->events[*event];
    return text_of(Position(Mark{NodeId{there.node}, {there.event}}));
  }

  const Comparison& comparison_;
  const Order& order_;
  const size_t message_;
  const UserClasses& classes_;
  std::optional<Place> failed_, passed_;
};

// What is looked at, in words, where it is a finding of a study.
std::string title_of(const Comparison& comparison, const Order& order, unsigned finding, size_t message) {
  const Naming& naming = comparison.naming;
  std::string title = fmt::format("finding {}: {}\n", finding, text_of(naming, order));
  if (order.count() > 1)
    title += fmt::format("at message {} of {}, {} (--message for another one)\n", message + 1, order.count(),
                         text_of_name(naming, order.names[message]));
  return title;
}

Result<std::vector<Place>> places_of_study(const RefineOptions& options, std::string& title) {
  const std::string& directory = options.what[0];
  FRIDAY_TRY(classes, UserClasses::parse(options.ignored, options.classes));
  FRIDAY_TRY(study, Study::open(directory));
  FRIDAY_TRY(gathered, gather_runs("refine", study, classes));
  const Comparison comparison = compare(gathered.runs, std::max(options.only, 5u));
  const auto& findings = comparison.verdict == Comparison::Verdict::content ? comparison.contents : comparison.orders;
  const bool has_claim =
      comparison.verdict == Comparison::Verdict::order || comparison.verdict == Comparison::Verdict::content;
  if (!has_claim || options.only > findings.size())
    return fail(ErrorCode::unsupported,
                "the comparison of {} has {} that {}: name recordings and marks instead (`friday compare {}` says "
                "more)",
                directory, has_claim ? fmt::format("only {}", counted(findings.size(), "finding")) : "no finding",
                has_claim ? "can be looked at" : "goes along with failing", directory);
  const Order& order = findings[options.only - 1].order;
  if (options.message > order.count())
    return fail(ErrorCode::usage, "finding {} is of {}: --message {} is none of them", options.only,
                counted(order.count(), "message"), options.message);
  const size_t message = options.message ? options.message - 1 : order.count() - 1;
  title = title_of(comparison, order, options.only, message);
  Places places(comparison, order, message, classes);
  places.look_in(study, "");
  std::vector<std::string> forced;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error))
    if (entry.path().filename().string().starts_with("forced-") && entry.is_directory(error))
      forced.push_back(entry.path().filename().string());
  std::ranges::sort(forced);
  for (const std::string& name : forced)
    if (auto runs = Study::open(directory + "/" + name)) places.look_in(*runs, name + "/");
  auto found = places.found();
  if (found.empty())
    return fail(ErrorCode::not_found,
                "{} has no full recording of a run in which finding {} can be looked at: record one with `friday force "
                "{} RUN --record -n 1`",
                directory, options.only, directory);
  return found;
}

Result<std::vector<Place>> places_of(const RefineOptions& options, std::string& title) {
  const auto& what = options.what;
  if (what.size() == 1 && Recording::open(recording_named(what[0])))
    return fail(ErrorCode::usage, "{0} is a recording: name the event, too, by its mark (friday refine {0} 1#2721)",
                what[0]);
  if (what.size() == 1) return places_of_study(options, title);
  if (options.message) return fail(ErrorCode::usage, "--message is of a study, whose finding has several messages");
  if (what.size() % 2)
    return fail(ErrorCode::usage, "give a study; or a recording and a mark; or two recordings, each with its mark");
  std::vector<Place> out;
  for (size_t i = 0; i < what.size(); i += 2) {
    if (!parse_position(what[i + 1]))
      return fail(ErrorCode::usage, "`{}` is no mark such as 1#2721, before event 2721 of node 1", what[i + 1]);
    const std::string recording = recording_named(what[i]);
    out.emplace_back(what[i], recording, what[i + 1]);
  }
  return out;
}

int refine(const RefineOptions& options) {
  std::string title;
  const auto places = places_of(options, title);
  if (!places) return complain("refine", places.error());
  return with_python("refine", "friday.refine", [&](py::module_& module) {
    using namespace py::literals;
    return module
        .attr("main")(*places, "title"_a = title, "frames"_a = options.frames, "depth"_a = options.depth,
                      "around"_a = options.around, "expressions"_a = options.expressions, "show_all"_a = options.all,
                      "as_json"_a = options.as_json, "symbols"_a = options.symbols, "unconfined"_a = options.unconfined)
        .cast<int>();
  });
}

}  // namespace

void add_refine_command(CLI::App& app, int* status) {
  auto options = std::make_shared<RefineOptions>();
  auto* command = app.add_subcommand(
      "refine",
      "Look at an event by replay, in one run or side by side in one that failed and one that passed: the stack, "
      "variables with what they point to, and what the functions return");
  command
      ->add_option("what", options->what,
                   "A study, whose finding is looked at; or a recording and a mark; or two recordings, each with its "
                   "mark")
      ->required()
      ->expected(1, 4);
  command->add_option("--only", options->only, "Which finding of `friday compare` (default: 1)")
      ->check(CLI::Range(1u, 1000u));
  command->add_option("--message", options->message, "At which message of its order (default: the last one)")
      ->check(CLI::Range(1u, 3u));
  command->add_option("--frames", options->frames, "How many frames, from the innermost one (default: 12)")
      ->check(CLI::Range(1u, 1000u));
  command->add_option("--depth", options->depth, "How many pointers are followed in succession (default: 3)")
      ->check(CLI::Range(0u, 100u));
  command
      ->add_option("--around", options->around,
                   "Also the calls around: of so many events of the node before and after (default: 0)")
      ->check(CLI::Range(0u, 1000u));
  command->add_option("-e,--expression", options->expressions, "Evaluate this there, too; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--all", options->all, "Of two runs, show what is equal, too");
  add_class_options(*command, options->ignored, options->classes);
  add_symbols_option(*command, options->symbols);
  add_unconfined_flag(*command, options->unconfined);
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->footer(
      "Examples:\n  friday refine STUDY\n  friday refine STUDY/forced-2/run-1 1#2721 --around 5\n"
      "  friday refine STUDY/run-2 1#2721 STUDY/run-1 1#2719 -e cart->price");
  command->callback([options, status] { *status = refine(*options); });
}

}  // namespace friday
