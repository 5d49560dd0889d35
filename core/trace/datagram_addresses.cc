#include "core/trace/datagram_addresses.h"

#include <sys/socket.h>

#include <algorithm>

#include "core/trace/matcher.h"

namespace friday {

namespace {

bool is_open(const Address& local) { return !local.known() || local.is_wildcard(); }

}  // namespace

SocketAddresses::SocketAddresses(const FactSet& facts, std::span<const StreamEnd> ends)
    : facts_(facts), socket_(facts.channels.size()), views_(facts.channels.size()) {
  for (uint32_t index = 0; index < socket_.size(); ++index) {
    socket_[index] = index;
    views_[index] = std::span(&socket_[index], 1);
  }
  for (const StreamEnd& end : ends)
    for (uint32_t index : end.channels) {
      socket_[index] = end.channels.front();
      views_[index] = end.channels;
    }
  auto note = [&](const Address& address) {
    if (address.family == AF_INET && !address.is_wildcard()) of_one_.insert(address.name);
  };
  for (uint32_t index = 0; index < facts.channels.size(); ++index) {
    const Channel& channel = facts.channel(index);
    if (channel.is_stream()) note(channel.local);
    if (!channel.is_datagram()) continue;
    if (!is_open(channel.local) && channel.local.is_inet()) learn(index, channel.local);
    for (const Transfer& transfer : channel.in) note(facts.addresses[transfer.peer]);
  }
}

SocketAddresses::Place SocketAddresses::place(uint32_t channel, const Address& address) const {
  return {address, address.is_loopback() ? facts_.nodes[facts_.channel(channel).node].host + 1 : 0};
}

bool SocketAddresses::has(uint32_t channel, const Address& address) const {
  const auto known = addresses_.find(socket_[channel]);
  return known != addresses_.end() && known->second.contains(address);
}

void SocketAddresses::learn(uint32_t channel, const Address& address) {
  if (!address.known() || !address.is_inet() || address.is_wildcard()) return;
  addresses_[socket_[channel]].insert(address);
  owners_[place(channel, address)].insert(socket_[channel]);
}

const std::set<uint32_t>& SocketAddresses::owners(uint32_t channel, const Address& address) const {
  static const std::set<uint32_t> none;
  const auto found = owners_.find(place(channel, address));
  return found == owners_.end() ? none : found->second;
}

bool SocketAddresses::belongs_to_another(uint32_t channel, const Address& address) const {
  const std::set<uint32_t>& all = owners(channel, address);
  if (all.empty() || all.contains(socket_[channel])) return false;
  const Channel& socket = facts_.channel(channel);
  return socket.socket_type != SOCK_RAW || std::ranges::none_of(all, [&](uint32_t owner) {
           return facts_.same_host(facts_.channel(owner).node, socket.node);
         });
}

SocketAddresses::Fit SocketAddresses::fit(uint32_t channel, const Address& address) const {
  const Address& local = facts_.channel(channel).local;
  if (!could_equal(local, address)) return Fit::none;
  if (!address.known() || !address.is_inet() || address.is_wildcard() || !is_open(local) || has(channel, address))
    return Fit::sure;
  // A machine has loopback addresses beside its others; of each kind a socket rarely has two that nothing reveals.
  if (const auto known = addresses_.find(socket_[channel]); known != addresses_.end())
    if (std::ranges::any_of(known->second,
                            [&](const Address& own) { return own.is_loopback() == address.is_loopback(); }))
      return Fit::none;
  return Fit::possible;
}

SocketAddresses::Fit SocketAddresses::fit_destination(uint32_t channel, const Address& address) const {
  const Fit found = fit(channel, address);
  return found == Fit::possible && !belongs_to_another(channel, address) ? Fit::sure : found;
}

bool SocketAddresses::is_neighbour(uint32_t channel, const Address& address) const {
  const auto known = addresses_.find(socket_[channel]);
  return known != addresses_.end() && std::ranges::any_of(known->second, [&](const Address& own) {
           return own.family == address.family && own.name == address.name && own.port != address.port;
         });
}

bool SocketAddresses::is_many(uint32_t channel, const Address& address) const {
  if (address.is_many()) return true;
  // The smallest subnet that has a broadcast address leaves two bits for it (RFC 3021).
  return address.family == AF_INET && address.name.size() == 4 && (address.name[3] & 3) == 3 &&
         facts_.channel(channel).may_broadcast && !of_one_.contains(address.name);
}

}  // namespace friday
