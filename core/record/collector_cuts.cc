// Processes that share memory go on in new traces together: when their recording begins (`friday live REC full`), when
// it ends, and when a recording that reaches back for a limited time is cut:
//   1. Each process reports that it has mapped something that others may have mapped, too (kShares).
//   2. When all processes that share something with each other have reported, the collector calls them
//      (kPartTogether). The threads of each process stand still, and the process asks whether those of the others do,
//      too (kHalted).
//   3. When all have asked, the answer lists the shared objects. Each process writes its start image, its mappings of
//      the objects and, if no other process has done so, their contents. Then it goes on recorded (core/shim/part.cc).
// While a process does that, the others still stand, or run in turns that are recorded. So the contents that it writes
// are those that the objects have at this moment in the order of all turns.
#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/base/log.h"
#include "core/record/collector_node.h"
#include "core/record/shared_before.h"

namespace friday {

namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kLookAgain = 20 * kMs;       // from one look at who can begin to the next, at least
constexpr int64_t kObstacleAgain = 500 * kMs;  // the same while something prevents it
constexpr int64_t kHaltsWithin = 200 * kMs;    // from the call until all must stand still, or the attempt has failed
constexpr int64_t kCallAgain = 100 * kMs;      // the pause after a failed attempt; each further one doubles it
constexpr int64_t kCallRarely = 10'000 * kMs;  // the longest such pause
constexpr int64_t kLastsFor = 2000 * kMs;      // how long something prevents a cut before the user is told

// The numbers below `count` in disjoint sets, of which any two can be joined (union-find).
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

using Key = decltype(MappedObject().key());

// Adds what one process's mapping shows of an object to what is known of the objects of all processes.
void merge(std::map<Key, MappedObject>& all, const MappedObject& each) {
  MappedObject& known = all.try_emplace(each.key(), each).first->second;
  known.can_change |= each.can_change;
  if (each.size_known && !known.size_known) known = {each.object, known.can_change, true};
  else if (!known.size_known) known.object.size = std::max(known.object.size, each.object.size);
}

}  // namespace

// Processes that share memory with each other, directly or through others, with what they share.
struct Collector::Sharers {
  std::vector<Node*> nodes;
  std::vector<shim::ObjectBefore> objects;
  std::string obstacle;  // why they cannot go on together; empty: they can
};

// Divides the nodes `among`, recorded ones and those on standby, by whose processes share memory with each other.
std::vector<Collector::Sharers> Collector::find_sharers(const std::vector<Node*>& among) const {
  std::vector<Node*> nodes;
  std::vector<Mapped> mapped;
  std::string hidden;  // why it is not known what one of the processes has mapped; empty: it is known of all
  for (Node* node : among) {
    auto found = node->pid > 0 ? mapped_shared(node->pid) : fail(ErrorCode::io, "it has just begun");
    if (!found && found.error().code == ErrorCode::not_found) continue;  // it has ended
    if (!found)
      hidden = fmt::format("what {} (process {}) has mapped is not known: {}", node->origin.name, node->pid,
                           found.error().message);
    nodes.push_back(node);
    mapped.push_back(found ? std::move(*found) : Mapped{});
  }
  std::map<Key, MappedObject> all;
  for (const Mapped& of : mapped)
    for (const MappedObject& each : of.objects) merge(all, each);
  Sets sets(nodes.size());
  std::map<Key, size_t> first;
  for (size_t n = 0; n < nodes.size(); n++)
    for (const MappedObject& each : mapped[n].objects)
      if (all.at(each.key()).can_change) sets.join(n, first.try_emplace(each.key(), n).first->second);
  std::map<size_t, Sharers> found;
  for (size_t n = 0; n < nodes.size(); n++) {
    Sharers& sharers = found[sets.root(n)];
    sharers.nodes.push_back(nodes[n]);
    if (!hidden.empty()) sharers.obstacle = hidden;
    if (!mapped[n].device.empty())
      sharers.obstacle = fmt::format("{} has mapped {}, a device", nodes[n]->origin.name, mapped[n].device);
  }
  for (const auto& [key, n] : first) found[sets.root(n)].objects.push_back(all.at(key).object);
  std::vector<Sharers> list;
  for (auto& [root, sharers] : found) {
    if (sharers.objects.size() > shim::kMostObjectsBefore)
      sharers.obstacle = fmt::format("it shares more than {} files and segments", shim::kMostObjectsBefore);
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

// Whether the node's process is to go on in another trace, and has said that it may share memory.
bool Collector::asks_for_cut(const Node& node) const {
  return node.shares && !node.cut && !node.closed && node.header && (!node.on_standby || is_wanted(node.origin));
}

// Ends attempts that take too long, and calls the processes that have asked for a cut, if nothing prevents it.
void Collector::look_at_cuts() {
  const int64_t now = cuts_looked_ = now_ns(CLOCK_MONOTONIC);
  cuts_at_ = 0;
  std::vector<uint32_t> late;
  for (const auto& [number, cut] : cuts_) {
    if (cut.until <= now) late.push_back(number);
    else look_at_cuts_soon(cut.until - now);
  }
  for (const uint32_t number : late) end_cut(number, nullptr);
  bool any = false;
  for (const Node* node : open_) {
    if (!asks_for_cut(*node)) continue;
    if (node->call_again <= now) any = true;
    else look_at_cuts_soon(node->call_again - now);
  }
  if (!any) return;
  std::vector<Node*> live;
  for (Node* node : open_)
    if (node->hello && node->header && !node->hung_up && !node->replaced && !node->end_reason && node->wait_status < 0)
      live.push_back(node);
  for (Sharers& sharers : find_sharers(live)) look_at_sharers(sharers, now);
}

void Collector::look_at_sharers(Sharers& sharers, int64_t now) {
  const auto asks = [this](const Node* node) { return asks_for_cut(*node); };
  if (std::ranges::none_of(sharers.nodes, asks)) return;
  const auto is_meant = [this](const Node* node) { return is_wanted(node->origin); };
  const auto other = std::ranges::find_if_not(sharers.nodes, is_meant);
  if (sharers.obstacle.empty() && other != sharers.nodes.end() && std::ranges::any_of(sharers.nodes, is_meant))
    sharers.obstacle = fmt::format("not all that share memory with it are meant, such as {} (process {})",
                                   (*other)->origin.name, (*other)->pid);
  // Processes that stay on standby need not begin with the others.
  std::erase_if(sharers.nodes, [this](const Node* node) { return node->on_standby && !is_wanted(node->origin); });
  for (Node* node : sharers.nodes) tell_obstacle(*node, sharers.obstacle);
  if (!sharers.obstacle.empty()) return look_at_cuts_soon(kObstacleAgain);
  bool all = true;
  for (Node* node : sharers.nodes) {
    all &= asks_for_cut(*node) && node->call_again <= now;
    // This process was forked, or has begun, after the others were told what is wanted of them.
    uint32_t nothing = format::kNoPart;
    if (!node->shares && !node->cut)
      __atomic_compare_exchange_n(&node->header->wanted, &nothing, uint32_t{wanted_of(*node)}, false, __ATOMIC_RELEASE,
                                  __ATOMIC_RELAXED);
  }
  if (all) call_together(sharers);
  else look_at_cuts_soon(kCallAgain);
}

void Collector::tell_obstacle(Node& node, const std::string& obstacle) {
  const char* const what = node.on_standby          ? "its recording cannot begin"
                           : is_wanted(node.origin) ? "its recording cannot be cut off at the front"
                                                    : "its recording cannot end";
  const int64_t now = now_ns(CLOCK_MONOTONIC);
  if (obstacle.empty()) node.obstacle_since = 0;
  else if (!node.obstacle_since) node.obstacle_since = now;
  const bool lasts = node.obstacle_since && now - node.obstacle_since >= kLastsFor;
  const std::string text = lasts ? fmt::format("{}: {}", what, obstacle) : "";
  if (std::exchange(node.cut_notice, text) != text) describe_soon(node);
}

// The value of FileHeader::wanted in a process that waits for those with which it shall begin a new trace.
format::Wanted Collector::wanted_of(const Node& node) const {
  return is_wanted(node.origin) ? format::kPartInAnyCase : format::kNothing;
}

void Collector::call_together(const Sharers& sharers) {
  Cut& cut = cuts_[++last_cut_];
  cut.until = now_ns(CLOCK_MONOTONIC) + kHaltsWithin;
  for (Node* node : sharers.nodes) {
    node->cut = last_cut_;
    cut.members.push_back(node);
    cut.forks += node->forked_children;
    const format::Wanted called = is_wanted(node->origin) ? format::kPartTogether : format::kNothingTogether;
    __atomic_store_n(&node->header->wanted, uint32_t{called}, __ATOMIC_RELEASE);
  }
  FRIDAY_LOG(record, debug, "cut {}: {} processes are called", last_cut_, cut.members.size());
  look_at_cuts_soon(kHaltsWithin);
}

// To be called when all threads of the node's process stand still, and it waits for an answer (kHalted).
void Collector::note_halted(Node& node) {
  const auto found = cuts_.find(node.cut);
  if (found == cuts_.end()) return answer_halted(node, 0, nullptr);
  Cut& cut = found->second;
  cut.halted.push_back(&node);
  if (cut.halted.size() < cut.members.size()) return;
  // Before they stood still, the processes may have mapped more, and may have forked children, which are not members of
  // this cut. Then it fails.
  Sharers all;
  int forks = 0;
  for (const Node* member : cut.members) forks += member->forked_children;
  for (Sharers& part : find_sharers(cut.members)) {
    all.nodes.insert(all.nodes.end(), part.nodes.begin(), part.nodes.end());
    all.objects.insert(all.objects.end(), part.objects.begin(), part.objects.end());
    if (!part.obstacle.empty()) all.obstacle = part.obstacle;
  }
  const bool same = all.nodes.size() == cut.members.size() && forks == cut.forks && all.obstacle.empty() &&
                    all.objects.size() <= shim::kMostObjectsBefore;
  end_cut(node.cut, same ? &all : nullptr);
}

// Answers all processes that wait. With `what`, which is what they share, they go on in new traces. Null: the cut has
// failed, and they go on as before until they are called again.
void Collector::end_cut(uint32_t number, const Sharers* what) {
  const Cut cut = std::move(cuts_.extract(number).mapped());
  FRIDAY_LOG(record, debug, "cut {}: {} of {} processes stand still, they {}", number, cut.halted.size(),
             cut.members.size(), what ? "begin" : "do not begin");
  const int64_t now = now_ns(CLOCK_MONOTONIC);
  int64_t again = kCallAgain;
  for (const Node* node : cut.members) again = std::max(again, std::min(2 * node->call_pause, kCallRarely));
  for (Node* node : cut.members) {
    node->cut = 0;
    node->ended_in_cut = what ? number : 0;
    node->call_pause = what ? 0 : again;
    node->call_again = what ? 0 : now + again;
    if (!what && node->header) __atomic_store_n(&node->header->wanted, uint32_t{wanted_of(*node)}, __ATOMIC_RELEASE);
  }
  for (Node* node : cut.halted) answer_halted(*node, number, what);
  if (!what) look_at_cuts_soon(again);
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

// To be called when the node's process has ended, executes another program, or no longer has to begin a new trace: the
// cut of which it is a member fails.
void Collector::leave_cut(Node& node) {
  const auto found = cuts_.find(std::exchange(node.cut, 0));
  if (found == cuts_.end()) return;
  std::erase(found->second.members, &node);
  end_cut(found->first, nullptr);
}

// To be called when the node's process cannot go on in a new trace although those with which it shares memory do. Their
// recordings get a notice of what they lack.
void Collector::note_left_behind(const Node& node) {
  for (const auto& other : nodes_)
    if (other.get() != &node && (other->ended_in_cut == node.ended_in_cut || other->began_in_cut == node.ended_in_cut))
      add_notice(*other, fmt::format("{} (process {}) shares memory with it and could not go on with it: what that "
                                     "stores there is not in this recording",
                                     node.origin.name, node.pid));
}

}  // namespace friday
