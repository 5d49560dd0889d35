#include "console/switching.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "console/complain.h"
#include "console/say.h"
#include "core/trace/recording.h"
#include "core/trace/switches.h"

namespace friday {
namespace {

using namespace std::chrono_literals;

constexpr auto kLongest = 20s;  // that a process may take, such as one whose threads are in calls that cannot be cut
constexpr auto kLookAgain = 50ms;

struct Found {
  std::vector<NodeInfo> done, waiting;
  bool any = false, any_recorder = false;
};

bool is_meant(const SwitchingOptions& options, const NodeInfo& node) {
  return options.nodes.empty() || std::ranges::any_of(options.nodes, [&](const std::string& pattern) {
           return one_matches(pattern, node.lineage);
         });
}

Result<Found> look(const SwitchingOptions& options) {
  FRIDAY_TRY(recording, Recording::open(options.recording, Recording::Standby::shown));
  Found found;
  for (const NodeInfo& node : recording.nodes()) {
    // Of one that has just begun nothing is described yet.
    if ((node.end.how != NodeEnd::How::running && node.end.how != NodeEnd::How::unknown) || !program_lives(node))
      continue;
    if (!is_meant(options, node)) continue;
    found.any = true;
    found.any_recorder |= recorder_lives(node);
    (node.on_standby == options.record ? found.waiting : found.done).push_back(node);
  }
  return found;
}

std::string names_of(const std::vector<NodeInfo>& nodes) {
  std::string text;
  for (const NodeInfo& node : nodes) text += (text.empty() ? "" : ", ") + node.given_name;
  return text;
}

// Whether all processes of `before` that still run are where they shall be. One whose node is just being replaced by
// another is seen at the next look.
bool all_switched(const std::vector<NodeInfo>& before, const Found& now) {
  return now.waiting.empty() && std::ranges::all_of(before, [&](const NodeInfo& node) {
           return !program_lives(node) || std::ranges::find(now.done, node.pid, &NodeInfo::pid) != now.done.end();
         });
}

Result<Found> wait_for_all(const SwitchingOptions& options, const std::vector<NodeInfo>& before) {
  const auto end = std::chrono::steady_clock::now() + kLongest;
  for (;; std::this_thread::sleep_for(kLookAgain)) {
    auto found = look(options);
    if (std::chrono::steady_clock::now() >= end || (found && all_switched(before, *found))) return found;
  }
}

int say_result(const SwitchingOptions& options, const Found& found) {
  if (!found.done.empty())
    say("{}: {}\n", options.record ? "recorded from now on" : "on standby from now on", names_of(found.done));
  for (const NodeInfo& node : found.waiting)
    say(stderr, "friday live: {} (process {}) {}: {}\n", node.given_name, node.pid,
        options.record ? "is still on standby" : "is still recorded",
        node.notice.empty() ? "it has made no call since, or is in one that cannot be cut; it follows when it can"
                            : node.notice);
  if (!found.any) say(stderr, "friday live: the programs that are meant have ended before they could be switched\n");
  return found.waiting.empty() && found.any ? 0 : 1;
}

}  // namespace

int switch_recording(const SwitchingOptions& options) {
  auto before = look(options);
  if (!before) return complain("live", before.error());
  auto switches = Switches::read(options.recording);
  if (!switches && switches.error().code == ErrorCode::not_found)
    return complain("live", {ErrorCode::usage,
                             fmt::format("{} is not made by `friday record --standby`, or that has ended, so nothing "
                                         "can be switched",
                                         options.recording)});
  if (!switches) return complain("live", switches.error());
  if (!before->any)
    return complain("live", {ErrorCode::not_found,
                             options.nodes.empty()
                                 ? fmt::format("no program of {} runs any more", options.recording)
                                 : fmt::format("no program that runs has this name; `friday live {}` shows those that "
                                               "do",
                                               options.recording)});
  if (!before->any_recorder)
    return complain("live", {ErrorCode::io, fmt::format("the recorder of {} has ended, so nobody can be switched",
                                                        options.recording)});
  if (options.nodes.empty()) switches->set("*", options.record);
  for (const std::string& pattern : options.nodes) switches->set(pattern, options.record);
  if (auto written = switches->write(options.recording); !written) return complain("live", written.error());
  auto after = wait_for_all(options, before->waiting);
  if (!after) return complain("live", after.error());
  return say_result(options, *after);
}

}  // namespace friday
