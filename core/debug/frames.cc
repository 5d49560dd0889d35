// Watches of local variables. Such a watch lasts as long as the frame of the variable: a breakpoint at the return
// address ends it. `watch FUNC::LOCAL` has a breakpoint at each place where FUNC is entered, and watches the variable
// in each activation that begins. Both kinds of breakpoint belong to the watchpoint and are never reported as stops.
#include <algorithm>
#include <cstring>
#include <optional>

#include <nlohmann/json.hpp>

#include "core/debug/expression_text.h"
#include "core/debug/group_stop_points.h"

namespace friday {

namespace {

// A view of a node with the registers that a thread had when its frame was found. The plan of a local variable computes
// an address from these registers, which have changed by the time of a store to the variable.
class FrozenFrame final : public NodeControl {
 public:
  FrozenFrame(NodeControl& node, const user_regs_struct& registers) : node_(node), registers_(registers) {}
  NodeId id() const override { return node_.id(); }
  std::vector<ThreadInfo> threads() override { return node_.threads(); }
  Result<void> read(Addr address, std::span<std::byte> out) override { return node_.read(address, out); }
  Result<void> write(Addr address, std::span<const std::byte> data) override { return node_.write(address, data); }
  Result<void> read_raw(Addr address, std::span<std::byte> out) override { return node_.read_raw(address, out); }
  Result<void> write_raw(Addr address, std::span<const std::byte> data) override {
    return node_.write_raw(address, data);
  }
  Result<user_regs_struct> registers(ThreadId) override { return registers_; }
  Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) override {
    return node_.set_registers(thread, registers);
  }
  Result<std::vector<std::byte>> extended_state(ThreadId thread) override { return node_.extended_state(thread); }
  Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) override {
    return node_.set_extended_state(thread, state);
  }
  Result<int64_t> inject(long number, std::span<const uint64_t> arguments) override {
    return node_.inject(number, arguments);
  }
  Result<void> single_step(ThreadId thread) override { return node_.single_step(thread); }
  Result<std::vector<Mapping>> mappings() override { return node_.mappings(); }
  Result<std::vector<std::byte>> auxv() override { return node_.auxv(); }
  std::string executable() override { return node_.executable(); }

 private:
  NodeControl& node_;
  user_regs_struct registers_;
};

}  // namespace

// The innermost frame of the current thread; none if it has no caller. gdb is asked once for each instruction.
Result<std::optional<GroupStopPoints::FrameLife>> GroupStopPoints::current_frame(ReplayNode& node, bool may_ask) {
  auto& shapes = symbols_.code(node.id()).frames;
  FRIDAY_TRY(thread, focus_.current_thread(node.id()));
  FRIDAY_TRY(registers, node.registers(thread));
  auto shape = shapes.find(focus_.pc(node.id()));
  if (shape == shapes.end()) {
    if (!may_ask) return fail(ErrorCode::unsupported, "gdb is busy with a step and cannot be asked for the frame");
    FRIDAY_TRY(l, gdbs_.connect(node.id()));
    FRIDAY_TRY(answer, l->ask("-friday-frame", gdbs_));
    const auto json = nlohmann::json::parse(answer, nullptr, false);
    if (json.is_discarded())
      return fail(ErrorCode::bad_input, "node {}: gdb was asked for the frame and gave no valid answer", node.id());
    FrameShape fresh;
    if (json.is_object()) {
      const uint64_t frame = json["frame"];
      fresh.has_outer = true;
      fresh.by_base = frame - registers.rbp == 16;  // push %rbp; mov %rsp, %rbp
      fresh.offset = frame - (fresh.by_base ? registers.rbp : registers.rsp);
      fresh.function = json["function"].is_string() ? json["function"].get<std::string>() : "";
    }
    shape = shapes.emplace(focus_.pc(node.id()), std::move(fresh)).first;
  }
  if (!shape->second.has_outer) return std::optional<FrameLife>{};
  FrameLife frame{thread, (shape->second.by_base ? registers.rbp : registers.rsp) + shape->second.offset, 0,
                  shape->second.function};
  FRIDAY_TRY_VOID(node.read(Addr{frame.end - 8}, std::as_writable_bytes(std::span(&frame.back, 1))));
  return std::optional(std::move(frame));
}

// Whether the frame still exists: its return address is unchanged. It is not if the program has jumped out of the frame
// (longjmp, exceptions) and another frame has overwritten it.
bool GroupStopPoints::lives(ReplayNode& node, const FrameLife& frame) {
  uint64_t back = 0;
  return node.read(Addr{frame.end - 8}, std::as_writable_bytes(std::span(&back, 1))) && back == frame.back;
}

// Whether the stack of the thread reaches into the frame.
bool GroupStopPoints::is_within(ReplayNode& node, const FrameLife& frame) {
  const auto registers = node.registers(frame.thread);
  return registers && registers->rsp < frame.end;
}

NodeControl& GroupStopPoints::Watched::seen_from(ReplayNode& node) const {
  return frozen ? *frozen : static_cast<NodeControl&>(node);
}

// Makes a watch, which is not armed yet, end with the innermost frame of the current thread.
Result<void> GroupStopPoints::tie_to_frame(StopPoint& point, ReplayNode& node, Watched& watched, bool may_ask) {
  FRIDAY_TRY(thread, focus_.current_thread(node.id()));
  FRIDAY_TRY(registers, node.registers(thread));
  FRIDAY_TRY(frame, current_frame(node, may_ask));
  watched.frozen = std::make_unique<FrozenFrame>(node, registers);
  watched.frame = std::move(frame);
  if (!watched.frame) return {};
  FRIDAY_TRY_VOID(node.make_pad_areas());
  return node.breakpoints().insert(Addr{watched.frame->back}, {BreakpointOwner::Kind::stop_point, point.id.value});
}

// Watches a local variable in the frames in which it was watched when the group went back to an earlier time. Such a
// frame lives, or will be made again. Returns whether there are any.
Result<bool> GroupStopPoints::revive_watches(const StopPoint& point, ReplayNode& node, const std::string& expression) {
  NodeStops& s = nodes_[node.id()];
  const auto kept = s.kept.find(point.id.value);
  if (kept == s.kept.end()) return false;
  bool any = false;
  for (const Kept& each : kept->second) {
    if (each.expression != expression) continue;
    Watched watched;
    watched.expression = expression;
    watched.type = each.type;
    watched.frozen = std::make_unique<FrozenFrame>(node, each.registers);
    const ThreadId thread = each.frame ? each.frame->thread : focus_.selected_thread(node.id());
    if (watched.frame = each.frame; watched.frame) {
      watched.dormant = !lives(node, *each.frame) || !is_within(node, *each.frame);
      FRIDAY_TRY_VOID(
          node.breakpoints().insert(Addr{each.frame->back}, {BreakpointOwner::Kind::stop_point, point.id.value}));
    }
    watched.chain = std::make_unique<ChainWatch>(point.id, each.plan, s.next_index, point.any_write, point.access);
    s.next_index += ChainWatch::most_links + 1;
    FRIDAY_TRY_VOID(watched.chain->arm(watched.seen_from(node), thread, node.watches(), point.any_page));
    s.watches[point.id.value].push_back(std::move(watched));
    any = true;
  }
  return any;
}

// Gives a node that has just been forked the watches that its parent has for an expression; those of local variables
// only if their frame still exists. Returns whether there are any.
Result<bool> GroupStopPoints::inherit_watches(const StopPoint& point, ReplayNode& node, const std::string& expression) {
  if (gdbs_.serves_only() != node.id() || !node.info().parent) return false;
  const auto& all = nodes_[*node.info().parent].watches;
  auto of_parent = all.find(point.id.value);
  if (of_parent == all.end()) return false;
  FRIDAY_TRY(thread, focus_.current_thread(node.id()));
  FRIDAY_TRY(registers, node.registers(thread));
  FRIDAY_TRY(maps, node.mappings());
  const auto on_stack = [&](uint64_t rsp) {
    return std::ranges::any_of(maps, [&](const Mapping& map) {
      return map.low <= registers.rsp && registers.rsp < map.high && map.low <= rsp && rsp < map.high;
    });
  };
  NodeStops& s = nodes_[node.id()];
  bool any = false;
  for (const Watched& each : of_parent->second) {
    if (each.expression != expression) continue;
    Watched watched;
    watched.expression = expression;
    watched.type = each.type;
    if (each.frozen) {
      FRIDAY_TRY(found_with, each.frozen->registers(thread));
      if (!on_stack(found_with.rsp)) continue;  // on the stack of another thread, which the child does not have
      watched.frozen = std::make_unique<FrozenFrame>(node, found_with);
    }
    if (watched.frame = each.frame; watched.frame) {
      if (each.frame->end <= registers.rsp || !lives(node, *each.frame)) continue;
      watched.frame->thread = thread;
      FRIDAY_TRY_VOID(
          node.breakpoints().insert(Addr{watched.frame->back}, {BreakpointOwner::Kind::stop_point, point.id.value}));
    }
    watched.chain =
        std::make_unique<ChainWatch>(point.id, each.chain->plan(), s.next_index, point.any_write, point.access);
    s.next_index += ChainWatch::most_links + 1;
    FRIDAY_TRY_VOID(watched.chain->arm(watched.seen_from(node), thread, node.watches(), point.any_page));
    s.watches[point.id.value].push_back(std::move(watched));
    any = true;
  }
  return any;
}

// Sets breakpoints at all places where the function, or the block of it that declares the variable, is entered.
Result<void> GroupStopPoints::arm_entries(StopPoint& point, ReplayNode& node, const std::string& function,
                                          const std::string& variable) {
  FRIDAY_TRY(locations, symbols_.locate_local(node.id(), function, variable));
  auto& instances = point.instances[node.id()];
  for (const CodeLocation& location : locations) {
    const Addr address{symbols_.address_of(node.id(), location)};
    FRIDAY_TRY_VOID(node.breakpoints().insert(address, {BreakpointOwner::Kind::stop_point, point.id.value}));
    instances.push_back({address, 0, static_cast<uint32_t>(instances.size()), location.text});
  }
  return {};
}

// Whether a local variable is already watched in the innermost frame of the current thread. A block in a loop is
// entered more than once.
bool GroupStopPoints::is_watched(const StopPoint& point, ReplayNode& node, const std::string& expression,
                                 bool may_ask) {
  auto watches = nodes_[node.id()].watches.find(point.id.value);
  if (watches == nodes_[node.id()].watches.end() || watches->second.empty()) return false;
  const auto here = current_frame(node, may_ask);
  if (!here || !*here) return false;
  return std::ranges::any_of(watches->second, [&](const Watched& each) {
    return each.expression == expression && each.frame && each.frame->thread == (*here)->thread &&
           each.frame->end == (*here)->end && each.frame->back == (*here)->back;
  });
}

// Watches the local variables of a watchpoint in a function that was just entered.
void GroupStopPoints::enter_frame(StopPoint& point, ReplayNode& node, bool may_ask) {
  for (const auto& expression : point.expressions) {
    const auto local = split_local(expression);
    if (!local || is_watched(point, node, expression, may_ask)) continue;
    if (auto armed = watch_expression(point, node, expression, local->second, true, may_ask); !armed)
      notices_.push_back(fmt::format("watch {}: {} is not watched in this call of {} on node {}: {}", point.id.value,
                                     expression, local->first, node.id(), armed.error().message));
  }
}

// If the group has stopped at breakpoints that belong to watches of local variables, updates these watches and removes
// the breakpoints from stop.owners. Returns true if no other owner is left.
bool GroupStopPoints::follow_frames(Stop& stop, bool may_ask) {
  if (stop.kind != Stop::Kind::breakpoint) return false;
  std::vector<StopPoint*> mine;
  std::erase_if(stop.owners, [&](const BreakpointOwner& owner) {
    StopPoint* point = owner.kind == BreakpointOwner::Kind::stop_point ? points_.find({owner.id}) : nullptr;
    if (!point || point->kind != StopKind::watchpoint) return false;
    mine.push_back(point);
    return true;
  });
  if (mine.empty()) return false;
  ReplayNode& node = *session_.find(stop.node);
  for (StopPoint* point : mine) {
    leave_frames(*point, node, stop);
    const auto& entries = point->instances[node.id()];
    if (std::ranges::any_of(entries, [&](const StopInstance& each) { return each.address == stop.pc; }))
      enter_frame(*point, node, may_ask);
  }
  return stop.owners.empty();
}

void GroupStopPoints::leave_frames(StopPoint& point, ReplayNode& node, const Stop& stop) {
  auto watches = nodes_[node.id()].watches.find(point.id.value);
  auto registers = node.registers(stop.thread);
  if (watches == nodes_[node.id()].watches.end() || !registers) return;
  auto& all = watches->second;
  std::erase_if(all, [&](Watched& each) {
    if (!each.frame || each.dormant || each.frame->back != stop.pc.value || each.frame->thread != stop.thread ||
        registers->rsp < each.frame->end)
      return false;
    if (search_) return each.dormant = true, false;  // the frame of the place where the search began may be a later one
    each.chain->disarm(node.watches());
    if (!split_local(each.expression))
      notices_.push_back(fmt::format("watch {}: {} is gone on node {}: {} has returned", point.id.value,
                                     each.expression, node.id(),
                                     each.frame->function.empty() ? "its function" : each.frame->function));
    return true;
  });
  const bool waits =
      std::ranges::any_of(all, [&](const Watched& each) { return each.frame && each.frame->back == stop.pc.value; });
  const auto& entries = point.instances[node.id()];
  const bool enters = std::ranges::any_of(entries, [&](const StopInstance& each) { return each.address == stop.pc; });
  if (!waits && !enters) (void)node.breakpoints().remove(stop.pc, {BreakpointOwner::Kind::stop_point, point.id.value});
}

}  // namespace friday
