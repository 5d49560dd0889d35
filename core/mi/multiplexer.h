// The gdbs of many nodes, in one poll set. Owned by the console and used only on its reactor's thread. A command to
// many nodes is sent to all of them before the first answer is awaited, so the gdbs work in parallel. Each node has its
// own result; a failure at one node does not affect the others.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/mi/session.h"

namespace friday {

class MiMultiplexer {
 public:
  // Replaces an earlier session of that node, which ends.
  void add(NodeId node, std::unique_ptr<MiSession> session);
  void remove(NodeId node);
  // Null if the node has no session.
  MiSession* session(NodeId node) const;
  size_t count() const { return sessions_.size(); }
  std::vector<NodeId> nodes() const;

  // --- for the reactor: poll fds() for input, hand each ready one to dispatch() ---
  std::vector<int> fds() const;
  void dispatch(int fd);

  // --- one command to many nodes; errors carry their node ---
  using Deadline = std::optional<MiSession::Milliseconds>;
  std::map<NodeId, Result<MiReply>> request(std::span<const NodeId> nodes, std::string_view command, Pump& pump,
                                            Deadline = {});
  std::map<NodeId, Result<ResultRecord>> run(std::span<const NodeId> nodes, std::string_view command, Pump& pump,
                                             Deadline = {});
  std::map<NodeId, Result<std::string>> console(std::span<const NodeId> nodes, std::string_view command, Pump& pump,
                                                Deadline = {});

 private:
  void collect(std::map<NodeId, MiToken>& waiting, std::map<NodeId, Result<MiReply>>& replies);

  std::map<NodeId, std::unique_ptr<MiSession>> sessions_;
  std::map<int, NodeId> by_fd_;
};

}  // namespace friday
