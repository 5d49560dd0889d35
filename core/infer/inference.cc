#include "core/infer/inference.h"

#include <utility>

#include "core/infer/node_inference.h"

namespace friday::infer {

namespace {

// One replay in which nodes lack bytes that nobody has.
class InferenceRun {
 public:
  InferenceRun(ReplaySession& session, std::span<const MissingBytes> missing, const InferenceOptions& options)
      : session_(session), options_(options) {
    for (const MissingBytes& each : missing) missing_[each.node].push_back(each);
  }

  Result<std::map<NodeId, InferredNode>> run() {
    const auto before = std::exchange(session_.on_node_started, [&](ReplayNode& node) { begin(node); });
    for (const auto& [id, bytes] : missing_)
      if (ReplayNode* node = session_.find(id); node && node->has_process()) begin(*node);
    auto done = run_to_end();
    session_.on_node_started = before;
    FRIDAY_TRY_VOID(done);
    std::map<NodeId, InferredNode> found;
    for (auto& [id, node] : nodes_) {
      FRIDAY_TRY(of_node, node.finish());
      found.emplace(id, std::move(of_node));
    }
    for (const auto& [id, bytes] : missing_)  // nodes that never began
      if (InferredNode& none = found[id]; none.sureness.empty())
        for (const MissingBytes& each : bytes) none.sureness.resize(none.sureness.size() + each.size);
    return found;
  }

 private:
  void begin(ReplayNode& node) {
    const auto bytes = missing_.find(node.id());
    if (bytes == missing_.end() || problem_) return;
    auto inference = NodeInference::begin(session_, node, bytes->second, options_);
    if (!inference) {
      problem_ = inference.error();
      return;
    }
    arm(nodes_.emplace(node.id(), *std::move(inference)).first->second, node.id());
  }

  void arm(NodeInference& inference, NodeId id) {
    if (auto armed = session_.stop_at(id, inference.next_stop().value_or(~uint64_t{0})); !armed && !problem_)
      problem_ = armed.error();
  }

  Result<void> run_to_end() {
    for (;;) {
      if (problem_) return std::unexpected(*problem_);
      FRIDAY_TRY(stop, session_.run());
      using Kind = Stop::Kind;
      if (stop.kind == Kind::end || stop.kind == Kind::divergence || stop.kind == Kind::failure) return {};
      if (stop.kind == Kind::signal && session_.all_ended()) return {};
      if (stop.kind == Kind::interrupt) return fail(ErrorCode::interrupted, "interrupted");
      const auto inference = nodes_.find(stop.node);
      if (stop.kind != Kind::event || inference == nodes_.end()) continue;
      FRIDAY_TRY_VOID(inference->second.go_on());
      if (session_.find(stop.node)->state() == NodeState::live) arm(inference->second, stop.node);
    }
  }

  ReplaySession& session_;
  const InferenceOptions& options_;
  std::map<NodeId, std::vector<MissingBytes>> missing_;
  std::map<NodeId, NodeInference> nodes_;
  std::optional<Error> problem_;
};

}  // namespace

Infer make_infer(InferenceOptions options) {
  return [options = std::move(options)](ReplaySession& session, std::span<const MissingBytes> missing) {
    return InferenceRun(session, missing, options).run();
  };
}

Infer make_infer(const std::string& library_directory) {
  return make_infer(InferenceOptions{.program = library_directory + "/friday-infer", .limits = {}});
}

}  // namespace friday::infer
