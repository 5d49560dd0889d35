// Creates, arms, changes and removes stop points on all nodes.
#include <algorithm>

#include "core/debug/expression_text.h"
#include "core/debug/group_stop_points.h"
#include "core/mi/value.h"
#include "core/stop/agent.h"

namespace friday {
namespace {

std::string clean(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.pop_back();
  size_t from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from);
}

// Takes options such as -l and -reads from the beginning of the first expression. They apply to all expressions.
Result<void> take_options(StopPoint& point) {
  std::string& first = point.expressions.front();
  while (first.starts_with('-') && first.size() > 1 && isalpha(static_cast<unsigned char>(first[1]))) {
    const size_t end = std::min(first.find(' '), first.size());
    const std::string option = first.substr(0, end);
    if (option == "-l" || option == "-location") point.by_place = true;
    else if (option == "-page") point.any_page = true;
    else if (option == "-writes") point.any_write = true;
    else if (option == "-reads") point.access = WatchAccess::read;
    else if (option == "-access") point.access = WatchAccess::any;
    else if (option == "-pending") point.may_wait = true;
    else
      return fail(ErrorCode::usage,
                  "watch has no option {}: there are -l (the memory that EXPR denotes now), -page (protect pages of "
                  "stacks too), -writes (writes of the same value too), -reads (reads instead of writes), -access "
                  "(reads and writes) and -pending (EXPR may be in a library that is not loaded yet)",
                  option);
    first = clean(first.substr(end));
    if (first.empty()) return fail(ErrorCode::usage, "watch {} needs an expression after the option", option);
  }
  return {};
}

}  // namespace

// Fails if none of the nodes is replayed.
Result<void> GroupStopPoints::any_replayed(const std::vector<NodeId>& nodes) {
  if (std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return session_.find(id); })) return {};
  return fail(ErrorCode::unsupported, "none of the nodes of this stop point is replayed; name them with --node");
}

// A stop point as the user has asked for it, without an id.
Result<StopPoint> GroupStopPoints::make_point(StopKind kind, const std::vector<NodeId>& nodes,
                                              const std::string& condition) {
  FRIDAY_TRY_VOID(any_replayed(nodes));
  StopPoint point;
  point.kind = kind;
  point.nodes = nodes;
  point.condition = clean(condition);
  return point;
}

Result<uint32_t> GroupStopPoints::add_armed(StopPoint point) {
  FRIDAY_TRY(id, points_.add(std::move(point)));
  if (auto armed = arm_on_nodes(*points_.find(id)); !armed) {
    points_.withdraw(id);
    return std::unexpected(armed.error());
  }
  return id.value;
}

Result<uint32_t> GroupStopPoints::add_breakpoint(const std::vector<NodeId>& nodes, const std::string& location,
                                                 const std::string& condition) {
  FRIDAY_TRY(point, make_point(StopKind::breakpoint, nodes, condition));
  point.location = clean(location);
  if (constexpr std::string_view waits = "-pending "; point.location.starts_with(waits)) {
    point.may_wait = true;
    point.location = clean(point.location.substr(waits.size()));
  }
  FRIDAY_TRY(id, add_armed(std::move(point)));
  StopPoint& made = *points_.find({id});
  if (auto checked = check_condition(made, made.condition); !checked) {
    disarm_all(made);
    points_.withdraw(made.id);
    return std::unexpected(checked.error());
  }
  return id;
}

// Fails if the condition names something that exists at none of the places of a breakpoint. What else may be wrong with
// it shows when it is evaluated.
Result<void> GroupStopPoints::check_condition(const StopPoint& point, const std::string& condition) {
  if (condition.empty() || Workspace::is_named_in(condition)) return {};
  std::optional<Error> refusal;
  for (const auto& [node, instances] : point.instances)
    for (const StopInstance& instance : instances) {
      auto checked = symbols_.check_condition(node, instance.address, condition);
      const bool refused =
          !checked && (checked.error().code == ErrorCode::not_found || checked.error().code == ErrorCode::bad_input);
      if (!refused) return {};
      if (refusal) continue;
      refusal = Error{checked.error().code, fmt::format("the condition `{}`: {}", condition, checked.error().message),
                      node.value};
    }
  if (refusal) return std::unexpected(std::move(*refusal));
  return {};
}

Result<uint32_t> GroupStopPoints::add_watch(const std::vector<NodeId>& nodes,
                                            const std::vector<std::string>& expressions, const std::string& condition) {
  FRIDAY_TRY(point, make_point(StopKind::watchpoint, nodes, condition));
  for (const auto& e : expressions) point.expressions.push_back(clean(e));
  FRIDAY_TRY_VOID(take_options(point));
  return add_armed(std::move(point));
}

Result<uint32_t> GroupStopPoints::add_timer(const std::string& period) {
  StopPoint point;
  point.kind = StopKind::timer;
  point.location = period;
  FRIDAY_TRY(id, points_.add(std::move(point)));
  return id.value;
}

Result<uint32_t> GroupStopPoints::add_catch(const std::vector<NodeId>& nodes, const std::string& what,
                                            const std::string& condition) {
  FRIDAY_TRY(point, make_point(StopKind::catchpoint, nodes, condition));
  point.location = clean(what);
  point.placed = true;
  FRIDAY_TRY(id, points_.add(std::move(point)));
  return id.value;
}

// Whether gdb knows the variable or the file of a location and misses only what is in it. Then the node's program is
// the one which the user means, and its error says more than that of programs without the name.
static bool knows_a_part(const Error& error) {
  return error.message.starts_with("There is no member named ") || error.message.starts_with("No line ");
}

// Arms a stop point on its nodes. On a node where that fails (another program, or a library that is not loaded yet) it
// is pending. If it fails on all nodes, returns an error and disarms the stop point.
Result<void> GroupStopPoints::arm_on_nodes(StopPoint& point) {
  std::optional<Error> failure;
  size_t placed = 0;
  for (NodeId id : point.nodes) {
    ReplayNode* node = session_.find(id);
    if (!node || !node->has_process() || (point.kind == StopKind::watchpoint && node->state() == NodeState::ended))
      continue;
    auto done = arm(point, *node);
    if (done) placed++;
    else if (!failure || (!knows_a_part(*failure) && knows_a_part(done.error()))) {
      failure = done.error();
      if (knows_a_part(*failure)) failure->node = id.value;
    }
  }
  if (placed > 0 || !failure || point.may_wait) return {};
  disarm_all(point);
  lost_part_.reset();  // the error is returned instead
  return std::unexpected(std::move(*failure));
}

Result<void> GroupStopPoints::arm(StopPoint& point, ReplayNode& node) {
  if (!point.enabled || point.kind == StopKind::timer || point.kind == StopKind::catchpoint) return {};
  point.pending.erase(node.id());
  auto try_arm = [&] {
    return point.kind == StopKind::breakpoint ? arm_breakpoint(point, node) : arm_watch(point, node);
  };
  auto done = try_arm();
  if (!done && done.error().code == ErrorCode::component_died)
    done = try_arm();  // gdb has died and is replaced by the second attempt
  if (!done && done.error().code == ErrorCode::component_died)
    lost_part_ = fmt::format("node {} ({}): stop point {} could not be set: {}", node.id(), node.info().name,
                             point.id.value, done.error().message);
  if (done) point.placed = true;
  else point.pending[node.id()] = done.error().message;
  return done;
}

Result<void> GroupStopPoints::arm_breakpoint(StopPoint& point, ReplayNode& node) {
  FRIDAY_TRY(locations, symbols_.locate(node.id(), point.location));
  FRIDAY_TRY_VOID(node.make_pad_areas());
  auto& instances = point.instances[node.id()];
  instances.clear();
  (void)node.breakpoints().remove_all({BreakpointOwner::Kind::stop_point, point.id.value});  // if it was armed before
  std::optional<Error> refused;
  for (const CodeLocation& location : locations) {
    const Addr address{symbols_.address_of(node.id(), location)};
    if (auto fit = check_place(node, address, point.location.starts_with('*')); !fit) {
      refused = fit.error();  // a location may also resolve to a place in the shim, which is skipped
      continue;
    }
    FRIDAY_TRY_VOID(node.breakpoints().insert(address, {BreakpointOwner::Kind::stop_point, point.id.value}));
    instances.push_back({address, 0, static_cast<uint32_t>(instances.size()), location.text});
  }
  if (instances.empty() && refused) return std::unexpected(*refused);
  return {};
}

Result<void> GroupStopPoints::arm_watch(StopPoint& point, ReplayNode& node) {
  FRIDAY_TRY_VOID(node.make_pad_areas());  // patched stores need pads
  nodes_[node.id()].watches[point.id.value].clear();
  node.watches().disarm(point.id);
  point.instances[node.id()].clear();
  for (const auto& expression : point.expressions) {
    const std::string text = expression.starts_with("*0x") ? "*(int*)" + expression.substr(1) : expression;
    if (auto armed = arm_expression(point, node, expression, text); !armed) {
      disarm(point, node);
      return armed;
    }
  }
  return {};
}

Result<void> GroupStopPoints::arm_expression(StopPoint& point, ReplayNode& node, const std::string& expression,
                                             const std::string& text) {
  FRIDAY_TRY(revived, revive_watches(point, node, expression));
  if (revived) return {};
  FRIDAY_TRY(inherited, inherit_watches(point, node, expression));
  const auto& watches = nodes_[node.id()].watches[point.id.value];
  const auto armed = inherited ? Result<void>() : watch_expression(point, node, expression, text, false, true);
  if (armed && (watches.empty() || (!watches.back().frame && !watches.back().chain->plan()->fixed)))
    return {};  // it does not depend on a frame
  // FUNC::LOCAL: also watch it in future calls of FUNC.
  const auto local = point.by_place ? std::nullopt : split_local(text);
  if (local && symbols_.locate(node.id(), local->first)) return arm_entries(point, node, local->first, local->second);
  return armed;
}

// Tells the user that a watch does not follow its expression.
void GroupStopPoints::note_fixed(const StopPoint& point, const std::string& shown, const std::string& reason) {
  auto fixed =
      fmt::format("watch {}: {} is watched at its present address, as with -l: {}", point.id.value, shown, reason);
  if (std::ranges::find(notices_, fixed) == notices_.end()) notices_.push_back(std::move(fixed));
}

// The plan by which the watch evaluates its expression. An expression that only gdb can evaluate is watched at the
// address that it denotes now.
Result<std::shared_ptr<const ExpressionPlan>> GroupStopPoints::watch_plan(const StopPoint& point, ReplayNode& node,
                                                                          const std::string& shown,
                                                                          const std::string& text, bool may_ask) {
  if (point.by_place) return expressions_.find_place_now(node.id(), text, "");
  const KnownPlan* known = may_ask ? nullptr : symbols_.find_plan(node.id(), text);
  if (!may_ask && (!known || known->refusal))
    return fail(ErrorCode::unsupported, "gdb is busy with a step and cannot be asked how to evaluate it");
  std::shared_ptr<const ExpressionPlan> found = known ? known->plan : nullptr;
  if (!found) {
    FRIDAY_TRY(made, symbols_.plan(node.id(), text));
    found = std::move(made.plan);
  }
  if (found->kind == ExpressionPlan::Kind::gdb) {
    if (!may_ask) return fail(ErrorCode::unsupported, "gdb is busy with a step and cannot be asked how to evaluate it");
    auto place = expressions_.find_place_now(node.id(), text, found->reason);
    if (const auto local = split_local(text);
        local && !focus_.is_elsewhere(node.id()) && symbols_.locate(node.id(), local->first)) {
      // FUNC is active but not the innermost frame, so the end of its frame would not be noticed. If the user has
      // selected that frame, it is watched nevertheless.
      if (place)
        notices_.push_back(
            fmt::format("watch {}: {} is watched in future calls of {}, but not in the present one on node {}: {}",
                        point.id.value, shown, local->first, node.id(), found->reason));
      return fail(ErrorCode::unsupported, "{} cannot be watched while another function runs", text);
    }
    if (place) note_fixed(point, shown, found->reason);
    return place;
  }
  if (found->fixed) note_fixed(point, shown, "only gdb finds the variables in it");
  if (!found->place && (found->kind != ExpressionPlan::Kind::value || !found->registers.empty()))
    return fail(ErrorCode::unsupported, "{} cannot be watched: it has no place in memory", text);
  return found;
}

// Watches one expression in a node. `shown` is what the user wrote, `text` what is evaluated. With `local`, it is a
// variable of the function that was just entered.
Result<void> GroupStopPoints::watch_expression(StopPoint& point, ReplayNode& node, const std::string& shown,
                                               const std::string& text, bool local, bool may_ask) {
  FRIDAY_TRY(thread, focus_.current_thread(node.id()));
  FRIDAY_TRY(plan, watch_plan(point, node, shown, text, may_ask));
  const bool in_frame = local || !plan->registers.empty();
  NodeStops& s = nodes_[node.id()];
  const uint32_t type = symbols_.types().add(*plan, plan->type), first = s.next_index;
  s.next_index += ChainWatch::most_links + 1;
  Watched watched;
  watched.expression = shown;
  watched.type = type;
  if (in_frame) FRIDAY_TRY_VOID(tie_to_frame(point, node, watched, may_ask));
  watched.chain = std::make_unique<ChainWatch>(point.id, std::move(plan), first, point.any_write, point.access);
  auto armed = watched.chain->arm(watched.seen_from(node), thread, node.watches(), point.any_page);
  if (!armed) {
    watched.chain->disarm(node.watches());
    return armed;
  }
  s.watches[point.id.value].push_back(std::move(watched));
  return {};
}

void GroupStopPoints::disarm(StopPoint& point, ReplayNode& node) {
  (void)node.breakpoints().remove_all({BreakpointOwner::Kind::stop_point, point.id.value});
  node.watches().disarm(point.id);
  (void)node.flush_watches();  // a node that has ended is not flushed by the next run
  nodes_[node.id()].watches.erase(point.id.value);
  point.instances.erase(node.id());
}

void GroupStopPoints::disarm_all(StopPoint& point) {
  for (NodeId id : session_.nodes())
    if (ReplayNode* node = session_.find(id); node->has_process()) disarm(point, *node);
}

// Arms a breakpoint in a forked node at the same addresses as in its parent, of which it is a copy. That needs no gdb.
// Returns false if the parent does not have the breakpoint.
bool GroupStopPoints::arm_as_in_parent(StopPoint& point, ReplayNode& node) {
  if (!node.info().parent || !point.enabled || point.kind != StopKind::breakpoint) return false;
  auto known = point.instances.find(*node.info().parent);
  if (known == point.instances.end() || known->second.empty()) return false;
  for (const StopInstance& instance : known->second)
    if (!node.breakpoints().insert(instance.address, {BreakpointOwner::Kind::stop_point, point.id.value})) return false;
  const auto instances = known->second;
  point.instances[node.id()] = instances;
  point.placed = true;
  return true;
}

// Arms all stop points of a node that has just started. Those that cannot be resolved become pending.
void GroupStopPoints::arm_all(ReplayNode& node) {
  for (StopPointId id : points_.ids()) {
    StopPoint* point = points_.find(id);
    const auto& wanted = point->nodes;
    if (std::find(wanted.begin(), wanted.end(), node.id()) == wanted.end()) continue;
    if (!arm_as_in_parent(*point, node)) (void)arm(*point, node);
  }
}

void GroupStopPoints::node_started(ReplayNode& node) {
  gdbs_.serve_only(node.id());
  node.watches().stores().share(hot_stores_);
  (void)node.watches().stores().enable(patch_stores_);
  // A forked process has a copy of all breakpoints and watches of its parent; remove them first.
  (void)node.breakpoints().clear();
  node.watches().disarm_all();
  watch_loader(node);
  arm_all(node);
  nodes_[node.id()].kept.clear();
  nodes_[node.id()].armed = true;
  gdbs_.serve_only(std::nullopt);
}

void GroupStopPoints::node_stands(ReplayNode& node) {
  if (!nodes_[node.id()].armed) node_started(node);
}

void GroupStopPoints::node_leaves(NodeId node) {
  NodeStops& s = nodes_[node];
  s.kept.clear();
  for (auto& [id, all] : s.watches)
    for (const Watched& each : all) {
      if (!each.frozen) continue;
      const auto registers = each.frozen->registers({});
      if (registers) s.kept[id].push_back({each.expression, each.chain->plan(), each.type, each.frame, *registers});
    }
  disarmed(node);
}

// Forgets the instances and watches of a node whose process is about to end.
void GroupStopPoints::disarmed(NodeId node) {
  NodeStops& s = nodes_[node];
  s.watches.clear();
  s.armed = false;
  for (StopPointId id : points_.ids()) points_.find(id)->instances.erase(node);
}

void GroupStopPoints::restart() {
  for (auto& [id, s] : nodes_) disarmed(id);
}

Result<void> GroupStopPoints::remove(uint32_t number) {
  FRIDAY_TRY(point, points_.get({number}));
  disarm_all(*point);
  return points_.remove({number});
}

Result<void> GroupStopPoints::enable(uint32_t number, bool on) {
  FRIDAY_TRY(point, points_.get({number}));
  if (point->enabled == on) return {};
  point->enabled = on;
  if (!on) disarm_all(*point);
  else if (auto armed = arm_on_nodes(*point); !armed) {
    point->enabled = false;
    return armed;
  }
  return {};
}

Result<void> GroupStopPoints::ignore(uint32_t number, uint64_t count) {
  FRIDAY_TRY(point, points_.get({number}));
  point->ignore_count = count;
  return {};
}

Result<void> GroupStopPoints::set_condition(uint32_t number, const std::string& text) {
  FRIDAY_TRY(point, points_.get({number}));
  if (point->kind == StopKind::breakpoint) FRIDAY_TRY_VOID(check_condition(*point, clean(text)));
  point->condition = clean(text);
  return {};
}

Result<void> GroupStopPoints::set_patch_stores(bool on) {
  patch_stores_ = on;
  for (NodeId id : session_.nodes())
    if (ReplayNode* node = session_.find(id); node->has_process() && node->state() == NodeState::live) {
      FRIDAY_TRY_VOID(node->stop_threads());
      FRIDAY_TRY_VOID(node->watches().stores().enable(on));
    }
  return {};
}

}  // namespace friday
