// Everything that matching and logical time need from the traces, collected in one checked pass: when each event took
// place, the channels and the bytes that moved through them, and the calls that connect processes (fork, wait,
// signals).
//
// Times are the host's ticks. A call is an interval: its outgoing effects take place at its entry, its incoming effects
// at its return. A call during which the thread released the token has two events, kRelease for the entry and kReturn
// for the return. Events within a node are totally ordered, so intervals are widened to be monotonic: if a call
// returned while another thread held the token, its return counts from the moment at which the node recorded it.
//
// Nodes and channels are indices here (node slots, indices into FactSet::channels), not ids.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/trace/address.h"
#include "core/trace/clock.h"
#include "core/trace/payload.h"
#include "core/trace/reader.h"

namespace friday {

inline constexpr uint64_t kNoEvent = ~uint64_t{0};
inline constexpr uint32_t kNoChannel = ~uint32_t{0};

struct EventTime {
  uint64_t entry;
  uint64_t back : 63;     // when the call returned
  uint64_t outgoing : 1;  // the event takes effect at its entry, not at its return
  uint64_t point() const { return outgoing ? entry : back; }
};
static_assert(sizeof(EventTime) == 16);

struct Transfer {
  uint64_t event;              // the event in which the call was entered (for sends) or returned (for receives)
  uint64_t time;               // ticks of that event
  uint64_t entered, returned;  // ticks of the call itself, not widened
  uint64_t offset, hash;
  uint64_t record;  // offset in the trace of the event whose record holds the payload
  uint64_t length;  // in bytes; for a datagram its full length, even if the receiver's buffer was shorter
  uint32_t part;    // which transfer of the event, from 0
  uint32_t thread;
  uint16_t flags;  // format::TransferFlag
  // PayloadKnown::length: nothing is known of the contents (as with sendfile), and `hash` is that of the transfer
  // before.
  bool is_unseen;
  uint32_t peer;  // index in FactSet::addresses; 0 if the call named no peer
};

// What a process learned of the end of a connection, and when.
struct EndSeen {
  uint64_t event, time;
};

struct Channel {
  uint32_t node;    // node slot
  uint64_t number;  // the channel's number in its trace
  uint32_t kind = 0, domain = 0, socket_type = 0;
  uint64_t device = 0, inode = 0;
  Address local, remote;
  uint64_t first_event = 0;
  uint64_t first_time = 0;
  uint64_t connect_event = kNoEvent, accept_event = kNoEvent;
  uint64_t connect_time = 0, accept_time = 0;
  uint64_t connect_back = 0;        // when connect(2) had returned
  uint32_t listener = kNoChannel;   // the channel from which the connection was accepted
  uint32_t peer_pid = 0;            // of a Unix socket: the process at the other end as this one sees it, if known
  uint64_t close_event = kNoEvent;  // when the last descriptor was closed, or writing was shut down
  uint64_t close_time = 0;
  uint64_t gone_event = kNoEvent;  // when the last descriptor was closed
  uint64_t gone_time = 0;
  std::vector<EndSeen> ends;             // receives that found the end of the stream
  std::vector<EndSeen> breaks;           // calls that failed as the other end was gone (ECONNRESET, EPIPE)
  uint32_t inherited_from = kNoChannel;  // for a forked child: the parent's channel that it inherited
  uint32_t twin = kNoChannel;            // for a socketpair: the channel of its other end
  uint64_t out_seed = 0;                 // hash state before the first transfer of `out`
  uint64_t in_base = 0, out_base = 0;    // bytes that had moved before the trace began (Transfer::offset)
  int descriptors = 0;
  bool may_broadcast = false;  // SO_BROADCAST was set
  bool can_write = false;      // according to the mode in which it was opened
  std::vector<Transfer> out, in;

  bool is_stream() const { return kind == format::kChannelStream; }
  bool is_datagram() const { return kind == format::kChannelDatagram || kind == format::kChannelSeqpacket; }
};

// A use of an object that processes of one host synchronise through: one writes a file and another reads it, one
// unlocks a lock and another locks it. A release (write, unlock) takes effect at the entry of its call, an acquire
// (read, lock) at the return.
enum class Shared : uint32_t { file, lock, semaphore, eventfd, queue };
struct SharedUse {
  Shared kind;
  uint64_t device, inode;  // of the file; for other kinds `inode` is the object's number
  uint64_t event, time;
  bool lets_go;  // true for a release, false for an acquire
};

struct ForkFact {
  uint64_t event;
  Uuid child;
};
struct KillFact {
  uint64_t event, time;
  int64_t target;  // as passed to kill(2): a pid, a tid, or a process group (<= 0)
  int signal;
};
struct SignalFact {
  uint64_t event, time;
  int signal, code;
  uint32_t sender;
};
// From event `first` on, the process held the token of token group `group`, in turn `turn` of that group.
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
  uint32_t host = 0;  // index in FactSet::clocks
  uint32_t pid = 0;
  Uuid uuid{};
  // Name of the oldest ancestor. It tells apart equal pids of several containers on one host.
  std::string family;
  std::string cwd;                // where it was started; relative to where `friday record` was
  bool replaced = false;          // the node ended by execve
  std::optional<Uuid> continues;  // the node of which this one is the next part
  std::vector<EventTime> times;
  std::vector<SharedUse> uses;
  std::vector<ForkFact> forks;
  std::vector<KillFact> kills;
  std::vector<SignalFact> signals;
  std::vector<WaitFact> waits;
  uint64_t sharing = 0;         // key of the recording's shared state: group numbers are unique within one value of it
  std::vector<TurnFact> turns;  // in order
  std::vector<TurnFact> joins;  // all events before `first` precede the group's turns after `turn`
  std::vector<uint32_t> threads;  // thread ids seen, to resolve the target of tgkill(2)
};

struct FactSet {
  std::vector<NodeFacts> nodes;
  std::vector<TraceReader> readers;  // indexed by node slot
  std::deque<Channel> channels;      // a deque, so that references stay valid while it grows
  std::vector<HostClock> clocks;     // indexed by host slot
  std::vector<Address> addresses{Address{}};
  PayloadProvider payloads;

  // Reads the traces of `nodes`. Fails at the first damaged record.
  static Result<FactSet> gather(const Recording& recording, std::span<const NodeId> nodes);

  bool same_host(uint32_t a, uint32_t b) const { return nodes[a].host == nodes[b].host; }
  const Channel& channel(uint32_t index) const { return channels[index]; }
  PayloadAnswer payload(const Channel& channel, const Transfer& transfer) const;
};

// A host is one boot of a machine. If its nodes recorded different kinds of ticks, converts all of them to
// CLOCK_MONOTONIC. It is a step of gather(), after all traces are read.
void unify_clock_kinds(FactSet& set, uint32_t host);

}  // namespace friday
