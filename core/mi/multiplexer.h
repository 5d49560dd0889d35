// Many gdbs, one for each node, in one poll set. Owned by the console and used from its reactor's thread only. A
// command to many nodes is sent to all of them before the first answer is awaited, so the gdbs work in parallel; each
// node has its own result, and the failure of one touches no other.
//
// It is itself a Pump over its sessions, for programs without a reactor of their own.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/mi/session.h"

namespace friday {

class MiMultiplexer : public Pump {
 public:
  // Replaces (and so ends) an earlier session of that node.
  void add(NodeId node, std::unique_ptr<MiSession> session);
  void remove(NodeId node);
  // Null when the node has none.
  MiSession* session(NodeId node) const;
  size_t count() const { return sessions_.size(); }
  std::vector<NodeId> nodes() const;

  // --- for the reactor: poll fds() for input, hand each ready one to dispatch() ---
  std::vector<int> fds() const;
  void dispatch(int fd);
  Result<void> pump_once(int timeout_ms) override;

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
