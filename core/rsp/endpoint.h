// The GDB Remote Serial Protocol endpoint of one node: where its own gdb, or any other front end, connects with
// `target remote PATH` or `target remote :PORT`.
//
// Single-threaded and non-blocking: the owner polls fds() and calls on_ready(); node, host and endpoint live on the
// thread that traces the node, and the first two outlive the endpoint. One client at a time: it alone has a true
// picture of the node. A second one is told so in words and let go.
#pragma once

#include <poll.h>

#include <memory>
#include <vector>

#include "core/rsp/host.h"
#include "core/rsp/listener.h"
#include "core/rsp/packet.h"
#include "core/rsp/session.h"

namespace friday {

class RspEndpoint {
 public:
  RspEndpoint(NodeControl& node, RspHost& host);
  ~RspEndpoint();
  RspEndpoint(const RspEndpoint&) = delete;
  RspEndpoint& operator=(const RspEndpoint&) = delete;

  Result<void> listen_unix(const std::string& path);
  Result<uint16_t> listen_loopback(uint16_t port = 0);

  // What to poll for now; changes with every call of on_ready() and report().
  std::vector<pollfd> fds() const;
  void on_ready(int fd);

  // The node stopped. The client hears of it if it waits for that; otherwise only a later client does.
  void report(const StopReport& report);

  // Text for the client's console; it can be told only while it waits for the node to stop.
  void say(std::string_view text);

  bool has_client() const;
  int client_socket() const;  // -1: there is no client
  bool client_waits() const;  // the node runs (or is to run) on the client's behalf

 private:
  struct Connection;

  void accept(Listener& listener);
  void receive(Connection& connection);
  void process(Connection& connection);
  void take(Connection& connection, PacketEvent event);
  void drop_dead();

  NodeControl& node_;
  RspHost& host_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;  // at most one has a session, the others are turned away
  std::optional<StopReport> last_stop_;
};

}  // namespace friday
