// Keeps stop points up to date when libraries are loaded and unloaded. The loader calls a function of its own before
// and after each change of its list (r_debug, <link.h>). At a breakpoint there, pending stop points are resolved again,
// and those whose code was unloaded become pending. Also checks whether a breakpoint may be set at an address.
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/debug/group_stop_points.h"
#include "core/rsp/libraries.h"
#include "core/stop/code_map.h"
#include "core/stop/instruction.h"

namespace friday {

namespace {

constexpr BreakpointOwner kLoaderOwner{BreakpointOwner::Kind::internal, 3};

}  // namespace

// Sets the breakpoint in the loader of a node that has just started.
void GroupStopPoints::watch_loader(ReplayNode& node) {
  auto place = find_r_debug(node);
  if (!place) return;
  NodeStops& s = nodes_[node.id()];
  s.r_debug = *place;
  auto loader = read_value<r_debug>(node, *place);
  // A process that was forked by a library's constructor starts in the middle of a change.
  const bool changing = loader && loader->r_state != r_debug::RT_CONSISTENT;
  s.loader = changing ? Loader::changing : Loader::followed;
  symbols_.code_changed(node.id(), changing);
  if (loader && loader->r_brk) (void)node.breakpoints().insert(Addr{loader->r_brk}, kLoaderOwner);
}

// Handles a stop at the loader's breakpoint: the list has changed or is about to. Removes that owner from the stop, and
// returns true if no other owner is left.
bool GroupStopPoints::follow_loader(Stop& stop, bool may_ask) {
  if (stop.kind != Stop::Kind::breakpoint || !std::erase(stop.owners, kLoaderOwner)) return false;
  ReplayNode& node = *session_.find(stop.node);
  NodeStops& s = nodes_[stop.node];
  auto loader = read_value<r_debug>(node, s.r_debug);
  const bool changing = loader && loader->r_state != r_debug::RT_CONSISTENT;
  if (changing) s.loader = Loader::changing;
  symbols_.code_changed(stop.node, changing);
  if (loader && !changing) {
    gdbs_.libraries_changed(stop.node);
    if (may_ask) follow_libraries(node);
    else s.loader = Loader::missed;
  }
  return stop.owners.empty();
}

void GroupStopPoints::follow_libraries(ReplayNode& node) {
  nodes_[node.id()].loader = Loader::followed;
  for (StopPointId id : points_.ids()) {
    StopPoint& point = *points_.find(id);
    if (point.kind == StopKind::breakpoint)
      if (auto placed = point.instances.find(node.id()); placed != point.instances.end()) {
        const size_t before = placed->second.size();
        std::erase_if(placed->second,
                      [&](const StopInstance& each) { return !node.breakpoints().contains(each.address); });
        if (before && placed->second.empty()) point.pending[node.id()] = "its library was unloaded";
      }
    // A stop point with -pending is always resolved again: its code or variable may be gone, may be at another address,
    // or, for a breakpoint, may be at an additional address.
    const bool anew = point.may_wait && std::ranges::find(point.nodes, node.id()) != point.nodes.end();
    if ((anew || point.pending.contains(node.id())) && point.enabled) (void)arm(point, node);
  }
}

void GroupStopPoints::follow_missed_libraries() {
  for (auto& [id, s] : nodes_)
    if (ReplayNode* node = s.loader == Loader::missed ? session_.find(id) : nullptr; node && node->has_process())
      follow_libraries(*node);
}

// Fails if a breakpoint must not be set at the address. With `typed`, the user gave the address itself, so it also must
// be the start of an instruction.
Result<void> GroupStopPoints::check_place(ReplayNode& node, Addr address, bool typed) {
  if ((address.value >= node.shim_low() && address.value < node.shim_high()) || node.in_shim(address.value) ||
      node.in_own_area(address.value))
    return fail(ErrorCode::unsupported, "node {}: {} is in Friday's own code, which is not part of the program",
                node.id(), address);
  if (!typed) return {};
  FRIDAY_TRY(maps, node.mappings());
  const auto map =
      std::ranges::find_if(maps, [&](const Mapping& m) { return address.value >= m.low && address.value < m.high; });
  if (map == maps.end() || !(map->protection & PROT_EXEC))
    return fail(ErrorCode::bad_address,
                "node {}: there is no code at {}; addresses differ from node to node, so name a function or a line, or "
                "set the breakpoint on one node (NODE break *ADDRESS)",
                node.id(), address);
  const auto code = map->path.starts_with('/') ? CodeMap::of(map->path) : nullptr;
  const auto linked = code ? code->address_of(map->offset + (address.value - map->low)) : std::nullopt;
  const auto start = linked ? code->function_at(*linked) : std::nullopt;
  if (!start) return {};
  for (uint64_t at = address.value - (*linked - *start); at < address.value;) {
    std::array<std::byte, max_instruction_length> bytes;
    if (!node.read(Addr{at}, bytes)) return {};
    const auto instruction = decode_instruction(Addr{at}, bytes);
    if (!instruction) return {};
    if (instruction->next() > address.value)
      return fail(ErrorCode::bad_address,
                  "node {}: {} is in the middle of the instruction from {:#x} to {:#x}; use its start", node.id(),
                  address, at, instruction->next());
    at = instruction->next();
  }
  return {};
}

}  // namespace friday
