// Replays a recording straight, then with a pause at each opportunity, then from checkpoints made in such pauses, and
// compares what stops it: the same breakpoints, writes and events, with the same counts.
//
//   friday_replay_pauses RECORDING NODE BREAKPOINT WATCHED SIZE
//
// The addresses are hexadecimal. With SIZE 0 nothing is watched, and the node counts its passages of BREAKPOINT itself.
// Run by tests/e2e/test_checkpoints.py. Prints as JSON what was done, or what differs, and exits with 1 then.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "core/base/alarm.h"
#include "tests/unit/replay_support.h"

using namespace friday;
using namespace std::chrono_literals;

namespace {

constexpr StopPointId kPoint{1};
constexpr uint64_t kPassages = 7;  // of which the node is stopped at each seventh, if it counts them
constexpr uint64_t kEvents = 3;    // the node is stopped before each third of its events
constexpr size_t kMostKept = 30;

// What has stopped the group, and how often that has been so since the node's last event; none if it is not known.
struct Seen {
  std::string what;
  std::optional<uint64_t> nth;
};

bool differ(const Seen& a, const Seen& b) { return a.what != b.what || (a.nth && b.nth && *a.nth != *b.nth); }

class Pauser {
 public:
  Pauser(const std::string& recording, NodeId node, Addr breakpoint, const WatchRange& watched)
      : node_(node), breakpoint_(breakpoint), watched_(watched) {
    session_ = open_session(recording);
    session_->on_node_started = [this](ReplayNode& started) {
      if (started.id() == node_) arm(started);
    };
    session_->on_node_stands = [this](ReplayNode& stands) {
      if (stands.id() == node_) wait_for_event();
    };
    if (ReplayNode* there = session_->find(node_); there->has_process()) arm(*there);
  }

  // From here on the group pauses whenever it can, and sometimes keeps a checkpoint.
  void pause_always() {
    session_->on_pause = [this] {
      pauses_++;
      if (pauses_ % 5 == 0 && kept_.size() < kMostKept && session_->is_between_events())
        if (auto made = session_->checkpoint())
          kept_.push_back({std::move(*made), seen_before_ + seen_.size(), next_, passages_left()});
      // Mostly when the next stop has been handled, as the group begins to go on; sometimes while it runs.
      const auto wait = pauses_ % 3 == 0 ? 100us : 20us;
      session_->pause_at = std::chrono::steady_clock::now() + wait;
      alarm_.set(wait);
    };
    session_->pause_at = std::chrono::steady_clock::now();
  }

  const std::vector<Seen>& run() {
    for (;;) {
      const Stop stop = value(session_->run(), "run");
      if (stop.kind == Stop::Kind::end) return seen_;
      const Mark mark = session_->mark(stop.node);
      Seen seen{fmt::format("{} node {} event {}", name_of(stop.kind), mark.node, mark.event.value), {}};
      if (stop.kind == Stop::Kind::breakpoint && !watched_.size) {
        seen.what += fmt::format(" with {}", value(session_->find(node_)->registers(stop.thread), "registers").rdi);
        left_ = kPassages + 1;  // the one at which it stands is counted again
        count_passages(*session_->find(node_));
      } else if (stop.kind == Stop::Kind::breakpoint) {
        seen.nth = session_->find(node_)->breakpoints().passage(stop.pc);
      } else if (stop.kind == Stop::Kind::watch) {
        for (const WatchHit& hit : stop.hits)
          seen.what += fmt::format(" {} to {}", text(hit.old_bytes), text(hit.new_bytes));
        if (stop.hits[0].nth) seen.nth = stop.hits[0].nth;
      } else if (stop.kind == Stop::Kind::event) {
        next_ += kEvents;
        wait_for_event();
      } else {
        give_up(fmt::format("a stop of the kind {} of node {}: {} {}", name_of(stop.kind), stop.node, stop.message,
                            stop.divergence ? describe(*stop.divergence) : ""));
      }
      seen_.push_back(std::move(seen));
    }
  }

  size_t kept() const { return kept_.size(); }
  size_t pauses() const { return pauses_; }
  // Goes back to a checkpoint. Returns how much had been seen there.
  size_t go_back(size_t which) {
    next_ = kept_[which].next;
    left_ = kept_[which].left;
    value(session_->restore(*kept_[which].checkpoint), "restore");
    seen_.clear();
    return seen_before_ = kept_[which].seen;
  }

 private:
  static std::string text(const std::vector<std::byte>& bytes) { return fmt::format("{:02x}", fmt::join(bytes, "")); }

  void arm(ReplayNode& node) {
    value(node.make_pad_areas(), "pads");
    wait_for_event();
    if (!watched_.size) return count_passages(node);
    value(node.breakpoints().insert(breakpoint_, {BreakpointOwner::Kind::stop_point, kPoint.value}), "breakpoint");
    value(node.watches().arm(watched_), "watch");
  }

  void count_passages(ReplayNode& node) {
    if (!value(node.passages().start(breakpoint_, {.nth = left_, .registers = {}}), "start"))
      give_up("the passages cannot be counted");
  }

  // How many passages are left until the next one at which the node is stopped.
  uint64_t passages_left() {
    return watched_.size ? 0 : left_ - value(session_->find(node_)->passages().count(), "count");
  }

  void wait_for_event() { value(session_->stop_at(node_, next_), "stop_at"); }

  struct Kept {
    std::unique_ptr<GroupCheckpoint> checkpoint;
    size_t seen;
    uint64_t next;
    uint64_t left;
  };

  NodeId node_;
  Addr breakpoint_;
  WatchRange watched_;
  std::unique_ptr<ReplaySession> session_;
  std::vector<Seen> seen_;  // since the group was at the start, or at the checkpoint to which it went back last
  size_t seen_before_ = 0;  // on the way to that checkpoint
  std::vector<Kept> kept_;
  uint64_t next_ = kEvents;    // the event before which the node is stopped next
  uint64_t left_ = kPassages;  // the passage at which it is stopped next, since it began to count
  size_t pauses_ = 0;
  Alarm alarm_;
};

void compare(const std::vector<Seen>& straight, size_t from, const std::vector<Seen>& now, const std::string& how) {
  for (size_t i = 0; i < std::max(now.size(), straight.size() - from); i++) {
    const std::string should = from + i < straight.size() ? straight[from + i].what : "nothing";
    const std::string is = i < now.size() ? now[i].what : "nothing";
    if (should == "nothing" || is == "nothing" || differ(straight[from + i], now[i]))
      give_up(fmt::format("{}: stop {} should be {} for the {}th time and is {} for the {}th time", how, from + i,
                          should, from + i < straight.size() ? straight[from + i].nth.value_or(0) : 0, is,
                          i < now.size() ? now[i].nth.value_or(0) : 0));
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) give_up("usage: friday_replay_pauses RECORDING NODE BREAKPOINT WATCHED SIZE");
  const auto number = [&](int i, int base) { return strtoull(arguments[i], nullptr, base); };
  const auto node = static_cast<NodeId>(number(2, 10));
  const Addr breakpoint{number(3, 16)};
  const WatchRange watched{kPoint, 0, Addr{number(4, 16)}, number(5, 10), true};
  std::vector<Seen> straight;
  {
    Pauser pauser(arguments[1], node, breakpoint, watched);
    straight = pauser.run();
  }
  Pauser pauser(arguments[1], node, breakpoint, watched);
  pauser.pause_always();
  compare(straight, 0, pauser.run(), "with pauses");
  for (size_t i = 0; i < pauser.kept(); i++) {
    const size_t from = pauser.go_back(i);
    compare(straight, from, pauser.run(), fmt::format("from the checkpoint behind {} stops", from));
  }
  const nlohmann::json said{{"stops", straight.size()}, {"pauses", pauser.pauses()}, {"checkpoints", pauser.kept()}};
  fmt::print("{}\n", said.dump());
}
