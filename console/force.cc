#include "console/force.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "console/compare.h"
#include "console/complain.h"
#include "console/force_plan.h"
#include "console/forced_runs.h"
#include "console/live_force.h"
#include "console/minimise.h"
#include "console/study_group.h"
#include "core/base/counted.h"
#include "core/base/files.h"

namespace friday {
namespace {

using nlohmann::json;

json as_json(const ForcePlan& plan, const ForcedOutcome& outcome, const ForceOptions& options) {
  json out = as_json(plan);
  out["runs"] = outcome.runs;
  out["forced"] = outcome.forced;
  out["forced_failed"] = outcome.forced_failed;
  if (plan.exact()) out["only_received"] = outcome.only_received;
  out["not_forced"] = json::array();
  if (plan.runs) {
    out["run"] = options.run;
    if (plan.finding) out["finding"] = plan.finding;
    out["as"] = plan.holds ? "failed" : "passed";
    out["unforced"] = plan.runs;
    out["unforced_failed"] = plan.failures;
  }
  for (const auto& [run, why] : outcome.not_forced) out["not_forced"].push_back({{"run", run}, {"why", why}});
  return out;
}

void print_outcome(const ForcePlan& plan, const ForcedOutcome& outcome, const std::string& output) {
  say("{}: the order came true in {}, of which {} failed{}\n", counted(outcome.runs, "run"), outcome.forced,
      outcome.forced_failed,
      plan.runs ? fmt::format("; without force {} of {} have failed", plan.failures, plan.runs) : "");
  for (const auto& [run, why] : outcome.not_forced) say("run {} was not forced: {}\n", run, why);
  if (outcome.only_received)
    say("{} did not become handled while the others waited, and counted as such when received\n",
        counted(outcome.only_received, "message"));
  say("recorded in {}\n", output);
}

// Fails if the runs of the group cannot be judged.
Result<void> check_group(const ForceOptions& options, const GroupSpec& group) {
  if (!group.predicates.empty() && !options.record)
    return fail(ErrorCode::usage, "the predicate {} needs a replay: add --record", group.predicates.front());
  return {};
}

// Where the runs are recorded. Goes to the directory of the study's runs, of which the paths of the group file and the
// script are.
Result<std::string> settle_places(const ForceOptions& options, const ForcePlan& plan) {
  const std::string usual =
      options.order.empty() ? fmt::format("{}/forced-{}", options.study, options.run) : options.study + "/forced-order";
  const std::string output =
      std::filesystem::absolute(options.output.empty() ? usual : options.output).lexically_normal().string();
  std::error_code error;
  if (!plan.origin.directory.empty()) std::filesystem::current_path(plan.origin.directory, error);
  if (error)
    return fail(ErrorCode::not_found, "cannot go to {}, where the study's runs were made: {}", plan.origin.directory,
                error.message());
  if (std::filesystem::exists(output + "/study.json", error))
    return fail(ErrorCode::usage, "{} is a study, whose own runs are not forced: name another directory with -o",
                output);
  return output;
}

// Puts the fewest messages in the place of all, and keeps them in a file.
Result<Minimised> search(const GroupSpec& group, const ForceOptions& options, const std::string& output,
                         ForcePlan& plan) {
  FRIDAY_TRY(found, minimise_order(group, plan, options, output + ".search"));
  plan.order = found.order;
  const std::string file = output + ".json";
  json order = as_json(plan);
  order["class"] = options.classes;
  order["ignore"] = options.ignored;
  order["until"] = options.until;
  FRIDAY_TRY_VOID(write_file_atomically(file, order.dump(1, ' ', false, json::error_handler_t::replace) + "\n"));
  if (options.as_json) return std::move(found);
  if (found.interrupted)
    say("interrupted; so far {} of {} are left that make run {} fail", found.order.size(),
        counted(found.messages, "message"), options.run);
  else
    say("{} of {} are enough to make run {} fail, {} times in succession", found.order.size(),
        counted(found.messages, "message"), options.run, found.repeats);
  say(" ({}, {}):\n", counted(found.tried, "order"), counted(found.runs, "run"));
  if (found.left_out)
    say("Without {}, which did not come again within the patience.\n", counted(found.left_out, "message"));
  print_order(plan);
  say("kept in {}: friday force {} --order {}\n", file, options.study, file);
  fflush(stdout);
  return std::move(found);
}

ForcedSeries series_of(const ForceOptions& options, const std::string& output) {
  ForcedSeries series{.directory = output,
                      .times = options.times,
                      .record = options.record,
                      .quiet = options.quiet || options.as_json,
                      .patience = options.patience > 0 ? options.patience : kUsualPatience};
  apply_when_stuck(options.when_stuck, series);
  return series;
}

Result<int> force(const ForceOptions& options) {
  if (!options.join.empty()) return join_live(options);
  FRIDAY_TRY(plan, plan_of(options));
  if (options.when_stuck == "skip" && !plan.exact())
    return fail(ErrorCode::usage,
                "--when-stuck skip: each message of this order is a step of it, of which none can be left out");
  if (!options.live.empty()) return force_live(options, plan);
  FRIDAY_TRY(group, group_of(plan.origin));
  FRIDAY_TRY_VOID(check_group(options, group));
  FRIDAY_TRY(output, settle_places(options, plan));
  json searched;
  if (options.minimise) {
    FRIDAY_TRY(found, search(group, options, output, plan));
    if (found.interrupted) {
      if (options.as_json) say_json(as_json(plan));
      return 130;
    }
    searched = {{"messages", found.messages},
                {"left_out", found.left_out},
                {"orders", found.tried},
                {"runs", found.runs},
                {"repeats", found.repeats}};
  } else if (!options.as_json) {
    print_plan(options, plan);
  }
  FRIDAY_TRY(outcome,
             run_forced(group, plan, plan.until.empty() ? options.until : plan.until, series_of(options, output)));
  if (outcome.end == SeriesEnd::How::failed) return kBadInput;
  if (options.as_json) {
    json out = as_json(plan, outcome, options);
    if (options.minimise) out["search"] = std::move(searched);
    say_json(out);
  } else {
    print_outcome(plan, outcome, output);
  }
  if (outcome.end == SeriesEnd::How::interrupted) return 130;
  return outcome.forced == outcome.runs ? 0 : 1;
}

int run_force(const ForceOptions& options) {
  const auto code = force(options);
  return code ? *code : complain("force", code.error());
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
                      "Force the order in this JSON file instead, onto the group of the study or of --group; the form "
                      "is that of \"steps\" and \"kept_out\", or \"exact\", in the result of --json");
  command->add_option("--group", options->group,
                      "With --order and no study: the group, whose file says when a run has failed");
  auto* only = command
                   ->add_option("--only", options->only,
                                "Which finding of `friday compare` is forced (default: the first one that the run has)")
                   ->check(CLI::Range(1u, 1000u));
  auto* whole =
      command->add_flag("--whole", options->whole, "Force the order of all messages of the run")->excludes(only);
  command
      ->add_flag("--minimise", options->minimise,
                 "Look for the fewest messages of the run whose order still makes the group fail, and force these")
      ->excludes(whole)
      ->excludes(only);
  command->add_option("-n,--times", options->times, "How many runs are made (default: 10)")
      ->check(CLI::Range(1u, 1000000u));
  command->add_flag("--record", options->record, "Record them in full, so that they can be replayed");
  command->add_option("-o,--output", options->output, "Where they are recorded (default: STUDY/forced-RUN)");
  auto* live = command->add_option(
      "--live", options->live,
      "Force it onto programs that run on standby (friday record --standby), once and at once, instead of running a "
      "group; they are put back on standby then. With --record they are recorded in full meanwhile");
  for (const char* other : {"--group", "--minimise", "--times", "--output"}) live->excludes(command->get_option(other));
  auto* listen = command
                     ->add_option("--listen", options->listen,
                                  "With --live: programs of other machines take part in the order, too; HOST:PORT is "
                                  "where their recorders reach this command")
                     ->needs(live);
  command
      ->add_option("--join", options->join,
                   "With --live, and no order: let the programs of this machine take part in the order of "
                   "a command that listens, which says what HOST:PORT/KEY is")
      ->needs(live)
      ->excludes(listen);
  command
      ->add_option("--until", options->until,
                   "When the next message may follow: when the one before was received, handled (its receiver waits "
                   "again, or sends on the same connection) or answered; default: handled")
      ->check(CLI::IsMember({"received", "handled", "answered"}));
  command
      ->add_option("--patience", options->patience,
                   "For so many seconds a message is held while nothing comes of it (default: 10)")
      ->check(CLI::Range(0.001, 3600.0));
  command
      ->add_option("--when-stuck", options->when_stuck,
                   "And then: let-go gives the order up and lets everything go (default); skip goes on without the "
                   "messages that are waited for, with --whole; stop ends the run, as not forced; wait waits on")
      ->check(CLI::IsMember({"let-go", "skip", "stop", "wait"}));
  add_class_options(*command, options->ignored, options->classes);
  command->add_flag("--json", options->as_json, "Print the result as JSON");
  command->add_flag("-q,--quiet", options->quiet, "Say nothing of the single runs");
  command->footer(
      "Exit code: 0 if the order came true in all runs, 1 if not in all.\nExamples:\n  friday force STUDY 2\n"
      "  friday force STUDY 2 --record -n 1\n  friday force STUDY 2 --minimise\n  friday force STUDY 1 --until "
      "answered\n"
      "  friday force --order ORDER.json --group GROUP.toml -o DIR\n"
      "  friday force STUDY 2 --live REC");
  command->callback([options, status, command] {
    for (const char* other :
         {"study", "--order", "--only", "--whole", "--until", "--patience", "--when-stuck", "--ignore", "--class"})
      if (!options->join.empty() && command->count(other)) {
        *status = complain("force", Error{ErrorCode::usage, fmt::format("--join takes the order as the command that "
                                                                        "listens has it: leave {} away",
                                                                        other)});
        return;
      }
    *status = run_force(*options);
  });
}

}  // namespace friday
