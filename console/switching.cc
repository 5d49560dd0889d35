#include "console/switching.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "console/complain.h"
#include "console/say.h"
#include "core/trace/recording.h"

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
    const Keeps keeps = node.on_standby ? Keeps::nothing : node.schedule ? Keeps::schedule : Keeps::everything;
    (keeps == options.keeps ? found.done : found.waiting).push_back(node);
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

const char* new_state(Keeps keeps) {
  switch (keeps) {
    case Keeps::nothing: return "on standby from now on";
    case Keeps::schedule: return "of these a schedule is kept from now on";
    case Keeps::everything: return "recorded from now on";
  }
  return "";
}

Result<void> check_recorder(const SwitchingOptions& options, const Found& found) {
  if (!found.any)
    return fail(ErrorCode::not_found, "{}",
                options.nodes.empty()
                    ? fmt::format("no program of {} runs any more", options.recording)
                    : fmt::format("no program that runs has this name; `friday live {}` shows those that do",
                                  options.recording));
  if (!found.any_recorder)
    return fail(ErrorCode::io, "the recorder of {} has ended, so nobody can be switched", options.recording);
  return {};
}

}  // namespace

Result<Switched> switch_nodes(const SwitchingOptions& options) {
  FRIDAY_TRY(before, look(options));
  auto switches = Switches::read(options.recording);
  if (!switches && switches.error().code == ErrorCode::not_found)
    return fail(ErrorCode::usage,
                "{} is not made by `friday record --standby`, or that has ended, so nothing can be switched",
                options.recording);
  if (!switches) return std::unexpected(switches.error());
  FRIDAY_TRY_VOID(check_recorder(options, before));
  if (options.nodes.empty()) switches->set("*", options.keeps);
  for (const std::string& pattern : options.nodes) switches->set(pattern, options.keeps);
  FRIDAY_TRY_VOID(switches->write(options.recording));
  FRIDAY_TRY(after, wait_for_all(options, before.waiting));
  Switched result{names_of(after.done), {}};
  for (const NodeInfo& node : after.waiting)
    result.left_over.push_back(fmt::format(
        "{} (process {}) {}: {}", node.given_name, node.pid,
        node.on_standby ? "is still on standby" : "is still recorded",
        node.notice.empty() ? "it has made no call since, or is in one that cannot be cut; it follows when it can"
                            : node.notice));
  if (!after.any) result.left_over.push_back("the programs that are meant have ended before they could be switched");
  return result;
}

int switch_recording(const SwitchingOptions& options) {
  const auto switched = switch_nodes(options);
  if (!switched) return complain("live", switched.error());
  if (!switched->done.empty()) say("{}: {}\n", new_state(options.keeps), switched->done);
  for (const std::string& text : switched->left_over) say(stderr, "friday live: {}\n", text);
  return switched->left_over.empty() ? 0 : 1;
}

}  // namespace friday
