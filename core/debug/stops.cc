// Stop points over all nodes: resolved by each node's gdb, armed in each node, judged when one is hit.
#include <algorithm>
#include <chrono>

#include <nlohmann/json.hpp>

#include "core/debug/debugger.h"
#include "core/mi/value.h"
#include "core/stop/agent.h"

namespace friday {
namespace {

constexpr auto kConditionsTime = std::chrono::seconds(2);

std::string clean(std::string text) {
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.pop_back();
  size_t from = text.find_first_not_of(" \t");
  return from == std::string::npos ? "" : text.substr(from);
}

// `-l EXPR`, `-reads EXPR` and their like, in any order, before the first expression; they are meant for all.
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
                  "watch has no option {}: there are -l (the memory that EXPR means now), -page (protect pages of "
                  "stacks too), -writes (writes of the same value too), -reads (reads instead of writes), -access "
                  "(reads and writes) and -pending (EXPR may be in a library that is not loaded yet)",
                  option);
    first = clean(first.substr(end));
    if (first.empty()) return fail(ErrorCode::usage, "watch {} needs an expression behind it", option);
  }
  return {};
}

}  // namespace

// Of the nodes that a stop point is for, one at least must be replayed.
Result<void> Debugger::any_replayed(const std::vector<NodeId>& nodes) {
  if (std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return session_->find(id); })) return {};
  return fail(ErrorCode::unsupported, "none of these nodes is replayed; name them with --node");
}

Result<uint32_t> Debugger::add_breakpoint(const std::vector<NodeId>& nodes, const std::string& location,
                                          const std::string& condition) {
  FRIDAY_TRY_VOID(any_replayed(nodes));
  StopPoint point;
  point.kind = StopKind::breakpoint;
  point.nodes.ids = nodes;
  point.location = clean(location);
  if (constexpr std::string_view waits = "-pending "; point.location.starts_with(waits)) {
    point.may_wait = true;
    point.location = clean(point.location.substr(waits.size()));
  }
  point.condition = clean(condition);
  FRIDAY_TRY(id, points_.add(std::move(point)));
  if (auto armed = arm_on_nodes(*points_.find(id)); !armed) {
    points_.withdraw(id);
    return std::unexpected(armed.error());
  }
  return id.value;
}

Result<uint32_t> Debugger::add_watch(const std::vector<NodeId>& nodes, const std::vector<std::string>& expressions,
                                     const std::string& condition) {
  FRIDAY_TRY_VOID(any_replayed(nodes));
  StopPoint point;
  point.kind = StopKind::watchpoint;
  point.nodes.ids = nodes;
  for (const auto& e : expressions) point.expressions.push_back(clean(e));
  FRIDAY_TRY_VOID(take_options(point));
  point.condition = clean(condition);
  FRIDAY_TRY(id, points_.add(std::move(point)));
  if (auto armed = arm_on_nodes(*points_.find(id)); !armed) {
    points_.withdraw(id);
    return std::unexpected(armed.error());
  }
  return id.value;
}

Result<uint32_t> Debugger::add_timer(double seconds) {
  if (!(seconds > 0)) return fail(ErrorCode::usage, "a timer needs a period above 0 s, not {}", seconds);
  StopPoint point;  // takes its id from the one sequence
  point.location = fmt::format("every {} s", seconds);
  FRIDAY_TRY(id, points_.add(std::move(point)));
  timers_[id.value] = Timer{static_cast<int64_t>(seconds * 1e9), 0, true};
  return id.value;
}

// Puts a stop point in force on its nodes. Where that fails, in another program or before a library is loaded, it is
// pending; an error, and in force nowhere, when it fails everywhere.
Result<void> Debugger::arm_on_nodes(StopPoint& point) {
  std::optional<Error> failure;
  size_t placed = 0;
  for (NodeId id : point.nodes.ids) {
    ReplayNode* node = session_->find(id);
    if (!node || !node->has_process() || (point.kind == StopKind::watchpoint && node->state() == NodeState::ended))
      continue;
    auto done = arm(point, *node);
    if (done) placed++;
    else if (!failure) failure = done.error();
  }
  if (placed > 0 || !failure || point.may_wait) return {};
  disarm_all(point);
  lost_part_.reset();  // who asked for it is told
  return std::unexpected(std::move(*failure));
}

Result<void> Debugger::arm(StopPoint& point, ReplayNode& node) {
  if (!point.enabled || timers_.contains(point.id.value)) return {};
  point.pending.erase(node.id());
  auto try_arm = [&] {
    return point.kind == StopKind::breakpoint ? arm_breakpoint(point, node) : arm_watch(point, node);
  };
  auto done = try_arm();
  if (!done && done.error().code == ErrorCode::component_died)
    done = try_arm();  // another gdb is in the place of one that died
  if (!done && done.error().code == ErrorCode::component_died)
    lost_part_ = fmt::format("node {} ({}): stop point {} could not be set: {}", node.id(), node.info().name,
                             point.id.value, done.error().message);
  if (done) point.placed = true;
  else point.pending[node.id()] = done.error().message;
  return done;
}

Result<void> Debugger::arm_breakpoint(StopPoint& point, ReplayNode& node) {
  FRIDAY_TRY(locations, locate(node.id(), point.location));
  FRIDAY_TRY_VOID(node.make_pad_areas());
  auto& instances = point.instances[node.id()];
  instances.clear();
  (void)node.breakpoints().remove_all(
      {BreakpointOwner::Kind::stop_point, point.id.value});  // of one that is placed anew
  std::optional<Error> refused;
  for (const CodeLocation& location : locations) {
    const Addr address{address_of(node.id(), location)};
    if (auto fit = check_place(node, address, point.location.starts_with('*')); !fit) {
      refused = fit.error();  // of a function's several places, the shim's own are none
      continue;
    }
    FRIDAY_TRY_VOID(node.breakpoints().insert(address, {BreakpointOwner::Kind::stop_point, point.id.value}));
    instances.push_back({address, 0, static_cast<uint32_t>(instances.size()), location.text});
  }
  if (instances.empty() && refused) return std::unexpected(*refused);
  return {};
}

Result<void> Debugger::arm_watch(StopPoint& point, ReplayNode& node) {
  FRIDAY_TRY_VOID(node.make_pad_areas());  // for stores that will be patched
  state(node.id()).watches[point.id.value].clear();
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

Result<void> Debugger::arm_expression(StopPoint& point, ReplayNode& node, const std::string& expression,
                                      const std::string& text) {
  FRIDAY_TRY(inherited, inherit_watches(point, node, expression));
  const auto& watches = state(node.id()).watches[point.id.value];
  const auto armed = inherited ? Result<void>() : watch_expression(point, node, expression, text, false, true);
  if (armed && (watches.empty() || (!watches.back().frame && !watches.back().chain->plan()->fixed)))
    return {};  // a variable that is always there
  // FUNC::LOCAL, of the calls of FUNC that are to come.
  const auto local = point.by_place ? std::nullopt : split_local(text);
  if (local && locate(node.id(), local->first)) return arm_entries(point, node, local->first, local->second);
  return armed;
}

// How the expression is evaluated whenever what it reads changes. What only gdb can evaluate is taken as the place that
// it has now.
Result<std::shared_ptr<const ExpressionPlan>> Debugger::watch_plan(const StopPoint& point, ReplayNode& node,
                                                                   const std::string& shown, const std::string& text,
                                                                   bool may_ask) {
  if (point.by_place) return place_now(node.id(), text, "");
  const KnownPlan* known = may_ask ? nullptr : known_plan(node.id(), text);
  if (!may_ask && (!known || known->refusal))
    return fail(ErrorCode::unsupported, "gdb is busy with a step, and was not asked about it before");
  std::shared_ptr<const ExpressionPlan> found = known ? known->plan : nullptr;
  if (!found) {
    FRIDAY_TRY(made, plan(node.id(), text));
    found = std::move(made.plan);
  }
  if (found->kind == ExpressionPlan::Kind::gdb) {
    if (!may_ask) return fail(ErrorCode::unsupported, "gdb is busy with a step");
    auto place = place_now(node.id(), text, found->reason);
    if (const auto local = split_local(text);
        local && !focus_.is_elsewhere(node.id()) && locate(node.id(), local->first)) {
      // A variable of a call of FUNC that has called others: its frame is not the innermost one, and its end would not
      // be seen. Who has selected that frame means it.
      if (place)
        notices_.push_back(fmt::format(
            "watch {}: {} is watched in the calls of {} that are to come, not in the one under way on node {}: {}",
            point.id.value, shown, local->first, node.id(), found->reason));
      return fail(ErrorCode::unsupported, "{} cannot be watched where another function runs", text);
    }
    auto fixed = fmt::format("watch {}: {} is watched where it stands now, as with -l: {}", point.id.value, shown,
                             found->reason);
    if (place && std::ranges::find(notices_, fixed) == notices_.end()) notices_.push_back(std::move(fixed));
    return place;
  }
  if (!found->place && (found->kind != ExpressionPlan::Kind::value || !found->registers.empty()))
    return fail(ErrorCode::unsupported, "{} cannot be watched: it has no place in memory", text);
  return found;
}

// `shown` is what the user wrote, `text` what is evaluated; `local`: it is a variable of the function just entered.
Result<void> Debugger::watch_expression(StopPoint& point, ReplayNode& node, const std::string& shown,
                                        const std::string& text, bool local, bool may_ask) {
  FRIDAY_TRY(thread, focus_.current_thread(node.id()));
  FRIDAY_TRY(plan, watch_plan(point, node, shown, text, may_ask));
  const bool in_frame = local || !plan->registers.empty();
  NodeContext& s = state(node.id());
  const uint32_t type = types_.add(*plan, plan->type), first = s.next_index;
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

void Debugger::disarm(StopPoint& point, ReplayNode& node) {
  (void)node.breakpoints().remove_all({BreakpointOwner::Kind::stop_point, point.id.value});
  node.watches().disarm(point.id);
  (void)node.flush_watches();  // a node that has ended runs no more, and would keep the traces of a watch
  state(node.id()).watches.erase(point.id.value);
  point.instances.erase(node.id());
}

void Debugger::disarm_all(StopPoint& point) {
  for (NodeId id : session_->nodes())
    if (ReplayNode* node = session_->find(id); node->has_process()) disarm(point, *node);
}

// A forked node is a copy of its parent: a breakpoint stands where it stands there, and no gdb need be asked.
bool Debugger::arm_as_in_parent(StopPoint& point, ReplayNode& node) {
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

// A node appeared: what covers it is put in force. What cannot be resolved stays pending.
void Debugger::arm_all(ReplayNode& node) {
  for (StopPointId id : points_.ids()) {
    StopPoint* point = points_.find(id);
    const auto& wanted = point->nodes.ids;
    if (std::find(wanted.begin(), wanted.end(), node.id()) == wanted.end()) continue;
    if (!arm_as_in_parent(*point, node)) (void)arm(*point, node);
  }
}

Result<void> Debugger::remove(uint32_t number) {
  FRIDAY_TRY(point, points_.get({number}));
  disarm_all(*point);
  timers_.erase(number);
  return points_.remove({number});
}

Result<void> Debugger::enable(uint32_t number, bool on) {
  FRIDAY_TRY(point, points_.get({number}));
  if (point->enabled == on) return {};
  point->enabled = on;
  if (auto timer = timers_.find(number); timer != timers_.end()) timer->second.enabled = on;
  if (!on) disarm_all(*point);
  else if (auto armed = arm_on_nodes(*point); !armed) {
    point->enabled = false;
    return armed;
  }
  return {};
}

Result<void> Debugger::ignore(uint32_t number, uint64_t count) {
  FRIDAY_TRY(point, points_.get({number}));
  point->ignore_count = count;
  return {};
}

Result<void> Debugger::condition(uint32_t number, const std::string& text) {
  FRIDAY_TRY(point, points_.get({number}));
  point->condition = clean(text);
  return {};
}

Result<void> Debugger::patch_stores(bool on) {
  patch_stores_ = on;
  for (NodeId id : session_->nodes())
    if (ReplayNode* node = session_->find(id); node->has_process() && node->state() == NodeState::live) {
      FRIDAY_TRY_VOID(node->stop_threads());
      FRIDAY_TRY_VOID(node->watches().stores().enable(on));
    }
  return {};
}

// The group stops anyhow once a condition has failed: after a while gdb is not asked about thousands of others.
bool Debugger::holds(const StopPoint& point, NodeId node, Judgement& judgement) {
  if (point.condition.empty()) return true;
  const bool ask = judgement.failure.empty() || std::chrono::steady_clock::now() - judgement.start < kConditionsTime;
  std::optional<RawValue> value;
  if (ask) {
    auto read_now = read(node, point.condition);
    if (!read_now && read_now.error().code == ErrorCode::component_died)
      read_now = read(node, point.condition);  // by another gdb
    if (!read_now && read_now.error().code == ErrorCode::component_died)
      lost_part_ = fmt::format("node {}: the condition of {} could not be judged: {}", node, point.id.value,
                               read_now.error().message);
    if (!read_now) {
      if (judgement.failure.empty())
        judgement.failure =
            fmt::format("the condition of {} could not be evaluated: {}", point.id.value, read_now.error().message);
      else judgement.more_failed++;
      return true;
    }
    value = std::move(*read_now);
  } else if (auto quick = read_quickly(node, point.condition)) {
    value = std::move(*quick);
  }
  if (!value) {
    judgement.more_failed++;
    return true;
  }
  const auto truth = types_.truth_of(value->type, value->bytes);
  if (truth) return *truth;
  if (judgement.failure.empty())
    judgement.failure = fmt::format("the condition of {} is neither true nor false: `{}` is a {}", point.id.value,
                                    point.condition, types_.name_of(value->type));
  else judgement.more_failed++;
  return true;
}

std::string Debugger::Judgement::note() const {
  return more_failed ? fmt::format("{}; nor could those of {} more", failure, more_failed) : failure;
}

bool Debugger::count(StopPoint& point) { return points_.count_hit(point.id) == HitVerdict::run_handlers; }

std::optional<DebugStop> Debugger::judge_breakpoint(Stop stop) {
  if (follow_loader(stop, true) || follow_frames(stop, true) || passing_) return std::nullopt;
  DebugStop out{std::move(stop), {}, {}};
  std::vector<uint32_t> ids;
  for (const auto& owner : out.owners)
    if (owner.kind == BreakpointOwner::Kind::stop_point) ids.push_back(owner.id);
  std::sort(ids.begin(), ids.end());
  Judgement judgement;
  for (uint32_t id : ids) {
    StopPoint* point = points_.find({id});
    if (point && point->enabled && holds(*point, out.node, judgement) && count(*point)) out.ids.push_back(id);
  }
  out.message = judgement.note();
  if (out.ids.empty()) return std::nullopt;
  return out;
}

std::optional<DebugStop> Debugger::judge_watch(Stop stop) {
  DebugStop out{std::move(stop), {}, {}};
  ReplayNode& node = *session_->find(out.node);
  Judgement judgement;
  for (auto& [number, watched] : state(out.node).watches) {
    StopPoint* point = points_.find({number});
    if (!point || !point->enabled) continue;
    // Every chain is brought up to date; the first that changed is what is told.
    std::optional<ChainChange> told;
    size_t which = 0;
    std::erase_if(watched, [&](Watched& each) {
      if (!each.frame || lives(node, *each.frame)) return false;
      each.chain->disarm(node.watches());
      return true;
    });
    for (size_t i = 0; i < watched.size(); i++) {
      auto change = watched[i].chain->update(out.hits, watched[i].seen_from(node), out.thread, node.watches());
      if (!change || !*change || !((*change)->value_changed || (*change)->accessed || point->any_write) || told ||
          std::ranges::find(out.told, point->id) != out.told.end())
        continue;
      told = std::move(**change);
      which = i;
    }
    if (!told || passing_ || !holds(*point, out.node, judgement) || !count(*point)) continue;
    out.ids.push_back(number);
    WatchChange change{number, watched[which].expression, std::nullopt, std::nullopt};
    const auto address = told->address ? std::optional(told->address->value) : std::nullopt;
    if (told->old_value) change.old_value = RawValue{watched[which].type, *told->old_value, address};
    if (told->new_value) change.new_value = RawValue{watched[which].type, *told->new_value, address};
    out.changes.push_back(std::move(change));
  }
  if (out.ids.empty()) return std::nullopt;
  out.message = judgement.note();
  return out;
}

}  // namespace friday
