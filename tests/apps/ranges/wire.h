// What the programs of the range-partitioned table say to each other, over TCP: a message, behind which rows may
// follow. Each connection carries requests one way and their replies the other way.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "../tcp/tcp.h"

namespace ranges {

using namespace apps;

constexpr uint64_t kLast = UINT64_MAX;  // the last key

struct Row {
  uint64_t key;
  char value[1016];
};

enum class Kind : uint32_t {
  locate,  // of a client, to the master: who has the range with the key `first`
  place,   // of a server, to the master: who shall take a part of my range
  moved,   // of a server, to the master: from `first` to `last` is at `server` from now on
  commit,  // of a client, to a server: store these rows. The client knows version `version` of the table
  adopt,   // of a server, to another: from `first` to `last` is yours, with these rows
  count,   // of a client, to a server: how many rows are in the range from `first` to `last`
  yes,
  no,  // not mine: of a key `first`, or of a range; or not now
};

struct Message {
  Kind kind = Kind::no;
  uint32_t server = 0;
  uint64_t first = 0, last = 0;  // keys, both of the range
  uint64_t version = 0;          // of the master's table: how often a range was moved
  uint64_t number = 0;           // of the reply to `count`
  uint64_t rows = 0;             // so many follow
};

constexpr uint64_t kMostRows = 100000;  // in one message

// Sends a message with rows; false when the connection is lost.
inline bool tell(const Socket& socket, Message message, const std::vector<Row>& rows = {}) {
  message.rows = rows.size();
  return socket.send(message) && socket.send(rows.data(), rows.size() * sizeof(Row));
}

inline bool hear(const Socket& socket, Message& message, std::vector<Row>& rows) {
  if (!socket.receive(message) || message.rows > kMostRows) return false;
  rows.resize(message.rows);
  return socket.receive(rows.data(), rows.size() * sizeof(Row));
}

// One request at a time to one program, which is awaited when it has not started yet.
class Partner {
 public:
  explicit Partner(int port = 0) : port_(port) {}

  // Exits with 3 when the program is gone.
  Message ask(const Message& request, const std::vector<Row>& rows = {}) {
    for (int attempt = 0; !socket_.open() && attempt < 1000; attempt++) {
      socket_ = connect_to(port_, kPatience);
      if (!socket_.open()) pause_ms(10);
    }
    Message reply;
    std::vector<Row> none;
    if (!tell(socket_, request, rows) || !hear(socket_, reply, none)) {
      fprintf(stderr, "the program at port %d does not answer\n", port_);
      exit(3);
    }
    return reply;
  }

 private:
  static constexpr int kPatience = 30000;  // milliseconds
  Socket socket_;
  int port_;
};

// What the command line of a program says. options_of() exits with 2 if it lacks something.
struct Options {
  int master = 0;            // its port
  std::vector<int> servers;  // their ports
  uint32_t id = 0;           // the server's
  std::string directory = ".";
  bool careful = false;  // without the planted fault
  uint64_t rows = 0, seed = 1;
  bool count = false;
};

Options options_of(int argc, char** argv);

}  // namespace ranges
