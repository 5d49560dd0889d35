// Walks through a recording at random, forward and by checkpoints, and compares: at each place that it comes to, the
// memory of all nodes must be what a replay has there that goes straight from the start.
//
//   friday_replay_walk RECORDING SEED MOVES
//
// Run by tests/e2e/test_checkpoints.py. Prints as JSON what was done, or what differs, and exits with 1 then.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/replay_support.h"

using namespace friday;

namespace {

constexpr size_t kPlaces = 25;
constexpr size_t kMostKept = 50;

using Hashes = std::map<NodeId, uint64_t>;

class Walker {
 public:
  explicit Walker(const std::string& recording) {
    session_ = open_session(recording);
    session_->on_node_started = [this](ReplayNode& node) {
      if (wanted_ && node.id() == wanted_->node) (void)session_->stop_at(node.id(), wanted_->event.value);
    };
  }
  ReplaySession& session() { return *session_; }
  const Schedule& order() { return session_->schedule(); }

  // Runs until the event at this position of the order is next. Interrupts the run at a random moment, if `moment` is
  // given, and makes a checkpoint there.
  void run_to(uint64_t position, std::optional<std::chrono::microseconds> moment) {
    const Mark target = order().at_position(position);
    wanted_ = target;
    if (session_->find(target.node)->has_process())
      value(session_->stop_at(target.node, target.event.value), "stop_at");
    std::jthread interrupter;
    if (moment)
      interrupter = std::jthread([this, moment] {
        std::this_thread::sleep_for(*moment);
        session_->interrupt();
      });
    for (;;) {
      const Stop stop = value(session_->run(), "run");
      if (stop.kind == Stop::Kind::event && session_->mark(stop.node) == target) break;
      if (stop.kind != Stop::Kind::interrupt && stop.kind != Stop::Kind::signal)
        give_up(fmt::format("a stop of the kind {} of node {} before its event {} on the way to {}: {} {}",
                            name_of(stop.kind), stop.node, session_->mark(stop.node).event.value, position,
                            stop.message, stop.divergence ? describe(*stop.divergence) : ""));
      if (stop.kind == Stop::Kind::interrupt) keep();
    }
    wanted_.reset();
    if (interrupter.joinable()) interrupter.join();
    session_->clear_interrupt();
    value(session_->stop_at(target.node, ~uint64_t{0}), "stop_at");
  }

  Hashes hashes() {
    Hashes all;
    for (NodeId id : session_->nodes())
      if (session_->find(id)->has_process()) all[id] = value(session_->state_hash(id), "hash");
    return all;
  }

  void keep() {
    const auto before = std::chrono::steady_clock::now();
    auto made = session_->checkpoint();
    if (!made) {
      if (made.error().code != ErrorCode::unsupported) give_up("checkpoint: " + made.error().message);
      refused_[made.error().message]++;
      return;
    }
    spent_ += std::chrono::steady_clock::now() - before;
    made_++;
    if (kept_.size() == kMostKept) kept_.erase(kept_.begin() + 1);
    kept_.push_back(std::move(*made));
  }

  // Returns to some checkpoint before the position; false if there is none.
  bool go_back(uint64_t position, std::mt19937_64& random) {
    std::vector<const GroupCheckpoint*> before;
    for (const auto& one : kept_)
      if (one->events() < position) before.push_back(one.get());
    if (before.empty()) return false;
    const auto start = std::chrono::steady_clock::now();
    value(session_->restore(*before[random() % before.size()]), "restore");
    back_ += std::chrono::steady_clock::now() - start;
    restored_++;
    return true;
  }

  void report() {
    auto ms = [](auto time, size_t n) {
      return std::chrono::duration<double, std::milli>(time).count() / static_cast<double>(std::max<size_t>(n, 1));
    };
    const nlohmann::json said{{"checkpoints", made_},
                              {"returns", restored_},
                              {"refused", refused_},
                              {"checkpoint_ms", ms(spent_, made_)},
                              {"return_ms", ms(back_, restored_)}};
    fmt::print("{}\n", said.dump());
  }

 private:
  std::unique_ptr<ReplaySession> session_;
  std::optional<Mark> wanted_;
  std::vector<std::unique_ptr<GroupCheckpoint>> kept_;
  std::map<std::string, size_t> refused_;
  size_t made_ = 0, restored_ = 0;
  std::chrono::steady_clock::duration spent_{}, back_{};
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) give_up("usage: friday_replay_walk RECORDING SEED MOVES");
  std::mt19937_64 random(strtoull(arguments[2], nullptr, 10));
  std::map<uint64_t, Hashes> truth;
  {
    Walker straight(arguments[1]);
    const uint64_t events = straight.order().event_count();
    if (events < 4) give_up(fmt::format("{} events are too few to walk between", events));
    while (truth.size() < std::min<uint64_t>(kPlaces, events / 2)) truth[1 + random() % (events - 1)];
    for (auto& [position, hashes] : truth) {
      straight.run_to(position, std::nullopt);
      hashes = straight.hashes();
    }
  }
  Walker walker(arguments[1]);
  walker.keep();
  uint64_t here = 0;
  const auto moves = strtoul(arguments[3], nullptr, 10);
  for (size_t move = 0; move < moves; move++) {
    const auto to = std::next(truth.begin(), static_cast<long>(random() % truth.size()));
    if ((to->first <= here || random() % 3 == 0) && !walker.go_back(to->first, random)) continue;
    const bool interrupt = random() % 2;
    walker.run_to(to->first, interrupt ? std::optional(std::chrono::microseconds(random() % 5000)) : std::nullopt);
    here = to->first;
    const Hashes now = walker.hashes();
    if (now != to->second) {
      for (const auto& [id, hash] : to->second)
        if (!now.contains(id) || now.at(id) != hash) fmt::print("node {} differs\n", id);
      give_up(fmt::format("move {}: at position {} the memory is not what it was", move, to->first));
    }
    if (random() % 2) walker.keep();
  }
  walker.report();
}
