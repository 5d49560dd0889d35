#include "core/record/verdict.h"

#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstring>

#include <fmt/ranges.h>

namespace friday {
namespace {

// Signals that a program's own fault raises. SIGKILL and SIGTERM are not among them: clients of a test kill servers on
// purpose.
bool is_fault(int signal) {
  for (int each : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP})
    if (signal == each) return true;
  return false;
}

bool is_crash(int status) { return status >= 0 && WIFSIGNALED(status) && is_fault(WTERMSIG(status)); }

// What a shell says of such an end.
int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

bool ended_as_asked(const ProgramEnd& program) {
  return program.stopped_by && program.status >= 0 && code_of(program.status) == 128 + program.stopped_by;
}

bool ended_badly(const ProgramEnd& program) {
  return program.started && !program.killed && program.status > 0 && !ended_as_asked(program);
}

std::optional<Failure> crash_in(const LaunchResult& result) {
  for (const ProgramEnd& program : result.programs)
    if (program.started && is_crash(program.status))
      return Failure{program.name + " crashed: " + end_text(program.status), code_of(program.status)};
  for (const NodeSummary& node : result.nodes)
    if (is_crash(node.wait_status))
      return Failure{node.name + " crashed: " + end_text(node.wait_status), code_of(node.wait_status)};
  return std::nullopt;
}

// "n1 and n2 had not ended"
std::string unfinished(const LaunchResult& result) {
  std::vector<std::string> names;
  for (const ProgramEnd& program : result.programs)
    if (!program.started || program.stopped_by || program.killed) names.push_back(program.name);
  if (names.empty()) return "";
  const size_t shown = std::min<size_t>(names.size(), 4);
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<ptrdiff_t>(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return ": " + text + " had not ended";
}

}  // namespace

std::string end_text(int wait_status) {
  if (WIFEXITED(wait_status)) return fmt::format("exit {}", WEXITSTATUS(wait_status));
  const char* name = sigabbrev_np(WTERMSIG(wait_status));
  return name ? fmt::format("SIG{}", name) : fmt::format("signal {}", WTERMSIG(wait_status));
}

std::optional<Failure> failure_of(const GroupSpec& group, const LaunchResult& result) {
  if (auto crash = crash_in(result)) return crash;
  if (result.ended_by == GroupEnd::interrupted || result.ended_by == GroupEnd::not_forced) return std::nullopt;
  if (result.ended_by == GroupEnd::timeout)
    return Failure{fmt::format("hung: not ended after timeout = {:g} s{}", group.timeout, unfinished(result)),
                   kHungCode};
  if (result.ended_by == GroupEnd::network_lost)
    return Failure{"the relay of the group's network ended before the programs: something has killed it", 1};
  if (result.ended_by == GroupEnd::not_ready)  // one that ended has not hung, even if it exited with 0
    return Failure{result.not_ready,
                   result.not_ready_status < 0 ? kHungCode : std::max(code_of(result.not_ready_status), 1)};
  std::vector<std::string> watched = group.must_succeed;
  if (watched.empty() && !group.stop_when_ends.empty()) watched = {group.stop_when_ends};
  for (const ProgramEnd& program : result.programs)
    if (std::ranges::count(watched, program.name) && ended_badly(program))
      return Failure{program.name + ": " + end_text(program.status), code_of(program.status)};
  for (const ProgramEnd& program : result.programs)
    if (std::ranges::count(watched, program.name) && program.killed)
      return Failure{fmt::format("{} hung: it did not end after its stop signal and was killed", program.name),
                     kHungCode};
  return std::nullopt;
}

std::vector<std::string> bad_ends_of_unrecorded(const LaunchResult& result) {
  std::vector<std::string> texts;
  for (const ProgramEnd& program : result.programs)
    if (!program.recorded && ended_badly(program))
      texts.push_back(fmt::format("{} (not recorded): {}", program.name, end_text(program.status)));
  return texts;
}

std::vector<BadExit> unjudged_exits(const GroupSpec& group, const LaunchResult& result) {
  if (!group.must_succeed.empty() || !group.check.empty() || !group.predicates.empty()) return {};
  std::vector<BadExit> exits;
  for (const ProgramEnd& program : result.programs)
    if (program.name != group.stop_when_ends && ended_badly(program) && WIFEXITED(program.status))
      exits.push_back({program.name, WEXITSTATUS(program.status)});
  return exits;
}

bool disk_was_full(const LaunchResult& result) {
  return std::ranges::any_of(result.nodes, [](const NodeSummary& node) { return node.disk_full; });
}

}  // namespace friday
