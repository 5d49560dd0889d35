#include "core/rsp/endpoint.h"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>

namespace friday {
namespace {

constexpr size_t kMostOutput = 1 << 20;  // packets of a client with more unsent output than this have to wait
constexpr size_t kMostConnections = 8;   // including those that are being refused
constexpr size_t kReadSize = 64 * 1024;

}  // namespace

struct RspEndpoint::Connection {
  UniqueFd socket;
  PacketReader reader{kRspPacketSize};
  std::unique_ptr<RspSession> session;  // null if the client is being refused
  std::string input, output;
  std::string last_packet;  // kept for retransmission
  bool dead = false;

  bool no_ack() const { return session && session->no_ack(); }
  bool congested() const { return output.size() > kMostOutput; }

  void flush() {
    size_t sent = 0;
    while (!dead && sent < output.size()) {
      ssize_t put = ::send(socket.get(), output.data() + sent, output.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (put > 0) sent += static_cast<size_t>(put);
      else if (errno == EAGAIN) break;
      else if (errno != EINTR) dead = true;
    }
    output.erase(0, sent);
    if (output.empty() && session && session->closing()) dead = true;
  }

  void send_packet(std::string_view payload) {
    std::string wire = encode_packet(payload, payload.size() > 64);
    output += wire;
    if (!no_ack()) last_packet = std::move(wire);
    flush();
  }
};

RspEndpoint::RspEndpoint(NodeControl& node, RspHost& host) : node_(node), host_(host) {}

RspEndpoint::~RspEndpoint() {
  for (auto& connection : connections_)
    if (connection->session) connection->session->close();
}

Result<void> RspEndpoint::listen_unix(const std::string& path) {
  FRIDAY_TRY(listener, Listener::unix_socket(path));
  listeners_.push_back(std::move(listener));
  return {};
}

Result<uint16_t> RspEndpoint::listen_loopback(uint16_t port) {
  FRIDAY_TRY(listener, Listener::loopback(port));
  uint16_t taken = listener.port();
  listeners_.push_back(std::move(listener));
  return taken;
}

std::vector<pollfd> RspEndpoint::fds() const {
  std::vector<pollfd> all;
  if (connections_.size() < kMostConnections)
    for (const Listener& listener : listeners_) all.push_back({listener.fd(), POLLIN, 0});
  for (const auto& connection : connections_) {
    short events = connection->congested() ? 0 : POLLIN;
    // with unread input, POLLOUT wakes us to continue with it
    if (!connection->output.empty() || !connection->input.empty()) events |= POLLOUT;
    all.push_back({connection->socket.get(), events, 0});
  }
  return all;
}

void RspEndpoint::on_ready(int fd) {
  for (Listener& listener : listeners_)
    if (listener.fd() == fd) {
      finish_departed();
      return accept(listener);
    }
  for (size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = *connections_[i];
    if (connection.socket.get() != fd) continue;
    connection.flush();
    if (!connection.congested()) receive(connection);
    process(connection);
    break;
  }
  drop_dead();
}

// Serves a client that has closed its end up to its last packet. Which of two sockets is ready first is chance: who
// connects after the client has gone must not be refused on its account.
void RspEndpoint::finish_departed() {
  for (auto& connection : connections_) {
    pollfd end{connection->socket.get(), POLLRDHUP, 0};
    if (poll(&end, 1, 0) <= 0 || !(end.revents & (POLLRDHUP | POLLHUP | POLLERR))) continue;
    while (!connection->dead) {
      receive(*connection);
      process(*connection);
      if (connection->congested()) connection->dead = true;  // nobody reads it any more
    }
  }
  drop_dead();
}

void RspEndpoint::accept(Listener& listener) {
  UniqueFd socket = listener.accept();
  if (!socket) return;
  bool first = !has_client();
  connections_.push_back(std::make_unique<Connection>());
  Connection& connection = *connections_.back();
  connection.socket = std::move(socket);
  if (!first) return;
  connection.session = std::make_unique<RspSession>(
      node_, host_, [&connection](std::string_view payload) { connection.send_packet(payload); });
  if (last_stop_) connection.session->set_last_stop(*last_stop_);
}

void RspEndpoint::receive(Connection& connection) {
  char buffer[kReadSize];
  ssize_t got = recv(connection.socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (got > 0) connection.input.append(buffer, static_cast<size_t>(got));
  else if (got == 0 || (errno != EAGAIN && errno != EINTR)) connection.dead = true;
}

void RspEndpoint::process(Connection& connection) {
  std::string_view bytes = connection.input;
  while (!connection.dead && !connection.congested()) {
    auto event = connection.reader.next(bytes);
    if (!event) break;
    take(connection, std::move(*event));
  }
  connection.input.erase(0, connection.input.size() - bytes.size());
  connection.flush();
}

void RspEndpoint::take(Connection& connection, PacketEvent event) {
  using Kind = PacketEvent::Kind;
  // in no-ack mode the packet will not be repeated
  if (event.kind == Kind::bad_checksum && connection.no_ack()) event.kind = Kind::packet;
  auto acknowledge = [&](char mark) {
    if (!connection.no_ack()) connection.output += mark;
  };
  switch (event.kind) {
    case Kind::ack: return;
    case Kind::nack:
      if (!connection.no_ack()) connection.output += connection.last_packet;
      return connection.flush();
    case Kind::interrupt:
      if (connection.session) connection.session->interrupt();
      return;
    case Kind::bad_checksum: acknowledge('-'); return connection.flush();
    case Kind::oversized: acknowledge('+'); return connection.send_packet("E01");
    case Kind::packet: break;
  }
  acknowledge('+');
  if (connection.session) return connection.session->handle(event.payload);
  connection.send_packet(fmt::format(
      "E.Node {} is already being debugged by another client; disconnect that one first.", node_.id().value));
}

void RspEndpoint::report(const StopReport& report) {
  last_stop_ = report;
  for (auto& connection : connections_)
    if (connection->session) connection->session->report(report);
}

void RspEndpoint::say(std::string_view text) {
  for (auto& connection : connections_)
    if (connection->session) connection->session->say(text);
}

void RspEndpoint::refuse_client(const std::string& why) {
  for (auto& connection : connections_)
    if (connection->session) connection->session->refuse(why);
}

// Closes finished connections. Must not run while code of a connection is on the stack: on_ready() calls it at its end,
// and before a new connection is accepted.
void RspEndpoint::drop_dead() {
  for (size_t i = 0; i < connections_.size();) {
    if (!connections_[i]->dead) {
      ++i;
      continue;
    }
    auto gone = std::move(connections_[i]);
    connections_.erase(connections_.begin() + static_cast<ptrdiff_t>(i));
    if (gone->session) gone->session->close();
  }
}

bool RspEndpoint::has_client() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->session && !connection->dead; });
}

int RspEndpoint::client_socket() const {
  auto client = std::ranges::find_if(connections_,
                                     [](const auto& connection) { return connection->session && !connection->dead; });
  return client == connections_.end() ? -1 : (*client)->socket.get();
}

bool RspEndpoint::client_waits() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection->session && connection->session->waiting(); });
}

}  // namespace friday
