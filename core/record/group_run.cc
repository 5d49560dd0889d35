#include "core/record/group_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/files.h"
#include "core/record/check.h"
#include "core/record/faults.h"
#include "core/record/group_network.h"
#include "core/record/placeholders.h"

namespace friday {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLongestWhy = 100;  // bytes of a check's last line

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Result<void> check_that_checks_exist(const GroupSpec& group) {
  if (!group.check.empty()) {
    ProgramSpec check;
    check.name = "check";
    check.command = group.check;
    check.record = false;
    if (auto found = find_program(check); !found)
      return fail(ErrorCode::not_found, "the check {} was not found; give its path, or check PATH", group.check[0]);
  }
  for (const std::string& script : group.predicates)
    if (access(script.c_str(), R_OK) != 0)
      return fail_errno(errno, fmt::format("cannot read the predicate {}", script));
  return {};
}

bool depends_on_chance(const GroupSpec& group) {
  const auto drawn = [](const auto& does) { return does.jitter_ns > 0 || does.percent > 0; };
  return !group.faults.kinds.empty() || drawn(group.network.links) ||
         std::ranges::any_of(group.events,
                             [&](const EventSpec& each) { return std::ranges::any_of(each.links, drawn); });
}

// Draws the random faults of this run, and says how packets are lost.
Result<void> draw_by_seed(GroupSpec& group, const GroupRunOptions& options, GroupRun& run) {
  if (!depends_on_chance(group) && !options.chaos) return {};
  run.seed = options.seed ? options.seed : parse_seed(group.faults.seed);
  if (!run.seed)
    return fail(ErrorCode::bad_input, "the seed of [faults] became \"{}\", which is no number", group.faults.seed);
  group.network.seed = *run.seed;
  for (EventSpec& event : draw_faults(group, *run.seed)) group.events.push_back(std::move(event));
  std::ranges::stable_sort(group.events, {}, &EventSpec::at);
  return {};
}

void keep_output(GroupSpec& group) {
  for (ProgramSpec& program : group.programs) {
    if (program.output.empty()) program.output = program.name + ".log";
    if (program.errors.empty()) program.errors = program.name + ".log";
  }
}

// Judges a recording by one command.
class Judge {
 public:
  Judge(const GroupSpec& group, const GroupRunOptions& options, GroupRun& run)
      : group_(group), options_(options), run_(run) {}

  Result<void> judge() {
    if (!group_.check.empty()) FRIDAY_TRY_VOID(check("check", group_.check, false));
    for (const std::string& script : group_.predicates) {
      if (run_.result != GroupRun::Result::passed) break;
      std::vector<std::string> words = options_.predicate_command;
      const std::string name = std::filesystem::path(script).stem().string();
      words.insert(words.end(), {script, options_.launch.collector.recording, "--json", report_of(name)});
      FRIDAY_TRY_VOID(check(name, words, true));
    }
    return {};
  }

 private:
  std::string report_of(const std::string& predicate) const {
    return fmt::format("{}/predicate-{}.json", options_.launch.collector.recording, predicate);
  }

  // What the predicate has found first; `otherwise` if it wrote no report.
  std::string first_violation(const std::string& predicate, const std::string& otherwise) const {
    const auto text = read_file(report_of(predicate));
    const auto report = nlohmann::json::parse(text.value_or(""), nullptr, false);
    if (!report.is_object() || !report.contains("violations") || !report["violations"].is_array() ||
        report["violations"].empty())
      return otherwise;
    const auto& first = report["violations"][0];
    std::string message = first.value("message", "");
    if (message.empty()) message = first.value("predicate", "");
    return shorten(message.substr(0, message.find('\n')), kLongestWhy);
  }

  Result<void> check(const std::string& name, const std::vector<std::string>& words, bool is_predicate) {
    if (options_.checking) options_.checking(name);
    const std::string log =
        fmt::format("{}/{}.log", options_.launch.collector.recording, is_predicate ? "predicate-" + name : name);
    FRIDAY_TRY(end, run_check({words, log, group_.check_timeout}, options_.interrupt_fd));
    if (end.interrupted) return set(GroupRun::Result::interrupted, name + " was interrupted", 130);
    if (end.timed_out)
      return set(is_predicate ? GroupRun::Result::undecided : GroupRun::Result::failed,
                 fmt::format("{} hung: not ended after check_timeout = {:g} s", name, group_.check_timeout), kHungCode);
    if (end.status == 0) return {};
    const int code = WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 128 + WTERMSIG(end.status);
    const std::string said = last_line_of(log, kLongestWhy);
    if (!is_predicate)
      return set(GroupRun::Result::failed,
                 fmt::format("{}: {}{}{}", name, end_text(end.status), said.empty() ? "" : ": ", said), code);
    if (code == kViolated)
      return set(GroupRun::Result::failed, fmt::format("{}: {}", name, first_violation(name, said)), code);
    if (code == kBadScript) return fail(ErrorCode::bad_input, "the predicate {} cannot be run: {}", name, said);
    return set(GroupRun::Result::undecided, fmt::format("{}: {}: {}", name, end_text(end.status), said), code);
  }

  Result<void> set(GroupRun::Result result, std::string why, int code) {
    run_.result = result;
    run_.why = std::move(why);
    run_.code = code;
    return {};
  }

  static constexpr int kViolated = 1, kBadScript = 2;  // exit codes of friday run
  const GroupSpec& group_;
  const GroupRunOptions& options_;
  GroupRun& run_;
};

}  // namespace

Result<void> judge_recording(const GroupSpec& group, const GroupRunOptions& options, GroupRun& run) {
  return Judge(group, options, run).judge();
}

Result<GroupRun> run_group_once(const GroupSpec& group, const GroupRunOptions& options) {
  const std::string& recording = options.launch.collector.recording;
  Placeholders placeholders(recording, options.number, {options.part, options.parts});
  FRIDAY_TRY(filled, placeholders.fill(group));
  FRIDAY_TRY_VOID(check_that_checks_exist(filled));
  if (options.keep_output) keep_output(filled);
  LaunchOptions launch = options.launch;
  launch.directory = placeholders.directory();
  GroupRun run;
  FRIDAY_TRY_VOID(draw_by_seed(filled, options, run));
  if (options.chaos) launch.collector.chaos = run.seed;
  const auto start = Clock::now();
  FRIDAY_TRY(launched, run_group(filled, launch));
  run.launch = std::move(launched);
  if (auto failure = failure_of(filled, run.launch)) {
    run.result = GroupRun::Result::failed;
    run.why = failure->why;
    run.code = failure->code;
  } else if (run.launch.ended_by == GroupEnd::interrupted) {
    run.result = GroupRun::Result::interrupted;
    run.why = "interrupted";
  } else if (run.launch.ended_by == GroupEnd::not_forced) {
    run.result = GroupRun::Result::undecided;
    run.why = "stopped, since the order could not come true";
  } else {
    FRIDAY_TRY_VOID(judge_recording(filled, options, run));
  }
  if (run.result == GroupRun::Result::passed) run.unjudged = unjudged_exits(filled, run.launch);
  run.seconds = seconds_since(start);
  return run;
}

}  // namespace friday
