// The simplest complete RspHost over a PtraceNode, and the loop that serves an endpoint and a live node together. Watch
// points are found by single steps; that is slow and right.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/rsp/endpoint.h"
#include "tests/unit/ptrace_node.h"

namespace friday {

class RspTestHost : public RspHost {
 public:
  explicit RspTestHost(PtraceNode& node) : node_(node), endpoint_(node, *this) {}

  RspEndpoint& endpoint() { return endpoint_; }
  // Serves until `done` says so (asked after each event), or `seconds` have passed: false. `extra`: descriptors whose
  // events make `done` worth asking.
  bool serve(const std::function<bool()>& done, std::vector<int> extra = {}, int seconds = 60);

  RspAbilities abilities(NodeId) const override { return offered; }
  Result<void> resume(NodeId, const ResumeRequest& request) override;
  void interrupt(NodeId) override;
  Result<void> set_stop_point(NodeId, const StopPointRequest& request) override;
  Result<void> clear_stop_point(NodeId, const StopPointRequest& request) override;
  Result<std::string> monitor(NodeId, std::string_view command) override;
  Result<void> kill(NodeId) override;
  void disconnected(NodeId) override { ++disconnections; }

  RspAbilities offered{};
  bool hold = false;  // resume() does nothing: the test reports by itself
  std::vector<ResumeRequest> requests;
  std::vector<StopPointRequest> set_requests;
  int interrupts = 0, disconnections = 0, kills = 0;
  size_t stop_point_count() const { return breakpoints_.size() + watches_.size(); }

 private:
  struct Watch {
    StopPointRequest request;
    std::vector<std::byte> value;
  };

  void stopped(const NodeStop& stop);
  StopReport describe(const NodeStop& stop);
  void plant();
  void unplant();
  bool step_off(ThreadId thread);
  void run_by_steps(ThreadId thread, const ThreadAction& action);
  std::optional<StopReport> changed_watch(ThreadId thread);

  PtraceNode& node_;
  std::map<uint64_t, StopPointRequest::Kind> breakpoints_;
  std::vector<Watch> watches_;
  std::map<uint64_t, std::byte> planted_;
  RspEndpoint endpoint_;  // last: as it goes it takes its client's stop points back
};

}  // namespace friday
