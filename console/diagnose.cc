#include "console/diagnose.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "console/compare.h"
#include "console/complain.h"
#include "console/paths.h"
#include "console/study_group.h"
#include "console/until.h"
#include "core/base/counted.h"
#include "core/study/study.h"

namespace friday {
namespace {

struct DiagnoseOptions {
  std::string study, keep;
  StudyOrigin origin;
  unsigned runs = 50;
  std::optional<unsigned> failures;
  std::optional<uint64_t> seed;
  unsigned jobs = 1;
  bool chaos = false, quiet = false;
};

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

Result<UntilOptions> series_of(const DiagnoseOptions& options, const Done& done) {
  const unsigned failures = options.failures.value_or(options.runs);
  UntilOptions until{.runs = options.runs - std::min(options.runs, done.runs),
                     .failures = failures - std::min(failures, done.failures),
                     .keep = {},
                     .jobs = options.jobs,
                     .quiet = options.quiet,
                     .command = "diagnose",
                     .resumed_by = "the same command goes on with the study",
                     .for_study = true};
  if (!options.origin.live.empty())
    until.live = LiveGroup{options.origin.live, options.origin.schedule ? Keeps::schedule : Keeps::everything};
  if (!options.keep.empty()) {
    FRIDAY_TRY(keep, parse_keep(options.keep));
    until.keep = keep;
  }
  return until;
}

Result<void> check_live(const StudyOrigin& origin) {
  if (origin.live.empty() == origin.group.empty())
    return fail(ErrorCode::usage,
                "{}: `--group GROUP.toml` starts a group anew for each run, `--live REC` takes one that "
                "runs already, under `friday record --standby -o REC`",
                origin.group.empty() ? "it is not said of which group the study is" : "a study is of one group");
  if (origin.scoped && origin.script.empty())
    return fail(ErrorCode::usage, "--scoped: there is no script, from whose messages others could descend");
  if (!origin.live.empty() && origin.script.empty())
    return fail(ErrorCode::usage, "what is to be run against {} is missing: write it behind `--`", origin.live);
  return {};
}

int run_diagnose(DiagnoseOptions options) {
  if (auto checked = check_live(options.origin); !checked) return complain("diagnose", checked.error());
  if (!options.origin.live.empty()) options.origin.live = recording_named(options.origin.live);
  if (auto framing = Framing::parse(options.origin.frame); !framing) return complain("diagnose", framing.error());
  auto group = group_of(options.origin);
  if (!group) return complain("diagnose", group.error());
  if (!options.quiet) tell_near_misses("diagnose", *group);
  auto done = done_in(options.study);
  if (!done) return complain("diagnose", done.error());
  auto until = series_of(options, *done);
  if (!until) return complain("diagnose", until.error());
  if (auto claimed = claim_study(options.study, options.origin, done->runs); !claimed)
    return complain("diagnose", claimed.error());
  if (done->runs && !options.quiet)
    say(stderr, "friday: {} has {} already\n", options.study, counted(done->runs, "run"));
  if (until->runs > 0 && until->failures > 0) {
    GroupRunOptions run = options_of_runs("diagnose", options.study, options.quiet);
    run.launch.collector.schedule = options.origin.schedule;
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
  command->add_option("--group", options->origin.group, "The group, which is started anew for each run");
  auto* live = command->add_option("--live", options->origin.live,
                                   "Instead: the recording, or the session, of a group that runs already, on standby "
                                   "(friday record --standby); it is recorded only while the script runs");
  command->add_option("-n,--runs", options->runs, "How many runs the study shall have (default: 50)")
      ->check(CLI::Range(1u, 1000000u));
  add_jobs_option(*command, options->jobs)->excludes(live);
  command->add_option("--failures", options->failures, "End when so many runs have failed")
      ->check(CLI::Range(1u, 1000000u));
  command->add_option(
      "--keep", options->keep,
      "Which recordings stay: failed, all, or those that failed and the last K that passed (default: 2); what "
      "was said stays of all");
  command
      ->add_option("--predicate", options->origin.predicates,
                   "A script for `friday run` that judges each recording; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--seed", options->seed, "The seed of --chaos and of random faults, instead of the run's number")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 63) - 1));
  auto* chaos = command->add_flag("--chaos", options->chaos, "Make rare interleavings likelier")->excludes(live);
  command
      ->add_flag("--schedule", options->origin.schedule,
                 "Record only what is sent and received, so that the programs run at nearly their own speed; a run "
                 "that failed cannot be replayed then")
      ->excludes(chaos);
  command->add_option("--frame", options->origin.frame,
                      "How messages that are sent together are told apart: a binary length such as u32be or "
                      "u16le@2+4, or a regular expression that matches one, such as '[^\\n]*\\n'; known by "
                      "themselves are those of Redis, memcached and HTTP/1");
  command->add_flag("--scoped", options->origin.scoped,
                    "Keep and compare only what descends from the script's messages: not what other clients and "
                    "heartbeats say beside it");
  command->add_option("--name", options->origin.script_name, "The name of the script's node (default: script)");
  command->add_flag("-q,--quiet", options->quiet, "Say nothing of the runs");
  command->add_option(
      "script", options->origin.script,
      "After --: a command that fails when the group does; without it the group file says when a run has failed");
  command->footer(
      "Examples:\n  friday diagnose -o STUDY --group GROUP.toml -- python3 order.py '{port:web}'\n"
      "  friday diagnose -o STUDY --group GROUP.toml -n 200 --failures 20 --chaos\n"
      "  friday diagnose -o STUDY --live REC -n 100 --schedule -- ./order.sh");
  command->callback([options, status] { *status = run_diagnose(*options); });
}

}  // namespace friday
