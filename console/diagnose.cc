#include "console/diagnose.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "console/compare.h"
#include "console/complain.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/until.h"
#include "core/base/beneath.h"
#include "core/base/counted.h"
#include "core/record/group.h"
#include "core/study/study.h"

namespace friday {
namespace {

struct DiagnoseOptions {
  std::string study, group, keep, script_name = "script";
  std::vector<std::string> script, predicates;
  unsigned runs = 50;
  std::optional<unsigned> failures;
  std::optional<uint64_t> seed;
  bool chaos = false, schedule = false, quiet = false;
};

Error no_replay_for(const std::string& predicate) {
  return {ErrorCode::usage,
          fmt::format("the predicate {} needs a replay, and --schedule keeps no more than what was sent and received: "
                      "leave one of them away",
                      predicate)};
}

// The script is the last program of the group: it starts when all others are ready, the group is stopped when it has
// ended, and the run has failed if it has.
Result<GroupSpec> with_script(const DiagnoseOptions& options) {
  FRIDAY_TRY(group, read_group(options.group));
  group.predicates.insert(group.predicates.end(), options.predicates.begin(), options.predicates.end());
  if (options.schedule && !group.predicates.empty()) return std::unexpected(no_replay_for(group.predicates.front()));
  if (options.script.empty()) return std::move(group);
  FRIDAY_TRY_VOID(check_node_name(options.script_name));
  if (std::ranges::find(group.programs, options.script_name, &ProgramSpec::name) != group.programs.end())
    return fail(ErrorCode::usage, "{} has a node `{}` already: give the script another name with --name", options.group,
                options.script_name);
  if (!group.network.hosts.empty())
    return fail(
        ErrorCode::usage,
        "{} makes a network of its own, in which the script would need a host: describe it there as a node, with "
        "stop_when_ends and must_succeed, and leave it away here",
        options.group);
  ProgramSpec script;
  script.name = options.script_name;
  script.command = options.script;
  for (const ProgramSpec& program : group.programs)
    if (!program.ready.empty()) script.after.push_back(program.name);
  group.programs.push_back(std::move(script));
  group.stop_when_ends = options.script_name;
  group.must_succeed.push_back(options.script_name);
  return std::move(group);
}

struct Done {
  unsigned runs = 0, failures = 0;
};

// What the study has already, without runs that were interrupted.
Result<Done> done_in(const std::string& directory) {
  Done done;
  std::error_code error;
  if (!std::filesystem::exists(directory + "/runs.jsonl", error)) return done;
  FRIDAY_TRY(study, Study::open(directory));
  for (const StudyRun& run : study.runs()) {
    done.runs += run.result != StudyRun::Result::interrupted;
    done.failures += run.result == StudyRun::Result::failed;
  }
  return done;
}

// What the runs of a study have in common: the group and the script. A later call must ask for the same.
nlohmann::json asked_of(const DiagnoseOptions& options) {
  const auto text = read_beneath(Beneath(options.group), 16 << 20);
  return {{"group", text ? *text : ""}, {"script", options.script}, {"predicates", options.predicates}};
}

// Fails if the study was made of something else; else notes what it is made of.
Result<void> claim_study(const DiagnoseOptions& options, const Done& done) {
  const Beneath place(options.study, "study.json");
  const nlohmann::json asked = asked_of(options);
  const auto text = read_beneath(place, 32 << 20);
  if (text && nlohmann::json::parse(*text, nullptr, false) == asked) return {};
  if (text && done.runs > 0)
    return fail(
        ErrorCode::usage,
        "{} is a study of another group, script or predicate ({}): its runs cannot be compared with those of this "
        "one; name another directory",
        options.study, place.path());
  if (done.runs > 0)
    return fail(ErrorCode::usage,
                "{} holds runs of `friday record --until-failure`: `friday compare {}` compares them; name another "
                "directory for a study of its own",
                options.study, options.study);
  std::error_code error;
  if (std::filesystem::exists(options.study + "/recording.json", error)) return {};  // the series will refuse it
  if (mkdir(options.study.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("cannot create {}", options.study));
  return write_beneath(place, asked.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

Result<UntilOptions> series_of(const DiagnoseOptions& options, const Done& done) {
  const unsigned failures = options.failures.value_or(options.runs);
  UntilOptions until{.runs = options.runs - std::min(options.runs, done.runs),
                     .failures = failures - std::min(failures, done.failures),
                     .keep = {},
                     .quiet = options.quiet,
                     .command = "diagnose",
                     .for_study = true};
  if (!options.keep.empty()) {
    FRIDAY_TRY(keep, parse_keep(options.keep));
    until.keep = keep;
  }
  return until;
}

int run_diagnose(const DiagnoseOptions& options) {
  auto group = with_script(options);
  if (!group) return complain("diagnose", group.error());
  auto done = done_in(options.study);
  if (!done) return complain("diagnose", done.error());
  auto until = series_of(options, *done);
  if (!until) return complain("diagnose", until.error());
  if (auto claimed = claim_study(options, *done); !claimed) return complain("diagnose", claimed.error());
  if (done->runs && !options.quiet)
    say(stderr, "friday: {} has {} already\n", options.study, counted(done->runs, "run"));
  if (until->runs > 0 && until->failures > 0) {
    GroupRunOptions run;
    run.launch.collector.recording = options.study;
    run.launch.shim = library_directory() + "/friday-shim.so";
    run.launch.own_process_groups = true;
    if (options.schedule) run.launch.collector.schedule = kUsualFirstBytes;
    if (!options.quiet) run.launch.collector.tell = tell_as("diagnose");
    run.predicate_command = {executable_path(), "run"};
    run.seed = options.seed;
    run.chaos = options.chaos;
    const SeriesEnd end = record_until_failure(*group, run, *until);
    if (end.how == SeriesEnd::How::failed) return kBadInput;
    if (end.how == SeriesEnd::How::interrupted) return 130;
  }
  return compare_study("diagnose", options.study, {});
}

}  // namespace

void add_diagnose_command(CLI::App& app, int* status) {
  auto options = std::make_shared<DiagnoseOptions>();
  auto* command = app.add_subcommand(
      "diagnose", "Run a script against a group many times, and find what the runs in which it failed have in common");
  command
      ->add_option("-o,--output", options->study, "The study: a directory; if it has runs already, it is gone on with")
      ->required();
  command->add_option("--group", options->group, "The group, which is started anew for each run")->required();
  command->add_option("-n,--runs", options->runs, "How many runs the study shall have (default: 50)")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option("--failures", options->failures, "End when so many runs have failed")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option(
      "--keep", options->keep,
      "Which recordings stay: failed, all, or those that failed and the last K that passed (default: 2); what "
      "was said stays of all");
  command
      ->add_option("--predicate", options->predicates,
                   "A script for `friday run` that judges each recording; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--seed", options->seed, "The seed of --chaos and of random faults, instead of the run's number")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 63) - 1));
  auto* chaos = command->add_flag("--chaos", options->chaos, "Make rare interleavings likelier");
  command
      ->add_flag("--schedule", options->schedule,
                 "Record only what is sent and received, so that the programs run at nearly their own speed; a run "
                 "that failed cannot be replayed then")
      ->excludes(chaos);
  command->add_option("--name", options->script_name, "The name of the script's node (default: script)");
  command->add_flag("-q,--quiet", options->quiet, "Say nothing of the runs");
  command->add_option(
      "script", options->script,
      "After --: a command that fails when the group does; without it the group file says when a run has failed");
  command->footer(
      "Examples:\n  friday diagnose -o STUDY --group GROUP.toml -- python3 order.py '{port:web}'\n"
      "  friday diagnose -o STUDY --group GROUP.toml -n 200 --failures 20 --chaos");
  command->callback([options, status] { *status = run_diagnose(*options); });
}

}  // namespace friday
