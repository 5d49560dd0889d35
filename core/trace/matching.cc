#include "core/trace/matching.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/trace/matcher.h"

namespace friday {

const char* name_of(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::stream: return "stream";
    case EdgeKind::datagram: return "datagram";
    case EdgeKind::pipe: return "pipe";
    case EdgeKind::connect: return "connect";
    case EdgeKind::end_of_stream: return "end of stream";
    case EdgeKind::fork: return "fork";
    case EdgeKind::exec: return "exec";
    case EdgeKind::wait: return "wait";
    case EdgeKind::signal: return "signal";
    case EdgeKind::file: return "file";
    case EdgeKind::lock: return "lock";
    case EdgeKind::semaphore: return "semaphore";
    case EdgeKind::eventfd: return "eventfd";
    case EdgeKind::queue: return "queue";
    case EdgeKind::turn: return "shared memory";
    case EdgeKind::part: return "part";
  }
  return "edge";
}

const char* name_of(MatchedBy by) {
  switch (by) {
    case MatchedBy::object: return "object";
    case MatchedBy::address: return "address";
    case MatchedBy::one_address: return "one_address";
    case MatchedBy::content: return "content";
  }
  return "?";
}

Matcher::Matcher(const FactSet& facts)
    : facts_(facts),
      taken_(facts.channels.size()),
      matched_sends_(facts.nodes.size()),
      matched_receives_(facts.nodes.size()) {
  result_.traffic.resize(facts.nodes.size());
  gather_ends();
}

int64_t Matcher::reference_ns(uint32_t node, uint64_t ticks) const {
  uint32_t host = facts_.nodes[node].host;
  int64_t ns = facts_.clocks[host].monotonic_ns(ticks);
  return result_.hosts.empty() ? ns : result_.hosts[host].map(ns);
}

bool Matcher::is_comparable(uint32_t a, uint32_t b) const {
  if (facts_.same_host(a, b)) return true;
  return !result_.hosts.empty() &&
         result_.hosts[facts_.nodes[a].host].group == result_.hosts[facts_.nodes[b].host].group;
}

bool Matcher::may_precede(uint32_t from_node, uint64_t from_time, uint32_t to_node, uint64_t to_time) const {
  if (facts_.same_host(from_node, to_node)) return from_time <= to_time;
  // Without a common time line, time excludes nothing: wall clocks are not evidence.
  if (!is_comparable(from_node, to_node)) return true;
  // How far the alignment may be wrong. If no line satisfies all messages (because a clock was slewed), it is wrong by
  // at least the negative margin.
  constexpr int64_t kSlackNs = 2'000'000;
  int64_t slack = kSlackNs;
  for (uint32_t node : {from_node, to_node})
    slack += 2 * std::max<int64_t>(0, -result_.hosts[facts_.nodes[node].host].margin_ns);
  return reference_ns(from_node, from_time) <= reference_ns(to_node, to_time) + slack;
}

void Matcher::add(uint32_t from, uint64_t from_event, uint32_t to, uint64_t to_event, EdgeKind kind, uint64_t bytes,
                  uint64_t earliest, bool duplicate, const MessagePlace& place, bool peek) {
  if (from == to) return;  // a node's own order needs no edges
  result_.edges.push_back({facts_.nodes[from].id, facts_.nodes[to].id, from_event, to_event, bytes,
                           earliest == kNoEvent ? from_event : earliest, kind, duplicate, by_, peek, place});
}

void Matcher::note_cross(uint32_t from, uint64_t from_time, uint32_t to, uint64_t to_time) {
  if (facts_.same_host(from, to)) return;
  // Content alone can be wrong, so it must not move clocks that addresses have already aligned.
  if (by_ == MatchedBy::content && is_comparable(from, to)) return;
  uint32_t from_host = facts_.nodes[from].host, to_host = facts_.nodes[to].host;
  cross_.push_back({from_host, to_host, facts_.clocks[from_host].monotonic_ns(from_time),
                    facts_.clocks[to_host].monotonic_ns(to_time)});
}

void Matcher::count_traffic() {
  for (const Channel& channel : facts_.channels) {
    NodeTraffic& traffic = result_.traffic[channel.node];
    auto moved = [&](const Transfer& transfer) {
      return channel.is_datagram() ? !(transfer.flags & format::kPeek)
                                   : transfer.length > 0 && !(transfer.flags & (format::kPeek | format::kOutOfBand));
    };
    traffic.sends += static_cast<uint64_t>(std::ranges::count_if(channel.out, moved));
    traffic.receives += static_cast<uint64_t>(std::ranges::count_if(channel.in, moved));
  }
  for (size_t slot = 0; slot < facts_.nodes.size(); ++slot) {
    NodeTraffic& traffic = result_.traffic[slot];
    traffic.unmatched_sends = traffic.sends - matched_sends_[slot];
    traffic.unmatched_receives = traffic.receives - matched_receives_[slot];
  }
}

void Matcher::match_forks() {
  std::map<Uuid, uint32_t> by_uuid;
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) by_uuid[facts_.nodes[slot].uuid] = slot;
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot)
    for (const ForkFact& fork : facts_.nodes[slot].forks)
      if (auto child = by_uuid.find(fork.child); child != by_uuid.end() && !facts_.nodes[child->second].times.empty())
        add(slot, fork.event, child->second, 0, EdgeKind::fork);
}

// Adds an edge from the end of each part to the beginning of the next one.
void Matcher::match_parts() {
  std::map<Uuid, uint32_t> by_uuid;
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) by_uuid[facts_.nodes[slot].uuid] = slot;
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) {
    const NodeFacts& next = facts_.nodes[slot];
    const auto before = next.continues ? by_uuid.find(*next.continues) : by_uuid.end();
    if (before == by_uuid.end() || next.times.empty()) continue;
    if (const size_t events = facts_.nodes[before->second].times.size())
      add(before->second, events - 1, slot, 0, EdgeKind::part);
  }
}

// Adds an edge from each node that called execve to the node of the new program, which has the same pid.
void Matcher::match_execs() {
  const auto& nodes = facts_.nodes;
  for (uint32_t old = 0; old < nodes.size(); ++old) {
    if (!nodes[old].replaced || nodes[old].times.empty()) continue;
    uint64_t left = nodes[old].times.back().entry;
    uint32_t next = old;
    for (uint32_t slot = 0; slot < nodes.size(); ++slot) {
      if (slot == old || nodes[slot].pid != nodes[old].pid || !facts_.same_host(slot, old) || nodes[slot].times.empty())
        continue;
      auto rank = [&](uint32_t candidate) {
        return std::pair(nodes[candidate].family != nodes[old].family, nodes[candidate].times.front().entry);
      };
      if (nodes[slot].times.front().entry >= left && (next == old || rank(slot) < rank(next))) next = slot;
    }
    if (next != old) add(old, nodes[old].times.size() - 1, next, 0, EdgeKind::exec);
  }
}

namespace {

// Finds the nodes of a host by pid. A pid may be reused, or belong to another container. Nodes of the asking node's
// family come first; among them the youngest that started before `time` is chosen.
class PidTable {
 public:
  explicit PidTable(const FactSet& facts) : facts_(facts) {
    for (uint32_t slot = 0; slot < facts.nodes.size(); ++slot)
      if (!facts.nodes[slot].times.empty())
        table_.emplace(std::pair(facts.nodes[slot].host, facts.nodes[slot].pid), slot);
  }
  uint32_t find(const NodeFacts& asker, uint32_t pid, uint64_t time) const {
    uint32_t best = kNoChannel;
    auto rank = [&](uint32_t slot) {
      return std::pair(facts_.nodes[slot].family == asker.family, facts_.nodes[slot].times.front().entry);
    };
    auto [at, end] = table_.equal_range(std::pair(asker.host, pid));
    for (; at != end; ++at)
      if (facts_.nodes[at->second].times.front().entry <= time && (best == kNoChannel || rank(at->second) > rank(best)))
        best = at->second;
    return best;
  }

 private:
  const FactSet& facts_;
  std::multimap<std::pair<uint32_t, uint32_t>, uint32_t> table_;
};

// The kills of each node, by signal and target.
class Kills {
 public:
  explicit Kills(const FactSet& facts) : facts_(facts), sent_(facts.nodes.size()) {
    for (uint32_t slot = 0; slot < facts.nodes.size(); ++slot)
      for (const KillFact& kill : facts.nodes[slot].kills)
        sent_[slot][{kill.signal, std::max<int64_t>(kill.target, 0)}].push_back(&kill);
  }
  // The earliest kill of `from` that was meant for `to` and that it has not taken yet, if it took place before `time`.
  const KillFact* take(uint32_t from, uint32_t to, int signal, uint64_t time) {
    auto [place, is_new] = meant_.try_emplace({from, to, signal});
    Meant& meant = place->second;
    if (is_new) gather(from, facts_.nodes[to], signal, meant.kills);
    if (meant.next == meant.kills.size() || meant.kills[meant.next]->time > time) return nullptr;
    return meant.kills[meant.next++];
  }

 private:
  struct Meant {
    std::vector<const KillFact*> kills;
    size_t next = 0;
  };
  void gather(uint32_t from, const NodeFacts& to, int signal, std::vector<const KillFact*>& kills) const {
    std::set<int64_t> targets(to.threads.begin(), to.threads.end());
    targets.insert(0);  // groups of processes
    for (int64_t target : targets)
      if (auto found = sent_[from].find({signal, target}); found != sent_[from].end())
        kills.insert(kills.end(), found->second.begin(), found->second.end());
    std::ranges::sort(kills, {}, [](const KillFact* kill) { return std::pair(kill->time, kill->event); });
  }

  const FactSet& facts_;
  std::vector<std::map<std::pair<int, int64_t>, std::vector<const KillFact*>>> sent_;  // by node slot
  std::map<std::tuple<uint32_t, uint32_t, int>, Meant> meant_;
};

}  // namespace

void Matcher::match_waits() {
  PidTable pids(facts_);
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) {
    const NodeFacts& node = facts_.nodes[slot];
    for (const WaitFact& wait : node.waits) {
      int status = static_cast<int>(wait.status);
      if (!WIFEXITED(status) && !WIFSIGNALED(status)) continue;
      uint32_t child = pids.find(node, wait.pid, wait.time);
      if (child == kNoChannel) continue;
      const std::vector<EventTime>& times = facts_.nodes[child].times;
      if (times.back().entry <= wait.time) add(child, times.size() - 1, slot, wait.event, EdgeKind::wait);
    }
  }
}

void Matcher::match_signals() {
  PidTable pids(facts_);
  Kills kills(facts_);
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) {
    const NodeFacts& node = facts_.nodes[slot];
    for (const SignalFact& got : node.signals) {
      bool child_ended =
          got.signal == SIGCHLD && (got.code == CLD_EXITED || got.code == CLD_KILLED || got.code == CLD_DUMPED);
      if (!child_ended && got.code != SI_USER && got.code != SI_TKILL && got.code != SI_QUEUE) continue;
      uint32_t sender = pids.find(node, got.sender, got.time);
      if (sender == kNoChannel || sender == slot) continue;
      const NodeFacts& from = facts_.nodes[sender];
      if (child_ended) {
        if (from.times.back().entry <= got.time) add(sender, from.times.size() - 1, slot, got.event, EdgeKind::wait);
        continue;
      }
      if (const KillFact* kill = kills.take(sender, slot, got.signal, got.time))
        add(sender, kill->event, slot, got.event, EdgeKind::signal);
    }
  }
}

namespace {

EdgeKind kind_of(Shared kind) {
  switch (kind) {
    case Shared::file: return EdgeKind::file;
    case Shared::lock: return EdgeKind::lock;
    case Shared::semaphore: return EdgeKind::semaphore;
    case Shared::eventfd: return EdgeKind::eventfd;
    case Shared::queue: return EdgeKind::queue;
  }
  return EdgeKind::file;
}

}  // namespace

namespace {

// The last release of one object by each node, the newest last.
class LastReleases {
 public:
  void let_go(uint32_t node, uint64_t event) {
    if (auto place = place_.find(node); place != place_.end()) newest_.erase(place->second);
    place_[node] = ++count_;
    const auto known = known_.find(node);
    newest_[count_] = {node, event, known != known_.end() && known->second.event < event ? known->second.seen : 0};
  }
  // Calls f(node, event) for the releases that the node has to follow and has not seen yet. Those that another one of
  // them follows are left out.
  template <typename F>
  void acquire(uint32_t node, uint64_t event, F f) {
    Known& known = known_[node];
    uint64_t covered = known.seen;
    for (auto at = newest_.rbegin(); at != newest_.rend() && at->first > covered; ++at) {
      if (at->second.node == node) continue;
      f(at->second.node, at->second.event);
      covered = std::max(covered, at->second.covers);
    }
    known = {event, count_};
  }

 private:
  struct Release {
    uint32_t node;
    uint64_t event;
    uint64_t covers;  // number of the last release that an earlier event of the node follows
  };
  struct Known {
    uint64_t event = 0, seen = 0;  // the node's last acquire, and the number of the last release before it
  };
  uint64_t count_ = 0;
  std::map<uint64_t, Release> newest_;            // by number
  std::unordered_map<uint32_t, uint64_t> place_;  // node -> number of its last release
  std::unordered_map<uint32_t, Known> known_;     // by node
};

}  // namespace

// Orders uses of shared objects. A read of a file follows the last write to that inode by every other node of the host.
// An acquire of a lock, or a receive from a queue, follows the last release, or send, by every other node.
void Matcher::match_shared() {
  struct Access {
    uint32_t host, node;
    const SharedUse* use;
    auto key() const {
      return std::tuple(host, use->kind, use->device, use->inode, use->time, !use->lets_go, node, use->event);
    }
    bool same(const Access& other) const {
      return host == other.host && use->kind == other.use->kind && use->device == other.use->device &&
             use->inode == other.use->inode;
    }
  };
  std::vector<Access> all;
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot)
    for (const SharedUse& use : facts_.nodes[slot].uses)
      if (use.inode != 0) all.push_back({facts_.nodes[slot].host, slot, &use});
  std::ranges::sort(all, {}, &Access::key);
  for (size_t begin = 0, end; begin < all.size(); begin = end) {
    end = begin + 1;
    bool shared = false;
    for (; end < all.size() && all[end].same(all[begin]); ++end) shared |= all[end].node != all[begin].node;
    if (!shared) continue;
    LastReleases last;
    for (size_t n = begin; n < end; ++n) {
      const Access& access = all[n];
      if (access.use->lets_go) {
        last.let_go(access.node, access.use->event);
        continue;
      }
      last.acquire(access.node, access.use->event, [&](uint32_t from, uint64_t event) {
        add(from, event, access.node, access.use->event, kind_of(access.use->kind));
      });
    }
  }
}

// Processes that share memory run in turns: every event of a turn precedes every event of the next turn. Events that a
// process recorded before its own next turn belong to its previous one, including the entry of the call that ended the
// turn (core/shim/token_group.cc).
void Matcher::match_turns() {
  struct Turn {
    uint64_t sharing;
    uint32_t group;
    uint64_t turn;
    uint32_t node;
    uint64_t first, end;  // range of the turn's events
    auto key() const { return std::tuple(sharing, group, turn); }
  };
  std::vector<Turn> all;
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) {
    const NodeFacts& node = facts_.nodes[slot];
    for (size_t n = 0; n < node.turns.size(); ++n) {
      const TurnFact& turn = node.turns[n];
      all.push_back({node.sharing, turn.group, turn.turn, slot, turn.first,
                     n + 1 < node.turns.size() ? node.turns[n + 1].first : node.times.size()});
    }
  }
  std::erase_if(all, [](const Turn& turn) { return turn.first >= turn.end; });
  std::ranges::stable_sort(all, {}, &Turn::key);
  for (size_t n = 1; n < all.size(); ++n) {
    const Turn& before = all[n - 1];
    const Turn& next = all[n];
    if (before.sharing != next.sharing || before.group != next.group) continue;
    add(before.node, before.end - 1, next.node, next.first, EdgeKind::turn);
  }
  // When a group joins another group, its processes continue in turns of the other group, after everything that the
  // joined group did on its own.
  for (uint32_t slot = 0; slot < facts_.nodes.size(); ++slot) {
    const NodeFacts& node = facts_.nodes[slot];
    for (const TurnFact& join : node.joins) {
      const auto next = std::ranges::upper_bound(all, std::tuple(node.sharing, join.group, join.turn), {}, &Turn::key);
      if (join.first && next != all.end() && next->sharing == node.sharing && next->group == join.group)
        add(slot, join.first - 1, next->node, next->first, EdgeKind::turn);
    }
  }
}

void Matcher::align() {
  auto hosts = static_cast<uint32_t>(facts_.clocks.size());
  // Host 0's clock is the reference line. Wall clocks only place hosts that no messages connect to it, and fix the
  // line's zero.
  std::vector<int64_t> wall(hosts), fallback(hosts);
  for (uint32_t slot = static_cast<uint32_t>(facts_.nodes.size()); slot-- > 0;) {
    const NodeFacts& node = facts_.nodes[slot];
    if (node.times.empty()) continue;
    uint64_t ticks = node.times.front().entry;
    wall[node.host] = facts_.clocks[node.host].realtime_ns(ticks) - facts_.clocks[node.host].monotonic_ns(ticks);
  }
  for (uint32_t host = 0; host < hosts; ++host) fallback[host] = wall[host] - wall[0];
  result_.hosts = align_hosts(hosts, cross_, fallback);
  for (HostAlignment& host : result_.hosts) host.map = LinearMap{0, wall[0], 1}.after(host.map);
}

Matches Matcher::run() {
  match_forks();
  match_parts();
  match_execs();
  match_waits();
  match_signals();
  match_shared();
  match_turns();
  match_socketpairs();
  match_pipes();
  match_unix_streams();
  match_inet_streams();
  bool many_hosts = facts_.clocks.size() > 1;
  if (many_hosts) match_datagrams(Purpose::learn_by_address);
  // Content alone is weak evidence. It is more reliable once the addresses have aligned the clocks.
  align();
  by_ = MatchedBy::content;
  match_translated();
  if (many_hosts) {
    align();
    match_datagrams(Purpose::learn_by_content);
    align();
  }
  match_datagrams(Purpose::match);
  count_traffic();
  std::ranges::sort(result_.edges, {}, [](const Edge& edge) {
    return std::tuple(edge.to, edge.to_event, edge.from, edge.from_event, edge.kind);
  });
  return std::move(result_);
}

Matches match(const FactSet& facts) { return Matcher(facts).run(); }

}  // namespace friday
