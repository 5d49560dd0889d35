// Processes that share memory go on in new traces together: when their recording begins (`friday live REC full`), when
// it ends, and when a recording that reaches back for a limited time is cut. Each tells that it has mapped something that
// others may have mapped (kShares). When all processes that share something with each other have told so, they are
// called: the threads of each stand still, and the process asks whether those of the others do, too (kHalted). The
// answer, when all have asked, says which shared objects there are. Each then writes its start image, its mappings of
// the objects and, if nobody has before it, their contents, and goes on recorded (core/shim/part.cc). The others still
// stand, or run in turns that are recorded, so what it writes of the objects is what they are at that moment of the order
// of all turns.
#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/log.h"
#include "core/record/collector_node.h"
#include "core/record/shared_before.h"

namespace friday {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLookAgain = 20 * kMs;     // from one look at who can begin to the next, at least
constexpr int64_t kHaltsWithin = 300 * kMs;  // that all must stand still after they were called
constexpr int64_t kCallAgain = 100 * kMs;    // after an attempt in vain
constexpr int64_t kLastsFor = 2000 * kMs;    // before it is told what prevents it

void store(uint32_t& word, format::Wanted wanted) { __atomic_store_n(&word, uint32_t{wanted}, __ATOMIC_RELEASE); }

// Sets of numbers from 0, which are joined.
class Sets {
 public:
  explicit Sets(size_t count) : of_(count) { std::iota(of_.begin(), of_.end(), 0u); }
  size_t root(size_t n) {
    while (of_[n] != n) n = of_[n] = of_[of_[n]];
    return n;
  }
  void join(size_t a, size_t b) { of_[root(a)] = root(b); }

 private:
  std::vector<size_t> of_;
};

}  // namespace

// Processes that share memory with each other, directly or through others, with what they share.
struct Collector::Sharers {
  std::vector<Node*> nodes;
  std::vector<shim::ObjectBefore> objects;
  std::string obstacle;  // why they cannot begin; empty: they can
};

std::vector<Collector::Sharers> Collector::find_sharers() const {
  std::vector<Node*> nodes;
  std::vector<std::string> obstacles;
  std::vector<std::vector<MappedObject>> mapped;
  std::string hidden;  // why what somebody has mapped is not known
  for (Node* node : open_) {
    if (!node->hello || !node->header || node->hung_up || node->wait_status >= 0) continue;
    auto objects = node->pid > 0 ? mapped_objects(node->pid) : fail(ErrorCode::io, "it has just begun");
    if (!objects && objects.error().code == ErrorCode::not_found) continue;  // it has ended
    nodes.push_back(node);
    obstacles.push_back(objects ? "" : objects.error().message);
    if (!objects && objects.error().code != ErrorCode::unsupported)
      hidden = fmt::format("what {} (process {}) has mapped is not known: {}", node->origin.name, node->pid,
                           objects.error().message);
    mapped.push_back(objects ? std::move(*objects) : std::vector<MappedObject>{});
  }
  std::map<std::pair<uint64_t, uint64_t>, MappedObject> all;
  for (const auto& objects : mapped)
    for (const MappedObject& each : objects) {
      MappedObject& known = all.try_emplace(each.key(), each).first->second;
      known.can_change |= each.can_change;
      if (each.size_known && !known.size_known) known = {each.object, known.can_change, true};
      else if (!known.size_known) known.object.size = std::max(known.object.size, each.object.size);
    }
  const auto where_is = [this](const Node& node) { return std::pair{node.on_standby, is_wanted(node.origin)}; };
  const auto counts = [&](const MappedObject& each) {
    const MappedObject& known = all.at(each.key());
    return known.can_change || known.object.in_memory;
  };
  Sets sets(nodes.size());
  std::map<std::pair<uint64_t, uint64_t>, size_t> first;
  for (size_t n = 0; n < nodes.size(); n++)
    for (const MappedObject& each : mapped[n])
      if (counts(each)) sets.join(n, first.try_emplace(each.key(), n).first->second);
  std::map<size_t, Sharers> found;
  for (size_t n = 0; n < nodes.size(); n++) {
    Sharers& sharers = found[sets.root(n)];
    sharers.nodes.push_back(nodes[n]);
    if (sharers.obstacle.empty()) sharers.obstacle = !obstacles[n].empty() ? obstacles[n] : hidden;
  }
  for (const auto& [key, n] : first) found[sets.root(n)].objects.push_back(all.at(key).object);
  std::vector<Sharers> list;
  for (auto& [root, sharers] : found) {
    if (sharers.objects.size() > shim::kMostObjectsBefore)
      sharers.obstacle = fmt::format("it shares more than {} files and segments", shim::kMostObjectsBefore);
    const auto [sleeps, wanted] = where_is(*sharers.nodes.front());
    for (const Node* node : sharers.nodes)
      if (sharers.obstacle.empty() && where_is(*node) != std::pair{sleeps, wanted})
        sharers.obstacle = fmt::format("it shares memory with {} (process {}), which {}", node->origin.name, node->pid,
                                       node->on_standby        ? "is to stay on standby"
                                       : is_wanted(node->origin) ? "is to stay recorded"
                                                                 : "is to be recorded no longer");
    list.push_back(std::move(sharers));
  }
  return list;
}

void Collector::note_shares(Node& node) {
  node.shares = true;
  look_at_cuts_soon(0);
}

void Collector::look_at_cuts_soon(int64_t in_ns) {
  const int64_t at = std::max(now_ns(CLOCK_MONOTONIC) + in_ns, cuts_looked_ + kLookAgain);
  cuts_at_ = cuts_at_ ? std::min(cuts_at_, at) : at;
}

// Ends attempts that take too long, and calls all whom nothing stands in the way of.
void Collector::look_at_cuts() {
  const int64_t now = cuts_looked_ = now_ns(CLOCK_MONOTONIC);
  cuts_at_ = 0;
  std::vector<uint32_t> late;
  for (const auto& [number, cut] : cuts_) {
    if (cut.until <= now) late.push_back(number);
    else look_at_cuts_soon(cut.until - now);
  }
  for (const uint32_t number : late) end_cut(number, nullptr);
  if (std::ranges::none_of(open_, [this](const Node* node) { return asks_for_cut(*node); })) return;
  for (const Sharers& sharers : find_sharers()) {
    if (std::ranges::none_of(sharers.nodes, [this](const Node* node) { return asks_for_cut(*node); })) continue;
    const bool told = std::ranges::all_of(sharers.nodes, [this](const Node* node) { return asks_for_cut(*node); });
    for (Node* node : sharers.nodes) tell_obstacle(*node, sharers.obstacle);
    if (told && sharers.obstacle.empty()) call_together(sharers);
    else look_at_cuts_soon(kCallAgain);
  }
}

bool Collector::asks_for_cut(const Node& node) const {
  const bool changes = !node.on_standby || is_wanted(node.origin);
  return node.shares && !node.cut && !node.closed && node.header && changes;
}

void Collector::tell_obstacle(Node& node, const std::string& obstacle) {
  const char* const what = node.on_standby           ? "its recording cannot begin"
                           : is_wanted(node.origin) ? "its recording cannot be cut off at the front"
                                                    : "its recording cannot end";
  if (obstacle.empty()) node.obstacle_since = 0;
  else if (!node.obstacle_since) node.obstacle_since = now_ns(CLOCK_MONOTONIC);
  const bool lasts = node.obstacle_since && now_ns(CLOCK_MONOTONIC) - node.obstacle_since >= kLastsFor;
  const std::string text = lasts ? fmt::format("{}: {}", what, obstacle) : "";
  if (std::exchange(node.cut_notice, text) != text) describe_soon(node);
}

void Collector::call_together(const Sharers& sharers) {
  Cut& cut = cuts_[++last_cut_];
  cut.until = now_ns(CLOCK_MONOTONIC) + kHaltsWithin;
  for (Node* node : sharers.nodes) {
    node->cut = last_cut_;
    cut.members.push_back(node);
    store(node->header->wanted, is_wanted(node->origin) ? format::kPartTogether : format::kNothingTogether);
  }
  FRIDAY_LOG(record, debug, "cut {}: {} processes are called", last_cut_, cut.members.size());
  look_at_cuts_soon(kHaltsWithin);
}

// All threads of the node's process stand still, and it waits for an answer.
void Collector::note_halted(Node& node) {
  const auto found = cuts_.find(node.cut);
  if (found == cuts_.end()) return answer_halted(node, 0, nullptr);
  Cut& cut = found->second;
  cut.halted.push_back(&node);
  if (cut.halted.size() < cut.members.size()) return;
  // A process may have been forked, or have mapped more, before it stood still.
  std::ranges::sort(cut.members);
  for (Sharers& now : find_sharers()) {
    std::ranges::sort(now.nodes);
    if (now.obstacle.empty() && now.nodes == cut.members) return end_cut(node.cut, &now);
  }
  end_cut(node.cut, nullptr);
}

// Answers all processes that wait: they begin, if it is known what they share.
void Collector::end_cut(uint32_t number, const Sharers* what) {
  const Cut cut = std::move(cuts_.extract(number).mapped());
  FRIDAY_LOG(record, debug, "cut {}: {} of {} processes stand still, they {}", number, cut.halted.size(),
             cut.members.size(), what ? "begin" : "do not begin");
  for (Node* node : cut.members) {
    node->cut = 0;
    if (what) node->ended_in_cut = number;
    else if (node->header) store(node->header->wanted, is_wanted(node->origin) ? format::kPartInAnyCase : format::kNothing);
  }
  for (Node* node : cut.halted) answer_halted(*node, number, what);
  if (!what) look_at_cuts_soon(kCallAgain);
}

void Collector::answer_halted(const Node& node, uint32_t number, const Sharers* what) {
  std::vector<char> bytes(offsetof(shim::CutReply, objects));
  if (what) bytes.resize(bytes.size() + what->objects.size() * sizeof(shim::ObjectBefore));
  auto* reply = reinterpret_cast<shim::CutReply*>(bytes.data());
  reply->ok = what != nullptr;
  reply->cut = number;
  if (what) {
    reply->count = static_cast<uint32_t>(what->objects.size());
    std::ranges::copy(what->objects, reply->objects);
  }
  if (node.socket) send_reply(node.socket.get(), bytes.data(), bytes.size(), nullptr, 0);
}

// The node's process has ended, executes another program, or is to stay on standby.
void Collector::leave_cut(Node& node) {
  const auto found = cuts_.find(std::exchange(node.cut, 0));
  if (found == cuts_.end()) return;
  std::erase(found->second.members, &node);
  end_cut(found->first, nullptr);
}

// The node's process was told to go on in another trace with those with which it shares memory, and cannot.
void Collector::note_left_behind(const Node& node) {
  for (const auto& other : nodes_)
    if (other.get() != &node && !other->closed && other->began_in_cut == node.ended_in_cut)
      add_notice(*other, fmt::format("{} (process {}) shares memory with it and could not go on with it: what that "
                                     "stores there is not in this recording",
                                     node.origin.name, node.pid));
}

}  // namespace friday
