// Matches connections between Unix sockets. Only names and times are sure: both ends have the listener's name, and a
// listening socket's queue is first in, first out. The same name may be bound again, and may be that of another file in
// another directory, container or network namespace. The kernel tells each end the process at the other one
// (SO_PEERCRED); where a recording does not have that and several listeners had the name at the time of the connect,
// only contents prove which of them it was.
#include <sys/socket.h>

#include <algorithm>
#include <map>

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

// A listening socket, with the times between which it can have accepted.
struct Listener {
  uint32_t node;
  std::string name;
  uint64_t first = ~uint64_t{0}, last = 0;
};

class Listeners {
 public:
  explicit Listeners(const FactSet& facts) : facts_(facts) {
    for (uint32_t index = 0; index < facts.channels.size(); ++index) {
      const Channel& channel = facts.channel(index);
      if (channel.domain != AF_UNIX || channel.kind != kChannelListen) continue;
      const uint32_t socket = root(index);
      auto [place, is_new] = all_.try_emplace(socket, Listener{facts.channel(socket).node, channel.local.name});
      const std::vector<EventTime>& times = facts.nodes[channel.node].times;
      const uint64_t end = channel.gone_event != kNoEvent ? channel.gone_time : times.empty() ? 0 : times.back().back;
      place->second.first = std::min(place->second.first, channel.first_time);
      place->second.last = std::max(place->second.last, end);
      if (is_new) by_name_[key(place->second)].push_back(socket);
    }
  }
  const Listener* of(const StreamEnd& acceptor) const {
    const auto found = acceptor.listener == kNoChannel ? all_.end() : all_.find(root(acceptor.listener));
    return found == all_.end() ? nullptr : &found->second;
  }
  // Whether a connection may as well have been requested of another listener.
  bool has_rival(const Listener& listener, const StreamEnd& initiator) const {
    return std::ranges::any_of(by_name_.at(key(listener)), [&](uint32_t socket) {
      const Listener& other = all_.at(socket);
      return &other != &listener && same_name(other.name, initiator.remote.name) && accepts(other, initiator);
    });
  }
  static bool accepts(const Listener& listener, const StreamEnd& initiator) {
    return initiator.connect_back >= listener.first && initiator.connect_time <= listener.last;
  }

 private:
  using Key = std::pair<uint32_t, std::string>;
  Key key(const Listener& listener) const { return {facts_.nodes[listener.node].host, common_name(listener.name)}; }
  uint32_t root(uint32_t channel) const {
    while (facts_.channel(channel).inherited_from != kNoChannel) channel = facts_.channel(channel).inherited_from;
    return channel;
  }

  const FactSet& facts_;
  std::map<uint32_t, Listener> all_;
  std::map<Key, std::vector<uint32_t>> by_name_;
};

enum class Proof { against, none, by_process };

// What SO_PEERCRED says of two ends. Pids of several namespaces cannot be compared: where one end fits and the other
// does not, they are equal by chance, and where neither fits nothing is known.
Proof proof_of(const FactSet& facts, const StreamEnd& initiator, const StreamEnd& acceptor, const Listener* listener) {
  const uint32_t client = facts.nodes[initiator.connect_node].pid;
  const uint32_t server = facts.nodes[listener ? listener->node : acceptor.accept_node].pid;
  const bool client_fits = acceptor.peer_pid == client, server_fits = initiator.peer_pid == server;
  if (!acceptor.peer_pid || !initiator.peer_pid) return Proof::none;
  return client_fits && server_fits ? Proof::by_process : client_fits || server_fits ? Proof::against : Proof::none;
}

}  // namespace

void Matcher::match_unix_streams() {
  const Listeners listeners(facts_);
  std::map<std::pair<uint32_t, std::string>, EndQueue> connected;  // by host and the common part of the name
  std::vector<StreamEnd*> accepted;
  for (StreamEnd& end : ends_) {
    if (facts_.channel(end.channels.front()).domain != AF_UNIX || end.joined) continue;
    if (end.is_initiator()) connected[{facts_.nodes[end.node].host, common_name(end.remote.name)}].ends.push_back(&end);
    else if (end.is_acceptor()) accepted.push_back(&end);
  }
  for (auto& [name, queue] : connected) std::ranges::stable_sort(queue.ends, {}, &StreamEnd::connect_time);
  std::ranges::stable_sort(accepted, {}, &StreamEnd::accept_time);
  for (StreamEnd* acceptor : accepted) {
    const auto queue = connected.find({facts_.nodes[acceptor->node].host, common_name(acceptor->local.name)});
    if (queue == connected.end()) continue;
    const Listener* listener = listeners.of(*acceptor);
    StreamEnd* found = nullptr;
    bool proven = false, witnessed = false;
    size_t tried = 0;
    for (StreamEnd* initiator : queue->second.left()) {
      if (initiator->connect_time > acceptor->accept_time || ++tried > kMostEnds) break;
      if (initiator->joined || !same_name(initiator->remote.name, acceptor->local.name)) continue;
      if (listener && !Listeners::accepts(*listener, *initiator)) continue;
      const Proof proof = proof_of(facts_, *initiator, *acceptor, listener);
      if (proof == Proof::against || (found && proof == Proof::none)) continue;
      witnessed |= proof == Proof::by_process;
      const Verdict verdict = follow_both(*initiator, *acceptor, kProbeBytes);
      const bool named = proof == Proof::by_process || !listener || !listeners.has_rival(*listener, *initiator);
      if (!verdict.fits || (!named && verdict.verified < kLeastStream)) continue;
      found = initiator;
      proven = proof == Proof::by_process;
      if (proven) break;
    }
    if (found && proven == witnessed) join(*found, *acceptor);
  }
}

}  // namespace friday
