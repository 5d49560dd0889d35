// Finds causality between nodes from the traces alone, with nothing added to the messages on the wire: which send's
// bytes each receive got, which accept answered which connect, which wait reaped which exit. The rules are in
// docs/architecture.md (logical time); in short:
//   streams     The two channels name each other's address. Bytes correspond by position; the sender's hashes prove it.
//   datagrams   Ports, addresses, length and hash agree. The earliest unmatched send is chosen.
//   no address  (NAT, load balancers) Content and time agree.
//
// A receive without a match is a local tick: its sender was not recorded. Choosing a send that is too early never
// produces a wrong order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/ids.h"
#include "core/trace/clock.h"

namespace friday {

struct FactSet;

enum class EdgeKind : uint32_t {
  stream,
  datagram,
  pipe,
  connect,
  end_of_stream,
  fork,
  exec,
  wait,
  signal,
  file,
  turn,
  lock,
  semaphore,
  eventfd,
  queue,
  part  // a process goes on in the next part of its recording
};
const char* name_of(EdgeKind kind);
inline bool is_message(EdgeKind kind) { return kind <= EdgeKind::pipe; }

// How the two ends of a message were paired. All methods but `object` also compare contents.
enum class MatchedBy : uint8_t {
  object,       // both ends belong to the same pipe, socketpair or Unix socket of a host
  address,      // each end names the other's address
  one_address,  // one end names the other's address; the other end recorded none, or an address rewritten on the way
  content,      // by content and time; both addresses were rewritten (NAT, a proxy, a load balancer)
};
inline constexpr size_t kMatchedByCount = 4;
const char* name_of(MatchedBy by);

// Where the bytes of a message begin in the transfers of its two events.
struct MessagePlace {
  uint32_t sent_in = 0, received_in = 0;  // which transfer of the event, from 0
  uint64_t sent_at = 0, received_at = 0;  // bytes from the start of that transfer
};

// Event `from_event` of node `from` happens before event `to_event` of node `to`.
struct Edge {
  NodeId from, to;
  uint64_t from_event, to_event;
  uint64_t bytes;  // size of the message; 0 if the edge is no message
  // For datagrams: the sender's first identical send, which is used instead when this edge contradicts others.
  // Otherwise equal to from_event.
  uint64_t earliest;
  EdgeKind kind;
  uint16_t duplicate;    // 1 if the network delivered the datagram more than once
  MatchedBy by;          // meaningful for messages only
  uint8_t peek = 0;      // 1 if the receiver only looked (MSG_PEEK); what it saw is still to be received
  MessagePlace place{};  // of messages only
};
// Whether the edge is a message that was received. A message that was looked at before it was received is one message.
inline bool is_message(const Edge& edge) { return is_message(edge.kind) && !edge.peek; }

struct NodeTraffic {
  uint64_t sends = 0, receives = 0;                      // transfers through sockets and pipes
  uint64_t unmatched_sends = 0, unmatched_receives = 0;  // transfers whose other side was not found in the recording
  // Those of the unmatched transfers whose connection is recorded on both ends, but whose bytes could not be located in
  // the other end's stream.
  uint64_t unplaced_sends = 0, unplaced_receives = 0;
};

struct Matches {
  std::vector<Edge> edges;           // sorted by (to, to_event)
  std::vector<NodeTraffic> traffic;  // by node slot
  std::vector<HostAlignment> hosts;  // by host slot
};

// Finds all edges. Also aligns the clocks of the hosts, since matching datagrams between hosts needs comparable times.
Matches match(const FactSet& facts);

}  // namespace friday
