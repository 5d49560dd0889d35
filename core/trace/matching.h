// Finds what caused what between nodes, after recording and without anything carried on the wire: which receive got
// which sent bytes, which accept answered which connect, which wait saw which exit. docs/architecture.md (logical time)
// tells the rules; the short form:
//   streams     two channels whose endpoints are each other's; bytes by position, checked by the sender's hash chain
//   datagrams   ports, addresses, length and hash; to the earliest send not matched yet
//   no address  (NAT, balancers) by content and time
// A receive without a match is a local tick: its peer was not recorded. Choosing a send too early is always sound.
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
  queue
};
const char* name_of(EdgeKind kind);
inline bool is_message(EdgeKind kind) { return kind <= EdgeKind::pipe; }

// By what the two ends of a message found each other. All but `object` also agree in content.
enum class MatchedBy : uint16_t {
  object,       // one pipe, socketpair or Unix socket of a host
  address,      // each end names the other's address
  one_address,  // one end names the other's address; the other way it was not asked for, or rewritten on the way
  content,      // content and time; both addresses were rewritten (NAT, a proxy, a balancer)
};
inline constexpr size_t kMatchedByCount = 4;
const char* name_of(MatchedBy by);

// `from_event` of node `from` takes place before `to_event` of node `to`.
struct Edge {
  NodeId from, to;
  uint64_t from_event, to_event;
  uint64_t bytes;     // of messages
  uint64_t earliest;  // datagrams: first identical send of that node, to fall back to; else from_event
  EdgeKind kind;
  uint16_t duplicate;  // 1: the network delivered the datagram more than once
  MatchedBy by;        // of messages
};

struct NodeTraffic {
  uint64_t sends = 0, receives = 0;                      // transfers of sockets and pipes
  uint64_t unmatched_sends = 0, unmatched_receives = 0;  // whose other side was not found in the recording
  // Of these: the other end of the connection is recorded, but not known is which of its bytes these were.
  uint64_t unplaced_sends = 0, unplaced_receives = 0;
};

struct Matches {
  std::vector<Edge> edges;           // node ids; by (to, to_event)
  std::vector<NodeTraffic> traffic;  // by node slot
  std::vector<HostAlignment> hosts;  // by host slot
};

// Also aligns the hosts' clocks, which datagrams between hosts need.
Matches match(const FactSet& facts);

}  // namespace friday
