// What the nodes and the client of the replicated store say to each other: messages of one size, over TCP. Each
// connection carries requests one way and their replies the other way.
#pragma once

#include <cstdint>

#include "../tcp/tcp.h"

namespace replicas {

using namespace apps;

enum class Kind : uint32_t {
  put,        // of a client: append `value`
  append,     // of a leader: `value`, written in `entry_term`, stands at `index`, behind an entry of `previous_term`
  heartbeat,  // of a leader: it is alive
  vote,       // of a candidate, whose log has `index` entries, the last of `previous_term`
  reply,
};

struct Message {
  Kind kind = Kind::reply;
  uint32_t from = 0;
  uint64_t term = 0;   // the sender's
  uint64_t index = 0;  // in a reply: how many entries the sender has
  uint64_t entry_term = 0;
  uint64_t previous_term = 0;
  uint64_t value = 0;
  uint64_t committed = 0;
  uint32_t ok = 0;      // of a reply: the request was granted
  uint32_t leader = 0;  // of a reply: who leads, as far as the sender knows
};

// One request at a time to one peer; connects again when the connection is lost.
class Peer {
 public:
  void set(int port, int timeout_ms) { port_ = port, timeout_ms_ = timeout_ms; }
  bool ask(const Message& request, Message& reply);

 private:
  Socket socket_;
  int port_ = 0, timeout_ms_ = 0;
};

}  // namespace replicas
