// Matches connections between Unix sockets. Only names and times are sure: both ends have the listener's name, and a
// listening socket's queue is first in, first out. The same name may be bound again, and may be that of another file in
// another directory, container or network namespace. The kernel tells each end the process at the other one
// (SO_PEERCRED); where a recording does not have that and several listeners had the name at the time of the connect,
// only contents prove which of them it was.
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/trace/matcher.h"

namespace friday {

using namespace format;

namespace {

bool is_path(const std::string& name) { return name.empty() || name[0] != 0; }

// What two names of one socket have in common: of a path, which may be relative, the last component.
std::string common_name(const std::string& name) { return is_path(name) ? name.substr(name.rfind('/') + 1) : name; }

// Whether names can be those of one socket. A relative one is known to be in any directory.
bool same_name(const std::string& a, const std::string& b) {
  if (a == b) return true;
  auto ends = [](const std::string& whole, const std::string& end) {
    return is_path(whole) && is_path(end) && !end.starts_with('/') && whole.ends_with("/" + end);
  };
  return ends(a, b) || ends(b, a);
}

// Whether the name says by itself which socket it is of.
bool is_whole(const std::string& name) { return !is_path(name) || name.starts_with('/'); }

// A listening socket, with the processes that held it, and the times between which it can have accepted.
struct Listener {
  uint32_t host;
  std::string name;
  std::set<uint32_t> pids;
  uint64_t first = ~uint64_t{0}, last = 0;
};

class Listeners {
 public:
  explicit Listeners(const FactSet& facts) : facts_(facts) {
    for (uint32_t index = 0; index < facts.channels.size(); ++index) {
      const Channel& channel = facts.channel(index);
      if (channel.domain != AF_UNIX || channel.kind != kChannelListen) continue;
      const NodeFacts& holder = facts.nodes[channel.node];
      Listener& listener = all_[socket(index)];
      const uint64_t end = channel.gone_event != kNoEvent ? channel.gone_time
                           : holder.times.empty()         ? 0
                                                          : holder.times.back().back;
      listener.host = holder.host;
      if (listener.name.empty()) listener.name = channel.local.name;
      listener.pids.insert(holder.pid);
      listener.first = std::min(listener.first, channel.first_time);
      listener.last = std::max(listener.last, end);
    }
    for (const auto& [socket, listener] : all_)
      by_name_[{listener.host, common_name(listener.name)}].push_back(&listener);
  }
  const Listener* of(const StreamEnd& acceptor) const {
    const auto known = acceptor.listener == kNoChannel ? sockets_.end() : sockets_.find(root(acceptor.listener));
    return known == sockets_.end() ? nullptr : &all_.at(known->second);
  }
  // Whether a connection may as well have been requested of another listener.
  bool has_rival(const Listener& listener, const StreamEnd& initiator) const {
    return has_other(&listener, initiator, [](const Listener&) { return true; });
  }
  // Whether a process with this pid held another listener of which a connection may have been requested.
  bool holds_another(uint32_t pid, const Listener* listener, const StreamEnd& initiator) const {
    return has_other(listener, initiator, [&](const Listener& other) { return other.pids.contains(pid); });
  }
  static bool accepts(const Listener& listener, const StreamEnd& initiator) {
    return initiator.connect_back >= listener.first && initiator.connect_time <= listener.last;
  }

 private:
  template <typename F>
  bool has_other(const Listener* listener, const StreamEnd& initiator, F f) const {
    const auto named = by_name_.find({facts_.nodes[initiator.node].host, common_name(initiator.remote.name)});
    return named != by_name_.end() && std::ranges::any_of(named->second, [&](const Listener* other) {
             return other != listener && same_name(other->name, initiator.remote.name) && accepts(*other, initiator) &&
                    f(*other);
           });
  }
  uint32_t root(uint32_t channel) const {
    while (facts_.channel(channel).inherited_from != kNoChannel) channel = facts_.channel(channel).inherited_from;
    return channel;
  }
  // The socket that a channel is a view of. One that was passed on, by execve or in a message, has the same inode in
  // all processes.
  uint32_t socket(uint32_t channel) {
    const uint32_t first = root(channel);
    auto [place, is_new] = sockets_.try_emplace(first, first);
    const Channel& opened = facts_.channel(channel);
    if (is_new && opened.inode)
      place->second =
          by_inode_.try_emplace({facts_.nodes[opened.node].host, opened.device, opened.inode}, first).first->second;
    return place->second;
  }

  const FactSet& facts_;
  std::map<uint32_t, uint32_t> sockets_;  // by the channel that opened it
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, uint32_t> by_inode_;
  std::map<uint32_t, Listener> all_;  // by socket
  std::map<std::pair<uint32_t, std::string>, std::vector<const Listener*>> by_name_;
};

// The ends that requested connections, by host and by what they call the listener.
class Initiators {
 public:
  void add(uint32_t host, StreamEnd& end) {
    const std::string& name = end.remote.name;
    all_[{host, common_name(name)}].ends.push_back(&end);
    if (is_whole(name)) whole_[{host, name}].ends.push_back(&end);
    else relative_[{host, common_name(name)}].ends.push_back(&end);
  }
  void sort() {
    for (auto* queues : {&all_, &whole_, &relative_})
      for (auto& [name, queue] : *queues) std::ranges::stable_sort(queue.ends, {}, &StreamEnd::connect_time);
  }
  // Calls f for those that are not joined and may have meant the acceptor's listener, by time, as long as it returns
  // true. Of whole names only equal ones are looked at.
  template <typename F>
  void each(uint32_t host, const StreamEnd& acceptor, F f) {
    const std::string& name = acceptor.local.name;
    EndQueue none;
    EndQueue& whole = is_whole(name) ? at(whole_, {host, name}, none) : none;
    EndQueue& others = at(is_whole(name) ? relative_ : all_, {host, common_name(name)}, none);
    size_t n = whole.next(0), m = others.next(0);
    while (n < whole.ends.size() || m < others.ends.size()) {
      const bool first = m == others.ends.size() ||
                         (n < whole.ends.size() && whole.ends[n]->connect_time <= others.ends[m]->connect_time);
      StreamEnd& initiator = first ? *whole.ends[n] : *others.ends[m];
      if (initiator.connect_time > acceptor.accept_time) return;
      if (same_name(initiator.remote.name, name) && !f(initiator)) return;
      if (first) n = whole.next(n + 1);
      else m = others.next(m + 1);
    }
  }

 private:
  using Queues = std::map<std::pair<uint32_t, std::string>, EndQueue>;
  static EndQueue& at(Queues& queues, const Queues::key_type& key, EndQueue& none) {
    const auto found = queues.find(key);
    return found == queues.end() ? none : found->second;
  }
  Queues all_, whole_, relative_;
};

// In the order of their weight.
enum class Proof { against, none, by_client, by_process };

// What SO_PEERCRED says of two ends. The client is told who called listen(2), which need not be who accepts: a listener
// may be inherited, or passed to another process, by one that was not recorded. So this only speaks against a listener
// where it was a process that held another one. Pids of several namespaces cannot be compared: where the server fits
// and the client does not, they are equal by chance, and where neither fits nothing is known.
Proof proof_of(const FactSet& facts, const Listeners& listeners, const StreamEnd& initiator, const StreamEnd& acceptor,
               const Listener* listener) {
  if (!acceptor.peer_pid || !initiator.peer_pid) return Proof::none;
  const bool client_fits = acceptor.peer_pid == facts.nodes[initiator.connect_node].pid;
  const bool server_fits = listener ? listener->pids.contains(initiator.peer_pid)
                                    : initiator.peer_pid == facts.nodes[acceptor.accept_node].pid;
  if (server_fits) return client_fits ? Proof::by_process : Proof::against;
  if (!client_fits) return Proof::none;
  return listeners.holds_another(initiator.peer_pid, listener, initiator) ? Proof::against : Proof::by_client;
}

}  // namespace

void Matcher::match_unix_streams() {
  const Listeners listeners(facts_);
  Initiators initiators;
  std::vector<StreamEnd*> accepted;
  for (StreamEnd& end : ends_) {
    if (facts_.channel(end.channels.front()).domain != AF_UNIX || end.joined) continue;
    if (end.is_initiator()) initiators.add(facts_.nodes[end.node].host, end);
    else if (end.is_acceptor()) accepted.push_back(&end);
  }
  initiators.sort();
  std::ranges::stable_sort(accepted, {}, &StreamEnd::accept_time);
  for (StreamEnd* acceptor : accepted) {
    const Listener* listener = listeners.of(*acceptor);
    StreamEnd* found = nullptr;
    Proof best = Proof::none, strongest = Proof::none;  // of the one found, and of all
    size_t tried = 0;
    initiators.each(facts_.nodes[acceptor->node].host, *acceptor, [&](StreamEnd& initiator) {
      if (listener && !Listeners::accepts(*listener, initiator)) return true;
      const Proof proof = proof_of(facts_, listeners, initiator, *acceptor, listener);
      if (proof == Proof::against || (found && proof <= best)) return true;
      strongest = std::max(strongest, proof);
      if (++tried > kMostEnds) return false;
      const Verdict verdict = follow_both(initiator, *acceptor, kProbeBytes);
      const bool named = proof == Proof::by_process || !listener || !listeners.has_rival(*listener, initiator);
      if (!verdict.fits || (!named && verdict.verified < kLeastStream)) return true;
      found = &initiator;
      best = proof;
      return best != Proof::by_process;
    });
    if (found && best == strongest) join(*found, *acceptor);
  }
}

}  // namespace friday
