#include "core/debug/debugger.h"

#include <utility>

#include "core/base/refusals.h"

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
      expressions_(*session_, focus_, gdbs_, alterations_),
      stop_points_(*session_, focus_, gdbs_, expressions_, options.patch_stores),
      history_(*session_),
      runner_(*session_, focus_, gdbs_, alterations_, expressions_.calls(), stop_points_, history_),
      backward_(*session_, focus_, stop_points_, runner_, history_, *this),
      moves_(backward_, alterations_) {
  // Two calls go from a lower part to a higher one, each through an interface: requests of gdbs, and changes of memory.
  gdbs_.set_owner(runner_);
  runner_.set_past(backward_);
  expressions_.set_observer(stop_points_);
  session_->on_node_started = [this](ReplayNode& node) { node_started(node); };
  session_->on_node_stands = [this](ReplayNode& node) { node_stands(node); };
  session_->on_node_leaves = [this](ReplayNode& node) { stop_points_.node_leaves(node.id()); };
  session_->report_node_ends = true;
  session_->on_call_output = [this](NodeId node, std::string_view text) {
    output_.push_back(fmt::format("node {}: the called function wrote: {}", node, text));
  };
  history_.may_keep = [this] { return !alterations_.any(); };
}

Debugger::~Debugger() { gdbs_.close(); }

void Debugger::node_started(ReplayNode& node) {
  gdbs_.node_started(node);
  focus_.select_thread(node.id(), node.current());
  stop_points_.node_started(node);
  runner_.node_started(node);
  backward_.node_started(node);
  if (node.parent()) alterations_.note_fork(node.parent()->id(), node.id());
}

// The group has come back, and this node stands where it stood: its gdbs know it, and its stop points are armed.
void Debugger::node_stands(ReplayNode& node) {
  focus_.select_thread(node.id(), node.current());
  stop_points_.node_stands(node);
  runner_.node_started(node);
  backward_.node_started(node);
}

Result<void> Debugger::serve(int timeout_ms) {
  auto served = gdbs_.pump_with_users(timeout_ms);
  history_.rest();
  session_->leave_processor();  // a gdb of the user may have run the group, which binds this thread to a processor
  return served;
}

void Debugger::interrupt() {
  gdbs_.interrupt();
  session_->interrupt();
}

// Forgets what was learned about the state of the nodes in the run so far.
void Debugger::forget_run() {
  expressions_.restart();
  runner_.restart();
  alterations_.clear();
  focus_.restart();
}

Result<void> Debugger::restart() {
  const auto start = session_->sync() == SyncMode::clock ? history_.start() : nullptr;
  if (!start) FRIDAY_TRY_VOID(session_->check_can_rebuild());
  stop_points_.restart();
  return start && go_back(*start) ? Result<void>() : rebuild();
}

Result<void> Debugger::go_to_start() {
  const auto start = history_.start();
  if (!start) FRIDAY_TRY_VOID(session_->check_can_rebuild());
  if (start && go_back(*start)) return {};
  for (NodeId id : session_->nodes()) stop_points_.node_leaves(id);
  return rebuild();
}

Result<void> Debugger::rebuild() {
  FRIDAY_TRY_VOID(session_->check_can_rebuild());
  for (NodeId id : session_->nodes())
    if (session_->find(id)->info().parent) gdbs_.node_gone(id);
  forget_run();
  stop_points_.restart();
  history_.clear();
  moves_.clear();
  auto restarted = session_->restart();
  gdbs_.tell_users(kStands);
  return restarted;
}

Result<void> Debugger::go_back(const GroupCheckpoint& checkpoint) {
  const auto altered = alterations_.all();
  forget_run();
  if (auto restored = session_->restore(checkpoint); !restored) {
    alterations_.restore(altered);  // the group may stand where it stood
    return restored;
  }
  for (NodeId id : session_->nodes())
    if (!session_->find(id)->has_process()) gdbs_.node_gone(id);
  history_.note_return();
  gdbs_.tell_users(kStands);
  return {};
}

Result<bool> Debugger::approach(const Mark& target) {
  FRIDAY_TRY(node, session_->node(target.node));
  const bool past = backward_.events_begun(*node) > target.event.value;
  const uint64_t position = session_->schedule().position_of(target.node, target.event);
  const auto nearest = history_.before(position, past || alterations_.any() ? 0 : session_->events_done());
  if (nearest && (past || (!alterations_.any() && nearest->events() > session_->events_done()))) {
    if (go_back(*nearest)) return true;
    FRIDAY_TRY_VOID(rebuild());  // the group is at no defined place
    return true;
  }
  if (!past) return false;
  FRIDAY_TRY_VOID(restart());
  if (const auto saved = history_.before(position); saved && !saved->is_start()) FRIDAY_TRY_VOID(go_back(*saved));
  return true;
}

Result<void> Debugger::restart(SyncMode sync) {
  if (sync == session_->sync()) return restart();
  FRIDAY_TRY_VOID(session_->check_can_rebuild());
  session_->set_sync(sync);
  stop_points_.restart();
  return rebuild();
}

Result<void> Debugger::remove_stop_point(uint32_t id) {
  runner_.event_stops().forget(id);
  return stop_points_.remove(id);
}

std::vector<NodeId> Debugger::take_inferred() {
  std::vector<NodeId> nodes;
  for (NodeId id : session_->nodes())
    if (session_->find(id)->take_read_inferred()) nodes.push_back(id);
  return nodes;
}

std::vector<std::string> Debugger::take_notices() {
  for (NodeId id : session_->nodes()) {
    if (told_registers_ || !session_->find(id)->watches().lacks_registers()) continue;
    told_registers_ = true;
    output_.push_back(describe_refusal(Refusal::debug_registers, "a write that one watched went unnoticed"));
  }
  std::vector<std::string> notices = std::exchange(output_, {});
  for (auto& more : {stop_points_.take_notices(), session_->take_notices(), gdbs_.take_notices(),
                     expressions_.costs().take_notices()})
    notices.insert(notices.end(), more.begin(), more.end());
  return notices;
}

}  // namespace friday
