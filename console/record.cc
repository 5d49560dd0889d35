#include "console/record.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>

#include "console/complain.h"
#include "console/live_force.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/saving.h"
#include "console/say.h"
#include "console/service_text.h"
#include "console/until.h"
#include "core/base/counted.h"
#include "core/record/group.h"
#include "core/record/group_run.h"
#include "core/record/launch.h"
#include "core/record/verdict.h"
#include "core/trace/calls.h"
#include "core/trace/refused.h"

namespace friday {
namespace {

constexpr uint64_t kLeastKept = 16u << 20;  // bytes of --keep SIZE

struct RecordOptions {
  std::string recording, session, name, group, max_size;
  std::vector<std::string> command, predicates, keep_channel, drop_channel, let_go, save_on;
  std::string keep, budget;
  unsigned until_failure = 0, failures = 1, jobs = 1;
  std::optional<uint64_t> seed;
  uint32_t state_every = 0;
  bool schedule = false;
  uint16_t first_bytes = kUsualFirstBytes;
  std::string output;
  bool chaos = false, strict = false, quiet = false, catch_all = false, list_calls = false, no_compress = false,
       lean = false, standby = false;
  bool print_systemd = false, print_container = false;
};

// Formats how much one or several nodes recorded.
std::string amount(const NodeSummary& node) {
  return fmt::format(
      "{}, {}{}{}", counted(node.events, "event"), size_text(node.bytes),
      node.stored ? fmt::format(" ({} on disk)", size_text(node.stored)) : "",
      node.left_out ? fmt::format(", of which {} are left out, as a replay makes them again", size_text(node.left_out))
                    : "");
}

// Prints a line for each node; if there are many, only for nodes with a noteworthy end.
void print_nodes(const std::vector<NodeSummary>& nodes) {
  constexpr size_t kMostLines = 12;
  NodeSummary rest;
  size_t printed = 0, unprinted = 0, well = 0;
  for (const auto& node : nodes) {
    const bool ended_well = node.ended == "exit 0" || node.ended == "replaced by exec";
    if (nodes.size() > kMostLines && ended_well) {
      well++;
      rest.events += node.events;
      rest.bytes += node.bytes;
      rest.stored += node.stored ? node.stored : node.bytes;
      rest.left_out += node.left_out;
    } else if (printed == kMostLines) {
      unprinted++;
    } else {
      printed++;
      say(stderr, "friday: node {} {}: {}; {}\n", node.id, node.name, amount(node), node.ended);
    }
  }
  if (unprinted) fmt::print(stderr, "friday: ... and {} more; `friday info` lists all\n", unprinted);
  if (rest.stored == rest.bytes) rest.stored = 0;
  if (well)
    fmt::print(stderr, "friday: {}: {}; ended with 0\n", counted(well, printed ? "more node" : "node"), amount(rest));
}

// Says which nodes took more than the budget, and why.
void print_over_budget(const RecordOptions& options, const std::vector<NodeSummary>& nodes) {
  const auto budget = parse_size(options.budget, 0);
  if (!budget) return;
  for (const NodeSummary& node : nodes) {
    const uint64_t stored = node.stored ? node.stored : node.bytes;
    const double allowed = static_cast<double>(*budget) * (node.seconds + Budget::kBurstSeconds);
    if (static_cast<double>(stored) <= allowed) continue;
    const std::string why =
        node.foreign > stored / 2
            ? fmt::format("no recorded program is known to have sent {} of what it received", size_text(node.foreign))
            : "its events, what it had at the start and what no replay of another node makes again need that";
    say(stderr, "friday: node {} {} took {} a second, more than --budget {}: {}\n", node.id, node.name,
        size_text(static_cast<uint64_t>(static_cast<double>(stored) / std::max(node.seconds, 1.0))), options.budget,
        why);
  }
}

// Says which calls of these nodes were refused, as a program may have failed or hung over that.
void print_refused(const std::string& path, const std::vector<NodeSummary>& nodes) {
  const auto recording = Recording::open(path);
  if (!recording) return;
  for (RefusedCalls& refusal : refusals_of(*recording)) {
    std::erase_if(refusal.nodes, [&](const auto& made) {
      return std::ranges::find(nodes, made.first.value, &NodeSummary::id) == nodes.end();
    });
    if (!refusal.nodes.empty()) say(stderr, "friday: {}\n", describe(*recording, refusal));
  }
}

void print_summary(const RecordOptions& options, const LaunchResult& result) {
  print_nodes(result.nodes);
  if (options.standby && result.nodes.empty())
    say(stderr, "friday: nothing was recorded: the programs ran on standby to their end\n");
  print_over_budget(options, result.nodes);
  if (result.left_out)
    say(stderr, "friday: {} {} not recorded: {}\n", result.left_out,
        result.left_out == 1 ? "process was" : "processes were", result.left_out_because);
  for (const std::string& notice : result.notices) say(stderr, "friday: {}\n", notice);
  print_refused(options.recording, result.nodes);
  fmt::print(stderr, "friday: recorded in {} (readable by you only: recordings hold whatever the programs saw)\n",
             options.recording);
}

int list_calls() {
  for (const auto& call : call_rules())
    fmt::print("{:3}  {:24} {:10} {}\n", call.number, call.name, call.rule, call.detail);
  return 0;
}

int print_service(const RecordOptions& options) {
  if (!options.group.empty() || options.command.empty())
    return complain(
        "record",
        {ErrorCode::usage,
         "a service is one program: give `-- PROGRAM ARG...` as its unit or image has it, and its name with --node"});
  ProgramSpec program;
  program.command = options.command;
  program.name = options.name.empty() ? std::filesystem::path(options.command[0]).filename().string() : options.name;
  if (auto named = check_node_name(program.name); !named)
    return complain("record", {named.error().code, named.error().message + "; --node gives the node a name"});
  ServiceRequest request{executable_path(), {}, program.name, options.max_size, {}, options.command};
  if (!options.recording.empty())
    request.recording = std::filesystem::absolute(options.recording).lexically_normal().string();
  if (!options.max_size.empty())
    if (auto size = parse_size(options.max_size); !size) return complain("record", size.error());
  // The program may be missing here and exist in the container.
  if (auto path = find_program(program); !path && options.print_systemd) return complain("record", path.error());
  // Symbolic links are not resolved, because some programs depend on the name by which they are called.
  if (request.command[0].find('/') != std::string::npos)
    request.command[0] = std::filesystem::absolute(request.command[0]).lexically_normal().string();
  if (options.strict) request.options.push_back("--strict");
  if (options.no_compress) request.options.push_back("--no-compress");
  if (options.schedule)
    request.options.insert(request.options.end(), {"--schedule", "--first-bytes", std::to_string(options.first_bytes)});
  if (options.lean) request.options.push_back("--lean");
  if (!options.budget.empty()) request.options.insert(request.options.end(), {"--budget", options.budget});
  for (const std::string& pattern : options.keep_channel)
    request.options.insert(request.options.end(), {"--keep-channel", pattern});
  for (const std::string& pattern : options.drop_channel)
    request.options.insert(request.options.end(), {"--drop-channel", pattern});
  for (const std::string& pattern : options.let_go)
    request.options.insert(request.options.end(), {"--let-go", pattern});
  auto text = options.print_systemd ? systemd_drop_in(request) : container_entry_point(request);
  if (!text) return complain("record", text.error());
  fmt::print("{}", *text);
  return 0;
}

Result<GroupSpec> single_program(const RecordOptions& options) {
  if (options.command.empty())
    return fail(ErrorCode::usage, "nothing to record: give `-- PROGRAM ARG...` or --group GROUP.toml");
  ProgramSpec program;
  program.command = options.command;
  program.name = options.name.empty() ? std::filesystem::path(options.command[0]).filename().string() : options.name;
  GroupSpec group;
  group.programs.push_back(std::move(program));
  return group;
}

Result<GroupSpec> described_group(const RecordOptions& options) {
  if (!options.command.empty()) return fail(ErrorCode::usage, "give either --group or a program, not both");
  FRIDAY_TRY(group, read_group(options.group));
  group.predicates.insert(group.predicates.end(), options.predicates.begin(), options.predicates.end());
  if (options.schedule) FRIDAY_TRY_VOID(check_judged_by_schedules(group));
  return std::move(group);
}

Result<LaunchOptions> launch_options(const RecordOptions& options) {
  LaunchOptions launch;
  launch.collector.recording = options.recording;
  launch.collector.strict = options.strict;
  launch.collector.catch_all_only = options.catch_all;
  launch.collector.state_every = options.state_every;
  launch.collector.compress = !options.no_compress;
  if (options.lean || !options.budget.empty() || !options.let_go.empty()) {
    LeanOptions lean{0, options.keep_channel, options.drop_channel, options.let_go};
    if (!options.budget.empty()) {
      FRIDAY_TRY(budget, parse_size(options.budget, 0));
      lean.budget = budget;
    }
    launch.collector.lean = std::move(lean);
  }
  if (!options.keep.empty() && !options.until_failure) {
    if (options.keep.find_first_of("KMGT") != std::string::npos) {
      FRIDAY_TRY(size, parse_size(options.keep, kLeastKept));
      launch.collector.keep_bytes = size;
    } else {
      FRIDAY_TRY(time, parse_time(options.keep));
      launch.collector.keep_ns = time;
    }
  }
  launch.collector.standby = options.standby;
  if (options.standby) launch.collector.live_order = shaper_for;
  launch.collector.schedule = options.schedule;
  launch.collector.first_bytes = options.first_bytes;
  if (!options.quiet) launch.collector.tell = tell_as("record");
  if (!options.max_size.empty()) {
    FRIDAY_TRY(size, parse_size(options.max_size));
    launch.collector.max_size = size;
  }
  if (options.output == "none") launch.collector.output = 0;
  else if (!options.output.empty()) {
    FRIDAY_TRY(size, parse_size(options.output, 1 << 20));
    launch.collector.output = size;
  }
  launch.shim = library_directory() + "/friday-shim.so";
  launch.own_process_groups = !options.group.empty();
  if (!options.quiet) launch.tell = [](const std::string& news) { say(stderr, "friday: {}\n", news); };
  return launch;
}

int run_until(const RecordOptions& options, const GroupSpec& group, const GroupRunOptions& run) {
  UntilOptions until{.runs = options.until_failure,
                     .failures = options.failures,
                     .jobs = options.jobs,
                     .quiet = options.quiet,
                     .resumed_by = "the same command adds further runs to " + options.recording};
  if (!options.keep.empty()) {
    auto keep = parse_keep(options.keep);
    if (!keep) return complain("record", keep.error());
    until.keep = *keep;
  }
  return record_until_failure(group, run, until).code;
}

void say_seed(std::optional<uint64_t> seed) {
  if (seed) fmt::print(stderr, "friday: what was left to chance had the seed {}\n", *seed);
}

// Records the group once. Its exit code is that of what judges it.
int run_once(const RecordOptions& options, const GroupSpec& group, const GroupRunOptions& request) {
  auto run = run_group_once(group, request);
  if (!run) return complain("record", run.error());
  if (!options.quiet) {
    print_summary(options, run->launch);
    for (const std::string& text : bad_ends_of_unrecorded(run->launch)) say(stderr, "friday: {}\n", text);
    say_seed(run->seed);
    if (run->code)
      say(stderr, "friday: the run {}: {}\n", run->result == GroupRun::Result::failed ? "failed" : "was not judged",
          run->why);
  }
  return run->launch.ended_by == GroupEnd::strict ? 1 : run->code;
}

// Saves the recording whenever --save-on says so; null if it does not.
Result<std::unique_ptr<SavingProcess>> save_when_asked(const RecordOptions& options) {
  constexpr unsigned kMost = 5;
  if (options.save_on.empty()) return nullptr;
  FRIDAY_TRY_VOID(check_triggers(options.save_on));
  SavingOptions saving{
      .recording = options.recording, .place = {}, .when = options.save_on, .times = kMost, .with_recorder = true};
  FRIDAY_TRY(process, SavingProcess::start(saving));
  return std::make_unique<SavingProcess>(std::move(process));
}

// The recording of a session, whose directory is made if it does not exist.
Result<std::string> place_of_session(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos)
    return fail(ErrorCode::usage,
                "`{}` is no name of a session: a name without `/` that does not begin with `.`; a path goes with -o",
                name);
  std::error_code failed;
  const std::string sessions = sessions_directory();
  std::filesystem::create_directories(sessions, failed);
  if (failed) return fail(ErrorCode::io, "cannot make {} for the sessions: {}", sessions, failed.message());
  return sessions + "/" + name;
}

// The option that needs more than a schedule, if one is given with it.
const char* beside_schedule(const RecordOptions& options) {
  if (!options.schedule) return nullptr;
  if (options.standby) return "--standby";
  if (options.chaos) return "--chaos";
  if (options.lean) return "--lean";
  if (!options.budget.empty()) return "--budget";
  if (!options.let_go.empty()) return "--let-go";
  if (options.state_every) return "--state-hash";
  if (!options.keep.empty() && !options.until_failure) return "--keep";
  return nullptr;
}

int run_record(RecordOptions& options) {
  if (options.list_calls) return list_calls();
  if (!options.session.empty()) {
    auto place = place_of_session(options.session);
    if (!place) return complain("record", place.error());
    options.recording = *std::move(place);
  }
  if (options.print_systemd || options.print_container) return print_service(options);
  if (options.recording.empty())
    return complain(
        "record",
        {ErrorCode::usage,
         "no place for the recording: add -o REC, a directory, which is created if it does not exist, or -s NAME, "
         "a session, which `friday ls` shows"});
  if (options.group.empty() && (options.until_failure || !options.predicates.empty()))
    return complain("record", {ErrorCode::usage,
                               "--until-failure and --predicate belong to a group: add --group GROUP.toml, which may "
                               "describe a single program, too"});
  if (options.group.empty() && options.seed && !options.chaos)
    return complain("record", {ErrorCode::usage,
                               "--seed belongs to a group with random faults, or to --chaos: add --group GROUP.toml or "
                               "--chaos"});
  if (options.standby && (options.until_failure || !options.predicates.empty() || options.lean ||
                          !options.budget.empty() || !options.let_go.empty()))
    return complain("record",
                    {ErrorCode::usage,
                     "--standby does not go with --until-failure and --predicate, which judge a whole run, "
                     "nor with --lean, --budget and --let-go, which leave out what was sent before the recording "
                     "began: leave one of them away"});
  if (const char* other = beside_schedule(options))
    return complain(
        "record",
        {ErrorCode::usage, fmt::format("--schedule keeps no more than what was sent and received, so it does not go "
                                       "with {}: leave one of them away",
                                       other)});
  auto group = options.group.empty() ? single_program(options) : described_group(options);
  if (!group) return complain("record", group.error());
  if (!options.group.empty() && !options.quiet) tell_near_misses("record", *group);
  auto launch = launch_options(options);
  if (!launch) return complain("record", launch.error());
  auto saving = save_when_asked(options);
  if (!saving) return complain("record", saving.error());
  if (options.group.empty()) {
    if (options.chaos) launch->collector.chaos = options.seed ? *options.seed : std::random_device()();
    auto result = run_group(*group, *launch);
    if (!result) return complain("record", result.error());
    if (!options.quiet) print_summary(options, *result);
    if (!options.quiet) say_seed(launch->collector.chaos);
    if (result->ended_by == GroupEnd::strict) return 1;
    if (WIFEXITED(result->status)) return WEXITSTATUS(result->status);
    return 128 + (WIFSIGNALED(result->status) ? WTERMSIG(result->status) : 0);
  }
  GroupRunOptions run;
  run.launch = std::move(*launch);
  run.predicate_command = {executable_path(), "run"};
  run.seed = options.seed;
  run.chaos = options.chaos;
  return options.until_failure ? run_until(options, *group, run) : run_once(options, *group, run);
}

}  // namespace

void add_record_command(CLI::App& app, int* status) {
  auto options = std::make_shared<RecordOptions>();
  auto* command = app.add_subcommand("record", "Record a program, or a whole group of programs, as it runs");
  command->add_option("-o,--output", options->recording,
                      "The recording: a directory, made if it does not exist; several may add to one");
  command
      ->add_option(
          "-s,--session", options->session,
          "Instead of -o: record into a directory of this name in ~/.local/share/friday, where `friday ls` and "
          "all other commands find it by its name")
      ->excludes("--output");
  command->add_option("--node", options->name, "Name of the node (default: the program's name)");
  command->add_option("--group", options->group, "Start, record and stop the programs that this TOML file describes");
  command
      ->add_option("--until-failure", options->until_failure,
                   "Record the group again and again, at most N times, until a run fails; -o names a directory for the "
                   "recordings, run-1, run-2, ...")
      ->check(CLI::Range(1u, 1000000u))
      ->type_name("N");
  command
      ->add_option("--failures", options->failures,
                   "With --until-failure: end when so many runs have failed (default: 1)")
      ->check(CLI::Range(1u, 1000000u));
  add_jobs_option(*command, options->jobs)->needs("--until-failure");
  command->add_option("--keep", options->keep,
                      "Keep the last minutes only (10m, 30s, 2h), or what fits into this much of the disk (2G): older "
                      "parts of the recording are removed while the programs run. With "
                      "--until-failure: which recordings stay: failed, all, or those that failed and the last K that "
                      "passed (default: 2)");
  command->add_flag("--standby", options->standby,
                    "Run the programs unrecorded until `friday live REC full` or `schedule` switches the recording on, "
                    "for all of them or some; `friday live REC off` ends it again");
  auto* schedule = command->add_flag(
      "--schedule", options->schedule,
      "Keep the schedule only: what is sent and received, connections and their ends, while the programs run at nearly "
      "their own speed. It cannot be replayed; `friday info`, `dump` and `compare` read it");
  command
      ->add_option("--first-bytes", options->first_bytes,
                   "With --schedule: how many bytes of each message are kept (default: 500)")
      ->check(CLI::Range(0, 65535))
      ->needs(schedule);
  command
      ->add_option(
          "--save-on", options->save_on,
          "Save what the recording holds, as REC-saved-1, REC-saved-2, ... (at most 5), when a node is killed by a "
          "fault (crash), writes a line that matches (/REGEX/), or receives what a Python file waits for (FILE.py with "
          "a function save_when(message)), and go on; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--seed", options->seed,
          "The seed of --chaos and of random faults ([faults] of the group file), instead of the one in the file")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 63) - 1))
      ->type_name("N");
  command
      ->add_option("--predicate", options->predicates,
                   "A script for `friday run` that judges the recording of the group; may be repeated")
      ->allow_extra_args(false);
  command->add_flag(
      "--chaos", options->chaos,
      "Make rare interleavings likelier: hold threads back, shorten reads and writes of streams, and delay "
      "what arrives, at random by the seed");
  command->add_flag("--strict", options->strict, "End the whole group when a program makes a call that is not handled");
  command->add_option("--max-size", options->max_size,
                      "End the recording when its traces take this much of the disk (500M, 20G); the programs go on");
  command->add_option("--keep-output", options->output,
                      "Keep up to this much of the text that each program writes to its standard output and error, and "
                      "more where it is less than half of the program's trace (16M unless told otherwise; none)");
  auto* no_compress =
      command->add_flag("--no-compress", options->no_compress, "Do not compress what the programs have left behind");
  command
      ->add_flag("--lean", options->lean,
                 "Leave out what recorded programs receive from each other; a replay makes it again when it is needed")
      ->excludes(no_compress);
  auto* budget =
      command
          ->add_option(
              "--budget", options->budget,
              "Store this much a second for each node (100K): of what recorded programs receive from each other "
              "as much as fits, channels of low rate first; the rest is left out")
          ->excludes(no_compress);
  command
      ->add_option("--keep-channel", options->keep_channel,
                   "With --budget: always keep what comes by channels of this kind (pipe) or with this address "
                   "('127.0.0.1:*'); may be repeated")
      ->allow_extra_args(false)
      ->needs(budget);
  command
      ->add_option("--drop-channel", options->drop_channel,
                   "With --budget: never keep it, if a replay can make it again")
      ->allow_extra_args(false)
      ->needs(budget);
  command
      ->add_option("--let-go", options->let_go,
                   "Do not keep what comes by such channels from programs that are not recorded, but for the first 32 "
                   "bytes of each receive; with --budget only as far as it does not fit. It is gone for good, and what "
                   "it may have been is inferred later. May be repeated")
      ->allow_extra_args(false);
  command->add_flag("-q,--quiet", options->quiet, "Say nothing of the recording, also at its end");
  command->add_flag("--no-patch", options->catch_all,
                    "Patch no call sites: every call goes through Syscall User Dispatch (slow; for tests)");
  command
      ->add_flag("--state-hash{16}", options->state_every,
                 "Keep a hash of the program's state at every 16th call of a thread, or every N-th (--state-hash=N)")
      ->check(CLI::Range(1u, 1000000u));
  command->add_flag("--print-systemd", options->print_systemd,
                    "Record nothing, but print a systemd drop-in that records the program as a service");
  command->add_flag("--print-container", options->print_container, "The same for a container: its entry point");
  command->add_flag("--list-calls", options->list_calls, "Print every system call and how it is recorded and replayed");
  command->add_option("program", options->command, "The program and its arguments, after --");
  command->footer(
      "Examples:\n  friday record -o REC --node primary -- redis-server --port 7000\n  friday record -o REC --group "
      "ring.toml\n  friday record -o RUNS --group ring.toml --until-failure 100 --keep 3\n  friday record -o RUNS "
      "--group ring.toml --chaos --until-failure "
      "100\n  friday record --list-calls");
  command->callback([options, status] { *status = run_record(*options); });
}

}  // namespace friday
