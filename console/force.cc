#include "console/force.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/compare.h"
#include "console/complain.h"
#include "console/study_group.h"
#include "console/study_runs.h"
#include "console/until.h"
#include "core/base/beneath.h"
#include "core/base/counted.h"
#include "core/study/compare.h"
#include "core/study/forcing.h"
#include "core/study/reading.h"
#include "core/study/study.h"

namespace friday {
namespace {

using nlohmann::json;

struct ForceOptions {
  std::string study, order, output, until = "handled";
  std::string group;  // of --order
  unsigned run = 0, only = 1, times = 10;
  double patience = 10;
  std::vector<std::string> ignored, classes;
  bool record = false, as_json = false, quiet = false;
};

// One run's view of the order.
class RunJudge : public MessageJudge {
 public:
  RunJudge(ForcedOrder order, UserClasses classes) : forcing_(std::move(order)), classes_(std::move(classes)) {}

  std::vector<size_t> messages_in(std::span<const std::byte> bytes) const override {
    return friday::messages_in({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  Verdict sent(const Sent& message) override {
    const auto* bytes = reinterpret_cast<const char*>(message.bytes.data());
    const size_t looked = std::min(message.bytes.size(), Talk::kMostBytes);  // as the comparison has looked at it
    const auto text = classes_.read({bytes, looked}, message.length);
    if (!text) return Verdict::pass;
    switch (forcing_.sent(message.ticket, role_of(message.from), role_of(message.to), *text, message.length)) {
      case Forcing::Verdict::pass: return Verdict::pass;
      case Forcing::Verdict::watch: return Verdict::watch;
      case Forcing::Verdict::hold: return Verdict::hold;
    }
    return Verdict::pass;
  }
  void handled(Ticket ticket) override { forcing_.handled(ticket); }
  void lost(Ticket ticket) override { forcing_.lost(ticket); }
  void give_up(const std::string& why) override {
    why_ = why;
    forcing_.give_up();
  }
  std::vector<Released> release() override {
    std::vector<Released> out;
    for (const auto& [ticket, watched] : forcing_.release()) out.push_back({ticket, watched});
    return out;
  }
  bool is_over() const override { return forcing_.is_complete() || forcing_.is_given_up(); }
  std::string waits_for() const override { return forcing_.waits_for(); }

  bool came_true() const { return forcing_.is_last_sent(); }
  // Why the order did not come true.
  std::string reason() const { return why_.empty() ? forcing_.waits_for() : why_; }

 private:
  Forcing forcing_;
  UserClasses classes_;
  std::string why_;
};

// What is forced, and why.
struct Plan {
  StudyOrigin origin;
  UserClasses classes;
  ForcedOrder order;
  // Of a study: whether the order of the finding shall come true, and how many runs it has.
  bool holds = true;
  size_t runs = 0, failures = 0;
};

Result<Plan> plan_of_study(const ForceOptions& options) {
  FRIDAY_TRY(study, Study::open(options.study));
  FRIDAY_TRY(origin, origin_of(options.study));
  FRIDAY_TRY(classes, UserClasses::parse(options.ignored, options.classes));
  FRIDAY_TRY(gathered, gather_runs("force", study, classes));
  const auto run = std::ranges::find(study.runs(), options.run, &StudyRun::number);
  if (run == study.runs().end())
    return fail(ErrorCode::not_found, "{} has no run {}: its runs are those that {}/runs.jsonl lists", options.study,
                options.run, options.study);
  if (run->result != StudyRun::Result::passed && run->result != StudyRun::Result::failed)
    return fail(ErrorCode::usage, "nobody knows whether run {} has failed: name one that passed or failed",
                options.run);
  const Comparison comparison = compare(gathered.runs, std::max(options.only, 5u));
  if (comparison.verdict != Comparison::Verdict::order)
    return fail(ErrorCode::unsupported,
                "no order of messages goes along with failing in {}, so that there is none to force (`friday compare "
                "{}` says more)",
                options.study, options.study);
  if (options.only > comparison.orders.size())
    return fail(ErrorCode::usage, "the comparison has {}: --only {} is none of them",
                counted(comparison.orders.size(), "order"), options.only);
  const bool holds = run->result == StudyRun::Result::failed;
  FRIDAY_TRY(order, forced_order(comparison.naming, comparison.orders[options.only - 1].order, holds));
  if (!order) return fail(ErrorCode::unsupported, "finding {} is no order of messages", options.only);
  return Plan{std::move(origin), std::move(classes), *std::move(order), holds, comparison.runs, comparison.failures};
}

// An order that the user has written down, in the form in which --json shows it.
Result<Plan> plan_by_hand(const ForceOptions& options) {
  constexpr size_t kMost = 1 << 20;  // bytes
  constexpr const char* kForm =
      R"({"steps": [{"from": "crawler", "to": "redis", "text": "SET price:f1 #"}, ...], "kept_out": [...]})";
  FRIDAY_TRY(text, read_beneath(Beneath(options.order), kMost));
  const json known = json::parse(text, nullptr, false);
  ForcedOrder order;
  const auto read = [&](const char* key, std::vector<MessageClass>& list) {
    if (!known.is_object() || !known.contains(key)) return true;
    if (!known[key].is_array()) return false;
    for (const json& each : known[key]) {
      const auto word = [&](const char* name) { return each.value(name, json("")); };
      if (!each.is_object() || !word("from").is_string() || !word("to").is_string() || !word("text").is_string())
        return false;
      list.push_back({word("from"), word("to"), word("text")});
      if (list.back().from.empty() || list.back().text.empty()) return false;
    }
    return true;
  };
  if (!read("steps", order.steps) || !read("kept_out", order.kept_out) || order.steps.size() < 2)
    return fail(ErrorCode::bad_input, "{} is no order of at least two messages: write {}", options.order, kForm);
  order.free_before.assign(order.steps.size(), false);
  Plan plan;
  plan.origin.group = options.group;
  FRIDAY_TRY(classes, UserClasses::parse(options.ignored, options.classes));
  plan.classes = std::move(classes);
  plan.order = std::move(order);
  return plan;
}

Result<Plan> plan_of(const ForceOptions& options) {
  if (options.order.empty()) {
    if (options.study.empty() || !options.run)
      return fail(ErrorCode::usage,
                  "nothing to force: give a study and one of its runs, or --order FILE with --group GROUP.toml");
    if (!options.group.empty()) return fail(ErrorCode::usage, "a study knows its group: leave --group away");
    return plan_of_study(options);
  }
  if (!options.study.empty())
    return fail(ErrorCode::usage, "give either a study and one of its runs, or --order FILE, not both");
  if (options.group.empty() || options.output.empty())
    return fail(ErrorCode::usage, "--order needs --group GROUP.toml, and -o DIRECTORY for the recordings");
  return plan_by_hand(options);
}

std::vector<std::string> words_of(const Plan& plan) {
  std::vector<std::string> words;
  for (const auto* list : {&plan.order.steps, &plan.order.kept_out})
    for (const MessageClass& message : *list) {
      std::string word = plan.classes.is_class(message.text) ? "" : literal_of(message);
      if (std::ranges::find(words, word) == words.end()) words.push_back(std::move(word));
    }
  return words;
}

void print_plan(const ForceOptions& options, const Plan& plan) {
  if (plan.runs) say("As in run {}, which has {}. ", options.run, plan.holds ? "failed" : "passed");
  say("Each is {} before the next one is sent on:\n", options.until);
  size_t number = 0;
  for (const MessageClass& step : plan.order.steps) say("  {}. {}\n", ++number, describe(step));
  for (const MessageClass& each : plan.order.kept_out) say("     and in between no {}\n", describe(each));
  fflush(stdout);  // what is said of the runs comes behind it, also in a pipe
}

shim::HandledWhen handled_when(const std::string& word) {
  return word == "received"   ? shim::kHandledAtReceipt
         : word == "answered" ? shim::kHandledAtAnswer
                              : shim::kHandledAtWait;
}

struct Outcome {
  size_t runs = 0, forced = 0, forced_failed = 0;
  std::vector<std::pair<unsigned, std::string>> not_forced;  // run, and why
};

Result<Outcome> outcome_of(const std::string& output, unsigned before,
                           const std::vector<std::shared_ptr<RunJudge>>& judges) {
  FRIDAY_TRY(study, Study::open(output));
  Outcome out;
  size_t at = 0;
  for (const StudyRun& run : study.runs()) {
    if (run.number <= before || at == judges.size()) continue;
    const RunJudge& judge = *judges[at++];
    if (run.result == StudyRun::Result::interrupted) continue;
    out.runs++;
    if (judge.came_true()) {
      out.forced++;
      out.forced_failed += run.result == StudyRun::Result::failed;
    } else {
      out.not_forced.emplace_back(run.number, judge.reason());
    }
  }
  return out;
}

json as_json(const Plan& plan, const Outcome& outcome, const ForceOptions& options) {
  const auto messages = [](const std::vector<MessageClass>& list) {
    json out = json::array();
    for (const MessageClass& each : list) out.push_back({{"from", each.from}, {"to", each.to}, {"text", each.text}});
    return out;
  };
  json out = {{"steps", messages(plan.order.steps)},
              {"kept_out", messages(plan.order.kept_out)},
              {"runs", outcome.runs},
              {"forced", outcome.forced},
              {"forced_failed", outcome.forced_failed},
              {"not_forced", json::array()}};
  if (plan.runs) {
    out["run"] = options.run;
    out["as"] = plan.holds ? "failed" : "passed";
    out["unforced"] = plan.runs;
    out["unforced_failed"] = plan.failures;
  }
  for (const auto& [run, why] : outcome.not_forced) out["not_forced"].push_back({{"run", run}, {"why", why}});
  return out;
}

void print_outcome(const Plan& plan, const Outcome& outcome, const std::string& output) {
  say("{}: the order came true in {}, of which {} failed{}\n", counted(outcome.runs, "run"), outcome.forced,
      outcome.forced_failed,
      plan.runs ? fmt::format("; without force {} of {} have failed", plan.failures, plan.runs) : "");
  for (const auto& [run, why] : outcome.not_forced) say("run {} was not forced: {}\n", run, why);
  say("recorded in {}\n", output);
}

// The number of the last run that is there already.
Result<unsigned> last_run_in(const std::string& directory) {
  std::error_code error;
  if (!std::filesystem::exists(directory + "/runs.jsonl", error)) return 0u;
  FRIDAY_TRY(study, Study::open(directory));
  unsigned last = 0;
  for (const StudyRun& run : study.runs()) last = std::max(last, run.number);
  return last;
}

// Fails if messages between the group's programs cannot be held back, or its runs not be judged.
Result<void> check_group(const ForceOptions& options, const GroupSpec& group) {
  if (!group.network.hosts.empty())
    return fail(ErrorCode::unsupported,
                "the group makes a network of its own, across which it is not known when a message was handled: only "
                "programs of one host can be forced");
  if (!group.predicates.empty() && !options.record)
    return fail(ErrorCode::usage, "the predicate {} needs a replay: add --record", group.predicates.front());
  return {};
}

int run_force(const ForceOptions& options) {
  auto plan = plan_of(options);
  if (!plan) return complain("force", plan.error());
  auto group = group_of(plan->origin);
  if (!group) return complain("force", group.error());
  if (auto possible = check_group(options, *group); !possible) return complain("force", possible.error());
  // Relative paths of the group file and the script are those of the study's runs.
  std::error_code away;
  const std::string named =
      options.output.empty() ? fmt::format("{}/forced-{}", options.study, options.run) : options.output;
  const std::string output = std::filesystem::absolute(named).lexically_normal().string();
  if (!plan->origin.directory.empty()) std::filesystem::current_path(plan->origin.directory, away);
  if (away)
    return complain("force", {ErrorCode::not_found, fmt::format("cannot go to {}, where the study's runs were made: {}",
                                                                plan->origin.directory, away.message())});
  if (std::error_code error; std::filesystem::exists(output + "/study.json", error))
    return complain("force",
                    {ErrorCode::usage, fmt::format("{} is a study, whose own runs are not forced: name another "
                                                   "directory with -o",
                                                   output)});
  auto before = last_run_in(output);
  if (!before) return complain("force", before.error());
  if (!options.as_json) print_plan(options, *plan);
  std::vector<std::shared_ptr<RunJudge>> judges;
  const bool quiet = options.quiet || options.as_json;
  GroupRunOptions run = options_of_runs("force", output, quiet);
  CollectorOptions& collector = run.launch.collector;
  if (!options.record) collector.schedule = kUsualFirstBytes;
  collector.shaper = ShaperOptions{[&] {
                                     judges.push_back(std::make_shared<RunJudge>(plan->order, plan->classes));
                                     return judges.back();
                                   },
                                   words_of(*plan), handled_when(options.until),
                                   std::chrono::nanoseconds(static_cast<int64_t>(options.patience * 1e9))};
  const UntilOptions until{.runs = options.times,
                           .failures = options.times,
                           .keep = {},
                           .quiet = quiet,
                           .command = "force",
                           .for_study = true};
  const SeriesEnd end = record_until_failure(*group, run, until);
  if (end.how == SeriesEnd::How::failed) return kBadInput;
  auto outcome = outcome_of(output, *before, judges);
  if (!outcome) return complain("force", outcome.error());
  if (options.as_json) say_json(as_json(*plan, *outcome, options));
  else print_outcome(*plan, *outcome, output);
  if (end.how == SeriesEnd::How::interrupted) return 130;
  return outcome->forced == outcome->runs ? 0 : 1;
}

}  // namespace

void add_force_command(CLI::App& app, int* status) {
  auto options = std::make_shared<ForceOptions>();
  auto* command = app.add_subcommand(
      "force",
      "Run a study's group again, with its messages held back so that the order of one of its runs comes true");
  command->add_option("study", options->study, "The study (friday diagnose)");
  command->add_option("run", options->run, "The run that is to come again: one that failed, or one that passed");
  command->add_option("--order", options->order,
                      "Force the order in this JSON file instead, onto the group of --group; the form is that of "
                      "\"steps\" and \"kept_out\" in the result of --json");
  command->add_option("--group", options->group, "With --order: the group, whose file says when a run has failed");
  command->add_option("--only", options->only, "Which finding of `friday compare` is forced (default: 1)")
      ->check(CLI::Range(1u, 1000u));
  command->add_option("-n,--times", options->times, "How many runs are made (default: 10)")
      ->check(CLI::Range(1u, 1000000u));
  command->add_flag("--record", options->record, "Record them in full, so that they can be replayed");
  command->add_option("-o,--output", options->output, "Where they are recorded (default: STUDY/forced-RUN)");
  command
      ->add_option("--until", options->until,
                   "When the next message may follow: when the one before was received, handled (its receiver waits "
                   "again, or sends on the same connection) or answered; default: handled")
      ->check(CLI::IsMember({"received", "handled", "answered"}));
  command
      ->add_option("--patience", options->patience,
                   "After so many seconds in which nothing comes of it, the order is given up and everything let go "
                   "(default: 10)")
      ->check(CLI::Range(0.001, 3600.0));
  add_class_options(*command, options->ignored, options->classes);
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->add_flag("-q,--quiet", options->quiet, "Say nothing of the single runs");
  command->footer(
      "Exit code: 0 if the order came true in all runs, 1 if not in all.\nExamples:\n  friday force STUDY 2\n"
      "  friday force STUDY 2 --record -n 1\n  friday force STUDY 1 --until answered\n"
      "  friday force --order ORDER.json --group GROUP.toml -o DIR");
  command->callback([options, status] { *status = run_force(*options); });
}

}  // namespace friday
