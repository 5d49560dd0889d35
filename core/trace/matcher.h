// The implementation class of matching (matching.h); private to core/trace. A Matcher collects edges between node
// slots.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/facts.h"
#include "core/trace/matching.h"
#include "core/trace/open_list.h"
#include "core/trace/stream_order.h"

namespace friday {

inline constexpr uint64_t kProbeBytes = 64 << 10;  // enough to tell two connections apart
inline constexpr uint64_t kLeastStream = 16;       // this many bytes must agree before content alone counts as proof
// How many candidates are compared for one end of a connection.
inline constexpr size_t kMostEnds = 1000;

// One end of a connection: the channel that opened it, together with the channels that forked children inherited from
// it.
struct StreamEnd {
  uint32_t node = 0;  // node slot of the channel that opened the connection
  std::vector<uint32_t> channels;
  Address local, remote;
  uint32_t connect_node = 0, accept_node = 0;
  uint64_t connect_event = kNoEvent, connect_time = 0, connect_back = 0;
  uint64_t accept_event = kNoEvent, accept_time = 0;
  uint64_t opened = 0;             // ticks
  uint32_t listener = kNoChannel;  // from which it was accepted
  uint32_t peer_pid = 0;
  bool is_initiator() const { return connect_event != kNoEvent; }
  bool is_acceptor() const { return accept_event != kNoEvent; }
  bool joined = false;
};

// Ends that may belong to one connection, in the order of their times. Those that are joined are passed over.
class EndQueue {
 public:
  std::vector<StreamEnd*> ends;
  // The first one at or after `n` that is not joined; the number of ends if there is none.
  size_t next(size_t n) {
    open_.resize(ends.size());
    while ((n = open_.next(n)) < ends.size() && ends[n]->joined) open_.close(n);
    return n;
  }

 private:
  OpenList open_;
};

class Matcher {
 public:
  explicit Matcher(const FactSet& facts);
  Matches run();

 private:
  friend class DatagramMatcher;  // matching_datagrams.cc

  // matching.cc: ties between processes, and files.
  void match_forks();
  void match_parts();
  void match_execs();
  void match_waits();
  void match_signals();
  void match_shared();
  void match_turns();
  void align();
  void count_traffic();

  // matching_unix.cc: connections between Unix sockets.
  void match_unix_streams();

  // matching_streams.cc: connections, pipes, socketpairs.
  // Whether the two ends of a candidate connection fit together.
  struct Verdict {
    bool fits = true;
    uint64_t verified = 0;  // bytes whose hash agreed on both sides
  };
  void gather_ends();
  void match_socketpairs();
  void match_pipes();
  void match_inet_streams();
  void match_translated();
  int64_t opened_ns(const StreamEnd& end) const;
  // Determines how the bytes that `from` sent correspond to those that `to` received, for at most `limit` bytes. With
  // `to_the_end` the search continues after a contradiction.
  StreamOrder follow(const StreamEnd& from, const StreamEnd& to, uint64_t limit, bool to_the_end) const;
  void take_over(const StreamOrder& order, EdgeKind kind);
  Verdict follow_both(const StreamEnd& a, const StreamEnd& b, uint64_t limit) const;
  void follow_packets(const StreamEnd& from, const StreamEnd& to);
  bool opened_in_order(const StreamEnd& a, const StreamEnd& b) const;
  void join(StreamEnd& a, StreamEnd& b);
  void end_of_stream(const StreamEnd& from, const StreamEnd& to, std::vector<EndSeen> Channel::*seen);
  bool end_seen(uint32_t from, const EndSeen& end, uint32_t to, const std::vector<EndSeen>& seen);

  // Datagrams are matched in three passes. The two learning passes only note unambiguous messages between hosts for
  // align(): first by address, then by content between hosts that no message connects yet. The last pass adds the
  // edges.
  enum class Purpose { learn_by_address, learn_by_content, match };
  void match_datagrams(Purpose purpose);

  // Whether times of the two nodes can be compared: they ran on the same host, or messages connect their hosts.
  bool is_comparable(uint32_t a, uint32_t b) const;
  bool may_precede(uint32_t from_node, uint64_t from_time, uint32_t to_node, uint64_t to_time) const;
  int64_t reference_ns(uint32_t node, uint64_t ticks) const;
  void add(uint32_t from, uint64_t from_event, uint32_t to, uint64_t to_event, EdgeKind kind, uint64_t bytes = 0,
           uint64_t earliest = kNoEvent, bool duplicate = false, const MessagePlace& place = {}, bool peek = false);
  void note_cross(uint32_t from, uint64_t from_time, uint32_t to, uint64_t to_time);

  const FactSet& facts_;
  Matches result_;
  std::vector<StreamEnd> ends_;
  std::vector<bool>
      taken_;  // by channel index: the other end is known from the connection, so addresses need not be compared
  std::vector<uint64_t> matched_sends_, matched_receives_;  // how many transfers were matched, by node slot
  std::vector<CrossMessage> cross_;                         // messages between hosts whose match is certain
  MatchedBy by_ = MatchedBy::object;                        // how the edges that are being added were found
};

}  // namespace friday
