#include "console/follow.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "console/complain.h"
#include "console/followed_node.h"
#include "core/trace/node_list.h"

namespace friday {
namespace {

// A write is committed when its call has returned. Lines are held back for so long, so that those of other nodes that
// were written before come first.
constexpr int64_t kHeldNs = 100'000'000;

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

class Follower {
 public:
  Follower(std::string nodes, const LineFilter& filter, bool as_json)
      : wanted_(std::move(nodes)), filter_(filter), as_json_(as_json) {}

  // Adds the nodes of the recording that are not followed yet.
  Result<void> add_nodes(const Recording& recording) {
    std::vector<NodeId> chosen;
    if (wanted_.empty()) {
      for (const NodeInfo& node : recording.nodes()) chosen.push_back(node.id);
    } else {
      FRIDAY_TRY(list, parse_node_list(recording, wanted_));
      chosen = std::move(list);
    }
    for (NodeId id : chosen)
      if (const NodeInfo* info = recording.find(id); info && !info->problem)
        if (!followed_.contains(id)) followed_.emplace(id, FollowedNode(recording.trace(id), id));
    return {};
  }

  Result<void> poll() {
    for (auto& [id, node] : followed_) {
      if (damaged_.contains(id)) continue;
      if (auto read = node.poll(held_); !read) {
        (void)complain("log", read.error());
        damaged_.insert(id);
      }
      if (!origin_fixed_ && node.first_ns()) origin_ = std::min(origin_.value_or(*node.first_ns()), *node.first_ns());
    }
    origin_fixed_ = origin_.has_value();
    return {};
  }

  // Prints the lines that were written before `ns`.
  void print(const Recording& recording, int64_t ns) {
    std::ranges::stable_sort(held_, {}, &TimedLine::ns);
    const auto later = std::ranges::partition_point(held_, [&](const TimedLine& line) { return line.ns < ns; });
    if (later == held_.begin()) return;
    std::vector<NodeId> nodes;
    for (const auto& [id, node] : followed_) nodes.push_back(id);
    LinePrinter printer(recording, nodes, as_json_);
    for (auto line = held_.begin(); line != later; ++line)
      if (filter_.takes(line->line))
        printer.print(line->node, static_cast<double>(line->ns - origin_.value_or(line->ns)) / 1e9, line->line);
    held_.erase(held_.begin(), later);
    std::fflush(stdout);
  }
  void finish() {
    for (auto& [id, node] : followed_) node.finish(held_);
  }

 private:
  std::string wanted_;
  const LineFilter& filter_;
  bool as_json_;
  std::map<NodeId, FollowedNode> followed_;
  std::set<NodeId> damaged_;
  std::vector<TimedLine> held_;
  std::optional<int64_t> origin_;  // of the recording's first event
  bool origin_fixed_ = false;
};

// Whether somebody may still add to the recording.
bool goes_on(const Recording& recording) {
  return std::ranges::any_of(recording.nodes(), [](const NodeInfo& node) {
    return recorder_lives(node) || (node.end.how == NodeEnd::How::running && program_lives(node));
  });
}

}  // namespace

int follow_log(Recording recording, const std::string& nodes, const LineFilter& filter, bool as_json) {
  Follower follower(nodes, filter, as_json);
  if (auto added = follower.add_nodes(recording); !added) return complain("log", added.error());
  auto looked = std::chrono::steady_clock::now();
  for (;;) {
    const bool live = goes_on(recording);
    if (auto read = follower.poll(); !read) return complain("log", read.error());
    if (!live) break;
    follower.print(recording, now_ns() - kHeldNs);
    std::this_thread::sleep_for(kBetweenLooks);
    if (std::chrono::steady_clock::now() - looked < kLookForNodes) continue;
    looked = std::chrono::steady_clock::now();
    // A node that is just being made may not be readable yet.
    if (auto again = Recording::open(recording.path())) recording = std::move(*again);
    (void)follower.add_nodes(recording);
  }
  follower.finish();
  follower.print(recording, std::numeric_limits<int64_t>::max());
  return 0;
}

}  // namespace friday
