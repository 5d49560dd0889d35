#include "core/debug/debugger.h"

namespace friday {

Result<std::unique_ptr<Debugger>> Debugger::open(const std::string& recording, DebuggerOptions options) {
  FRIDAY_TRY(session, ReplaySession::open(recording, options.replay));
  std::unique_ptr<Debugger> debugger(new Debugger(std::move(session), std::move(options)));
  for (NodeId id : debugger->session_->nodes())
    if (ReplayNode* node = debugger->session_->find(id); node->has_process()) debugger->node_started(*node);
  return debugger;
}

Debugger::Debugger(std::unique_ptr<ReplaySession> session, DebuggerOptions options)
    : session_(std::move(session)),
      focus_(*session_),
      gdbs_(*session_, focus_, std::move(options.gdbs)),
      alterations_(*session_, focus_, gdbs_),
      patch_stores_(options.patch_stores) {
  gdbs_.set_owner(*this);
  session_->on_node_started = [this](ReplayNode& node) { node_started(node); };
  session_->report_node_ends = true;
  session_->on_call_output = [this](NodeId node, std::string_view text) {
    notices_.push_back(fmt::format("node {}: the called function wrote: {}", node, text));
  };
}

Debugger::~Debugger() { gdbs_.close(); }

void Debugger::node_started(ReplayNode& node) {
  gdbs_.node_started(node);
  focus_.select_thread(node.id(), node.current());
  gdbs_.serve_only(node.id());
  node.watches().stores().share(hot_stores_);
  (void)node.watches().stores().enable(patch_stores_);
  // A forked process has what stood in its parent, for whichever nodes that was meant.
  (void)node.breakpoints().clear();
  node.watches().disarm_all();
  watch_loader(node);
  arm_all(node);
  gdbs_.serve_only(std::nullopt);
  park_for_target();
}

void Debugger::note_stop(const Stop& stop) {
  focus_.note_stop(stop);
  focus_.select_thread(stop.node, stop.thread);
  gdbs_.group_moved(stop.node, stop.thread);
}

Result<void> Debugger::restart() {
  gdbs_.before_restart();
  for (auto& [id, s] : states_) {
    s.watches.clear();
    s.frames.clear();
    s.workspace = s.staged = 0;
  }
  for (StopPointId id : points_.ids()) points_.find(id)->instances.clear();
  for (auto& [id, timer] : timers_) timer.next = 0;
  timer_node_.reset();
  parked_.reset();
  pending_stop_.reset();
  pending_ends_.clear();
  last_client_stop_.reset();
  alterations_.clear();
  focus_.restart();
  return session_->restart();
}

Result<void> Debugger::restart(SyncMode sync) {
  session_->set_sync(sync);
  return restart();
}

Result<void> Debugger::serve(int timeout_ms) {
  auto served = gdbs_.pump_with_users(timeout_ms);
  session_->leave_processor();  // where a gdb of the user's may have run the group
  return served;
}

std::vector<std::string> Debugger::take_notices() {
  std::vector<std::string> notices = std::exchange(notices_, {});
  for (auto& more : {session_->take_notices(), gdbs_.take_notices()})
    notices.insert(notices.end(), more.begin(), more.end());
  return notices;
}

}  // namespace friday
