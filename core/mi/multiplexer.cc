#include "core/mi/multiplexer.h"

#include "core/mi/typed.h"

namespace friday {

namespace {

Error with_node(Error error, NodeId node) {
  error.node = node.value;
  return error;
}

}  // namespace

void MiMultiplexer::add(NodeId node, std::unique_ptr<MiSession> session) {
  remove(node);
  by_fd_[session->fd()] = node;
  sessions_[node] = std::move(session);
}

void MiMultiplexer::remove(NodeId node) {
  auto found = sessions_.find(node);
  if (found == sessions_.end()) return;
  by_fd_.erase(found->second->fd());
  sessions_.erase(found);
}

MiSession* MiMultiplexer::session(NodeId node) const {
  auto found = sessions_.find(node);
  return found == sessions_.end() ? nullptr : found->second.get();
}

std::vector<NodeId> MiMultiplexer::nodes() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, session] : sessions_) nodes.push_back(node);
  return nodes;
}

std::vector<int> MiMultiplexer::fds() const {
  std::vector<int> fds;
  for (const auto& [fd, node] : by_fd_)
    if (session(node)->is_alive()) fds.push_back(fd);
  return fds;
}

void MiMultiplexer::dispatch(int fd) {
  auto found = by_fd_.find(fd);
  if (found != by_fd_.end()) session(found->second)->on_readable();
}

std::map<NodeId, Result<MiReply>> MiMultiplexer::request(std::span<const NodeId> nodes, std::string_view command,
                                                         Pump& pump, Deadline deadline) {
  std::map<NodeId, Result<MiReply>> replies;
  std::map<NodeId, MiToken> waiting;
  MiSession::Milliseconds limit{0};
  for (NodeId node : nodes) {
    MiSession* gdb = session(node);
    if (!gdb) {
      replies.emplace(node,
                      std::unexpected(Error{ErrorCode::not_found, "no gdb is connected to this node", node.value}));
    } else if (!waiting.contains(node)) {
      waiting.emplace(node, gdb->send(command));
      limit = std::max(limit, deadline.value_or(gdb->deadline()));
    }
  }
  auto end = std::chrono::steady_clock::now() + limit;
  for (;;) {
    collect(waiting, replies);
    if (waiting.empty()) return replies;
    auto left = std::chrono::ceil<MiSession::Milliseconds>(end - std::chrono::steady_clock::now());
    std::optional<Error> failure;
    if (left.count() <= 0) failure = MiSession::deadline_error(command, limit);
    else if (auto pumped = pump.pump_once(static_cast<int>(left.count())); !pumped) failure = std::move(pumped).error();
    if (!failure) continue;
    for (auto [node, token] : waiting) {
      if (MiSession* gdb = session(node)) gdb->abandon(token);
      replies.emplace(node, std::unexpected(with_node(*failure, node)));
    }
    return replies;
  }
}

// Moves the answers that have arrived from `waiting` to `replies`. A session may have been removed while the reactor
// ran.
void MiMultiplexer::collect(std::map<NodeId, MiToken>& waiting, std::map<NodeId, Result<MiReply>>& replies) {
  for (auto entry = waiting.begin(); entry != waiting.end();) {
    auto [node, token] = *entry;
    std::optional<Result<MiReply>> reply;
    if (MiSession* gdb = session(node)) reply = gdb->take_result(token);
    else reply = fail(ErrorCode::component_died, "the gdb of this node was closed");
    if (!reply) {
      ++entry;
      continue;
    }
    if (!*reply) reply = std::unexpected(with_node(std::move(*reply).error(), node));
    replies.emplace(node, *std::move(reply));
    entry = waiting.erase(entry);
  }
}

std::map<NodeId, Result<ResultRecord>> MiMultiplexer::run(std::span<const NodeId> nodes, std::string_view command,
                                                          Pump& pump, Deadline deadline) {
  std::map<NodeId, Result<ResultRecord>> results;
  for (auto& [node, reply] : request(nodes, command, pump, deadline)) {
    if (!reply) results.emplace(node, std::unexpected(reply.error()));
    else if (reply->record.is_error()) results.emplace(node, std::unexpected(with_node(error_of(reply->record), node)));
    else results.emplace(node, std::move(reply->record));
  }
  return results;
}

std::map<NodeId, Result<std::string>> MiMultiplexer::console(std::span<const NodeId> nodes, std::string_view command,
                                                             Pump& pump, Deadline deadline) {
  std::map<NodeId, Result<std::string>> texts;
  for (auto& [node, reply] : request(nodes, MiSession::console_command(command), pump, deadline)) {
    auto text = reply ? MiSession::console_result(*std::move(reply)) : std::unexpected(reply.error());
    if (!text) text = std::unexpected(with_node(std::move(text).error(), node));
    texts.emplace(node, std::move(text));
  }
  return texts;
}

}  // namespace friday
