// What matching and logical time need to know of a trace, gathered in one checked walk: when each event took place, the
// channels and the bytes that moved through them, and the calls that tie processes together (fork, wait, signals).
//
// Time here is the host's ticks. A call is an interval: its outgoing effects take place at its entry, its incoming ones
// at its return. A call that let the token go has two events; then the entry is the kRelease and the return the
// kReturn. Within a node events are a total order, so intervals are widened to rise with it: the return of a call that
// came back while another thread held the token counts from when the node took it up.
//
// Node and channel are named by position here (node slots, channel numbers of FactSet), not by id.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/trace/clock.h"
#include "core/trace/endpoint.h"
#include "core/trace/reader.h"

namespace friday {

inline constexpr uint64_t kNoEvent = ~uint64_t{0};
inline constexpr uint32_t kNoChannel = ~uint32_t{0};

struct EventTime {
  uint64_t entry;
  uint64_t back : 63;     // return
  uint64_t outgoing : 1;  // takes effect at its entry rather than at its return
  uint64_t point() const { return outgoing ? entry : back; }
};
static_assert(sizeof(EventTime) == 16);

struct Transfer {
  uint64_t event;              // sends: where the call was entered; receives: where it returned
  uint64_t time;               // ticks of that
  uint64_t entered, returned;  // the call's own, whatever the node did meanwhile
  uint64_t offset, hash;
  uint64_t record;  // offset in the trace of the event that holds the payload
  uint64_t length;  // true length of a datagram
  uint32_t part;    // which transfer of that event
  uint32_t thread;
  uint16_t flags;  // format::TransferFlag
  bool is_inline;  // the payload is in the trace
  bool is_unseen;  // of its contents nothing is known: they never were in the program's memory. `hash` is that of the
                   // transfer before
  uint32_t peer;   // index in FactSet::addresses, or 0: not named by the call
};

struct Channel {
  uint32_t node;    // slot
  uint64_t number;  // in its trace
  uint32_t kind = 0, domain = 0, socket_type = 0;
  uint64_t device = 0, inode = 0;
  Address local, remote;
  uint64_t first_event = 0;
  uint64_t first_time = 0;
  uint64_t connect_event = kNoEvent, accept_event = kNoEvent;
  uint64_t connect_time = 0, accept_time = 0;
  uint64_t close_event = kNoEvent;  // last descriptor closed, or shut down for writing
  uint64_t close_time = 0;
  uint32_t inherited_from = kNoChannel;  // the parent's channel, for a forked child
  uint32_t twin = kNoChannel;            // other end of a socketpair
  uint64_t out_seed = 0;                 // hash before the first of `out`
  int descriptors = 0;
  bool can_write = false;  // as it was opened
  std::vector<Transfer> out, in;

  bool is_stream() const { return kind == format::kChannelStream; }
  bool is_datagram() const { return kind == format::kChannelDatagram || kind == format::kChannelSeqpacket; }
};

// What one node does to something that others of its host may wait for or look at: it writes and another reads, it
// unlocks and another locks. Who lets go does so at the entry of its call, who acquires at the return.
enum class Shared : uint32_t { file, lock, semaphore, eventfd, queue };
struct SharedUse {
  Shared kind;
  uint64_t device, inode;  // of the file; else the number of the object
  uint64_t event, time;
  bool lets_go;
};

struct ForkFact {
  uint64_t event;
  Uuid child;
};
struct KillFact {
  uint64_t event, time;
  int64_t target;  // pid, tid, or group (<= 0)
  int signal;
};
struct SignalFact {
  uint64_t event, time;
  int signal, code;
  uint32_t sender;
};
// The process had the token of `group` from event `first` on, in turn `turn` of the group.
struct TurnFact {
  uint32_t group;
  uint64_t turn, first;
};
struct WaitFact {
  uint64_t event, time;
  uint32_t pid, status;
};

struct NodeFacts {
  NodeId id;
  uint32_t host = 0;  // slot in FactSet::clocks
  uint32_t pid = 0;
  Uuid uuid{};
  std::string
      family;  // its first ancestor: recordings of several containers of one host have equal pids in different families
  bool replaced = false;  // ended by execve
  std::vector<EventTime> times;
  std::vector<SharedUse> uses;
  std::vector<ForkFact> forks;
  std::vector<KillFact> kills;
  std::vector<SignalFact> signals;
  std::vector<WaitFact> waits;
  uint64_t sharing = 0;           // space of the groups' numbers
  std::vector<TurnFact> turns;    // as they followed each other
  std::vector<TurnFact> joins;    // what came before `first` came before the group's turns behind `turn`
  std::vector<uint32_t> threads;  // tids seen, for tgkill
};

struct FactSet {
  std::vector<NodeFacts> nodes;
  std::vector<TraceReader> readers;  // by node slot
  std::deque<Channel> channels;      // references stay good as it grows
  std::vector<HostClock> clocks;     // by host slot
  std::vector<Address> addresses{Address{}};

  // Walks the traces of `nodes`. Fails at the first damage.
  static Result<FactSet> gather(const Recording& recording, std::span<const NodeId> nodes);

  bool same_host(uint32_t a, uint32_t b) const { return nodes[a].host == nodes[b].host; }
  const Channel& channel(uint32_t index) const { return channels[index]; }
  // The payload of a receive, in pieces that follow each other; fewer bytes than its length if it was not kept inline.
  std::vector<std::span<const std::byte>> payload(const Channel& channel, const Transfer& transfer) const;
};

}  // namespace friday
