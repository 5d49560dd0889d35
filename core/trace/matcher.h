// The parts of matching (matching.h); private to core/trace. A Matcher collects edges between node slots.
#pragma once

#include <cstdint>
#include <vector>

#include "core/trace/facts.h"
#include "core/trace/matching.h"
#include "core/trace/stream_order.h"

namespace friday {

// One end of a connection: the channel that opened it and what forked children inherited of that, seen as one.
struct StreamEnd {
  uint32_t node = 0;  // of the channel that opened it
  std::vector<uint32_t> channels;
  Address local, remote;
  uint32_t connect_node = 0, accept_node = 0;
  uint64_t connect_event = kNoEvent, connect_time = 0;
  uint64_t accept_event = kNoEvent, accept_time = 0;
  uint64_t opened = 0;  // ticks
  bool joined = false;
};

class Matcher {
 public:
  explicit Matcher(const FactSet& facts);
  Matches run();

 private:
  // matching.cc: ties between processes, and files.
  void match_forks();
  void match_execs();
  void match_waits();
  void match_signals();
  void match_shared();
  void match_turns();
  void align();
  void count_traffic();

  // matching_streams.cc: connections, pipes, socketpairs.
  struct Verdict {
    bool fits = true;
    uint64_t verified = 0;  // bytes whose hash was found right
  };
  void gather_ends();
  void match_socketpairs();
  void match_pipes();
  void match_inet_streams();
  void match_unix_streams();
  void match_translated();
  int64_t opened_ns(const StreamEnd& end) const;
  // How the bytes that `from` sent lie in those that `to` received, at most `limit` of them; `to_the_end`: also behind
  // what contradicts.
  StreamOrder follow(const StreamEnd& from, const StreamEnd& to, uint64_t limit, bool to_the_end) const;
  void take_over(const StreamOrder& order, EdgeKind kind);
  Verdict follow_both(const StreamEnd& a, const StreamEnd& b, uint64_t limit) const;
  void follow_packets(const StreamEnd& from, const StreamEnd& to);
  bool opened_in_order(const StreamEnd& a, const StreamEnd& b) const;
  void join(StreamEnd& a, StreamEnd& b);
  void end_of_stream(const StreamEnd& from, const StreamEnd& to);

  // matching_datagrams.cc. To learn is only to note unambiguous messages between hosts for align(), by address and
  // between hosts that nothing relates by content; to match adds the edges.
  enum class Purpose { learn_by_address, learn_by_content, match };
  void match_datagrams(Purpose purpose);

  // Whether the nodes' times can be compared: one host, or hosts that messages relate.
  bool is_comparable(uint32_t a, uint32_t b) const;
  bool may_precede(uint32_t from_node, uint64_t from_time, uint32_t to_node, uint64_t to_time) const;
  int64_t reference_ns(uint32_t node, uint64_t ticks) const;
  void add(uint32_t from, uint64_t from_event, uint32_t to, uint64_t to_event, EdgeKind kind, uint64_t bytes = 0,
           uint64_t earliest = kNoEvent, bool duplicate = false);
  void note_cross(uint32_t from, uint64_t from_time, uint32_t to, uint64_t to_time);

  const FactSet& facts_;
  Matches result_;
  std::vector<StreamEnd> ends_;
  std::vector<bool> taken_;  // by channel: its other end is known by connection, not by address
  std::vector<uint64_t> matched_sends_, matched_receives_;  // by node slot
  std::vector<CrossMessage> cross_;                         // messages between hosts that are certain
  MatchedBy by_ = MatchedBy::object;                        // of the edges added now
};

}  // namespace friday
