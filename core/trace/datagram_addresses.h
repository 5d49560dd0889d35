// What is known of the addresses of datagram sockets; private to matching. A socket that is bound to the wildcard
// address does not know its own addresses, but those who hear from it do. Knowledge comes from the addresses that
// sockets were bound to, and from messages whose other end is certain. It belongs to one pass of matching datagrams.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/trace/facts.h"

namespace friday {

struct StreamEnd;

class SocketAddresses {
 public:
  // `ends`: all sockets, each with the channels by which processes share it.
  SocketAddresses(const FactSet& facts, std::span<const StreamEnd> ends);

  // How well an address fits a socket.
  enum class Fit {
    none,      // the socket has other addresses
    possible,  // nothing is known of the socket's own address, or another socket has this one
    sure       // it is the socket's own, or there is no address to compare
  };
  Fit fit(uint32_t channel, const Address& address) const;
  // As fit(), for the destination of a datagram: where no socket has the address, any that may have it is as good.
  Fit fit_destination(uint32_t channel, const Address& address) const;
  void learn(uint32_t channel, const Address& address);

  // Whether a socket has the address, and this one has not. A loopback address is looked for on the socket's host. Raw
  // sockets of a machine have its addresses in common: each gets a copy of what comes for their protocol (raw(7)).
  bool belongs_to_another(uint32_t channel, const Address& address) const;
  // The sockets that are known to have an address that the channel sees.
  const std::set<uint32_t>& owners(uint32_t channel, const Address& address) const;
  // Whether the address is one of the socket's machine, with the port of another socket.
  bool is_neighbour(uint32_t channel, const Address& address) const;
  // Whether datagrams from the socket to the address go to many: a multicast address, or a broadcast address of a
  // subnet. The kernel lets only a socket with SO_BROADCAST send to the latter, and nobody sends from it.
  bool is_many(uint32_t channel, const Address& address) const;

  // The socket that the channel is a view of; the same for a parent and the child that has inherited it.
  uint32_t socket(uint32_t channel) const { return socket_[channel]; }
  // All channels that are views of that socket.
  std::span<const uint32_t> views(uint32_t channel) const { return views_[channel]; }

 private:
  using Place = std::pair<Address, uint32_t>;  // of a loopback address: with its host
  Place place(uint32_t channel, const Address& address) const;
  bool has(uint32_t channel, const Address& address) const;

  const FactSet& facts_;
  std::vector<uint32_t> socket_;                     // by channel
  std::vector<std::span<const uint32_t>> views_;     // by channel
  std::map<uint32_t, std::set<Address>> addresses_;  // by socket
  std::map<Place, std::set<uint32_t>> owners_;
  std::set<std::string> of_one_;  // IPv4 addresses that are one machine's, since something came from there
};

}  // namespace friday
