#include "console/live_runs.h"

#include <set>

#include "console/switching.h"
#include "core/trace/recording.h"
#include "core/trace/save.h"

namespace friday {
namespace {

Result<std::set<Uuid>> nodes_of(const std::string& path) {
  FRIDAY_TRY(recording, Recording::open(path, Recording::Standby::shown));
  std::set<Uuid> uuids;
  for (const NodeInfo& node : recording.nodes()) uuids.insert(node.uuid);
  return uuids;
}

Result<void> switch_all(const LiveGroup& live, Keeps keeps) {
  FRIDAY_TRY(switched, switch_nodes({live.recording, {}, keeps}));
  if (switched.left_over.empty()) return {};
  return fail(ErrorCode::io, "not all of {} could be switched for a run: {}", live.recording,
              switched.left_over.front());
}

}  // namespace

Result<FinishedRun> make_live_run(const LiveGroup& live, const GroupSpec& script, GroupRunOptions options,
                                  const std::string& directory, unsigned number) {
  FRIDAY_TRY(before, nodes_of(live.recording));
  GroupSpec unjudged = script;
  unjudged.predicates.clear();
  options.number = number;
  options.launch.collector.recording = live.recording;
  options.launch.collector.schedule = live.keeps == Keeps::schedule;
  const auto on = switch_all(live, live.keeps);
  auto run = on ? run_group_once(unjudged, options) : std::unexpected(on.error());
  const auto off = switch_all(live, Keeps::nothing);
  if (!run) return std::unexpected(run.error());
  if (!off) return std::unexpected(off.error());
  options.launch.collector.recording = fmt::format("{}/run-{}", directory, number);
  FRIDAY_TRY_VOID(save_recording(
      live.recording,
      {.place = options.launch.collector.recording, .without = std::move(before), .removes_ended = true}));
  if (run->result == GroupRun::Result::passed) FRIDAY_TRY_VOID(judge_recording(script, options, *run));
  return finish_run(*run, directory, number);
}

}  // namespace friday
