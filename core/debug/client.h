// What one gdb has at one node: the endpoint to which it connects, its pending changes, and the watches that it has
// set. Each node has a client for Friday's own gdb, and a second one if the user asks for an endpoint for another gdb.
//
// Use on the session's thread only. The owner must outlive its clients.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "core/debug/client_view.h"
#include "core/rsp/endpoint.h"
#include "core/stop/breakpoints.h"

namespace friday {

class Client;

// What Client::tell() tells.
inline constexpr char kRuns[] = "runs", kStands[] = "stands";

// Carries out what a client's gdb requests of the group; RspHost (core/rsp/host.h) describes each request.
class ClientOwner {
 public:
  virtual ~ClientOwner() = default;
  virtual Result<void> resume(Client& client, const ResumeRequest& request) = 0;
  virtual void interrupt(Client& client) = 0;
  virtual Result<void> set_stop_point(Client& client, const StopPointRequest& request) = 0;
  virtual Result<void> clear_stop_point(Client& client, const StopPointRequest& request) = 0;
  virtual Result<std::string> monitor(Client& client, std::string_view command) = 0;
};

class Client final : public RspHost {
 public:
  // `sysroot` is the directory in which gdb finds the node's files. `number` must be unique among clients. `is_users`
  // is true for a gdb of the user and false for Friday's own.
  Client(ReplayNode& node, ClientOwner& owner, std::string sysroot, uint32_t number, bool is_users)
      : node_(node.id()),
        owner_(owner),
        sysroot_(std::move(sysroot)),
        number_(number),
        is_users_(is_users),
        view_(node),
        endpoint_(view_, *this) {}

  NodeId node() const { return node_; }
  bool is_users() const { return is_users_; }
  ClientView& view() { return view_; }
  RspEndpoint& endpoint() { return endpoint_; }
  // The owner of this client's breakpoints.
  BreakpointOwner breakpoint_owner() const { return {BreakpointOwner::Kind::rsp_client, number_}; }
  // Tells the user's gdb that the group runs or stands, at somebody else's request. A gdb that was started by the
  // script for it (pyext/friday/users_gdb.py) reads that from a FIFO. Any other gdb cannot be told: it is
  // refused what it would show of the node, until it runs it or connects again.
  void tell(const std::string& what);
  // The FIFO. Set before the first gdb connects.
  std::string moves;
  // Its watched ranges, by kind, address and length.
  std::map<std::tuple<StopPointRequest::Kind, uint64_t, uint64_t>, StopPointId> watches;

 private:
  RspAbilities abilities(NodeId) const override { return {.reverse = true}; }
  std::string sysroot(NodeId) const override { return sysroot_; }
  Result<void> resume(NodeId, const ResumeRequest& request) override { return owner_.resume(*this, request); }
  void interrupt(NodeId) override { owner_.interrupt(*this); }
  Result<void> set_stop_point(NodeId, const StopPointRequest& request) override {
    return owner_.set_stop_point(*this, request);
  }
  Result<void> clear_stop_point(NodeId, const StopPointRequest& request) override {
    return owner_.clear_stop_point(*this, request);
  }
  Result<std::string> monitor(NodeId, std::string_view command) override { return owner_.monitor(*this, command); }
  Result<void> kill(NodeId node) override {
    return fail(ErrorCode::unsupported, "node {} is replayed: killing it would end the replay of the group; use quit",
                node);
  }
  void disconnected(NodeId) override {}

  NodeId node_;
  ClientOwner& owner_;
  std::string sysroot_;
  uint32_t number_;
  bool is_users_;
  ClientView view_;
  RspEndpoint endpoint_;  // declared last, because its destructor removes its stop points and uses the other members
};

}  // namespace friday
