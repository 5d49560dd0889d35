// The GDB remote serial protocol (RSP) endpoint of one node: its own gdb, or any other front end, connects with `target
// remote PATH` or `target remote :PORT`.
//
// Single-threaded and non-blocking: the owner polls fds() and calls on_ready(). Node, host and endpoint live on the
// thread that traces the node, and node and host must outlive the endpoint. There is one client at a time, because only
// one can have a consistent view of the node; a second client gets an error message and is disconnected.
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

  // The descriptors to poll; they change with every call of on_ready() and report().
  std::vector<pollfd> fds() const;
  void on_ready(int fd);

  // Call when the node stopped. Tells the client if it waits for a stop; otherwise only a client that connects later
  // sees it.
  void report(const StopReport& report);

  // Prints text on the client's console. The protocol allows that only while the client waits for the node to stop.
  void say(std::string_view text);

  // RspSession::refuse() for the client.
  void refuse_client(const std::string& why);

  bool has_client() const;
  int client_socket() const;  // -1 if there is no client
  bool client_waits() const;  // the node runs, or is about to run, on behalf of the client

 private:
  struct Connection;

  void finish_departed();
  void accept(Listener& listener);
  void receive(Connection& connection);
  void process(Connection& connection);
  void take(Connection& connection, PacketEvent event);
  void drop_dead();

  NodeControl& node_;
  RspHost& host_;
  std::vector<Listener> listeners_;
  std::vector<std::unique_ptr<Connection>> connections_;  // at most one has a session; the others are being refused
  std::optional<StopReport> last_stop_;
};

}  // namespace friday
