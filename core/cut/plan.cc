#include "core/cut/plan.h"

#include <algorithm>

namespace friday::cut {
namespace {

class PlanMaker {
 public:
  PlanMaker(const LinkedProgram& program, const PointsTo& points_to, const DataFlow& graph, const Choice& choice)
      : facts_(program.facts), ids_(program.ids), points_to_(points_to), graph_(graph), choice_(choice) {}

  Plan run() {
    functions_.resize(facts_.functions.size());
    objects_.resize(facts_.objects.size());
    accesses_.resize(facts_.accesses.size());
    calls_.resize(facts_.calls.size());
    place_functions();
    place_objects();
    for (const DataFlow::Use& each : graph_.uses) place_use(each);
    place_calls();
    Plan plan{facts_.module, facts_.fingerprint, choice_.target, {}};
    for (size_t i = 0; i < facts_.modules.size(); i++)
      plan.modules.push_back({facts_.modules[i].name, facts_.modules[i].fingerprint,
                              of_module(functions_, ids_[i].functions), of_module(objects_, ids_[i].objects),
                              of_module(accesses_, ids_[i].accesses), of_module(calls_, ids_[i].calls)});
    return plan;
  }

 private:
  template <typename Flags>
  static std::vector<Flags> of_module(const std::vector<Flags>& flags, const std::vector<Id>& ids) {
    std::vector<Flags> own;
    for (const Id id : ids) own.push_back(id == kNone ? Flags{0} : flags[id]);
    return own;
  }

  bool is_inside(Id function) const {
    const uint32_t node = function == kNone ? kNone : graph_.function_node[function];
    return node != kNone && choice_.inside[node];
  }

  void place_functions() {
    for (Id i = 0; i < functions_.size(); i++)
      if (is_inside(i)) functions_[i] |= Plan::kInside;
    for (const Id each : choice_.functions) functions_[each] |= Plan::kTarget;
  }

  // Memory that no access reaches is where its function is; constants are the same everywhere.
  bool is_inside_item(uint32_t item) const {
    const PointsTo::Item& each = points_to_.items()[item];
    if (each.constant) return true;
    if (each.kind == ObjectKind::function) return is_inside(each.function);
    const uint32_t node = graph_.object_node[item];
    if (node != kNone) return choice_.inside[node];
    return each.kind == ObjectKind::stack && is_inside(each.function);
  }
  void place_objects() {
    for (uint32_t i = 0; i < points_to_.items().size(); i++) {
      const PointsTo::Item& each = points_to_.items()[i];
      const bool inside = is_inside_item(i);
      if (each.object != kNone) objects_[each.object] |= inside ? Plan::kObjectInside : Plan::kObjectOutside;
      if (each.kind == ObjectKind::heap && each.call != kNone)
        calls_[each.call] |= inside ? Plan::kAllocatesInside : Plan::kAllocatesOutside;
    }
  }

  void place_use(const DataFlow::Use& use) {
    bool any_inside = false, any_outside = false;
    graph_.sets[use.set].for_each([&](uint32_t item) { (is_inside_item(item) ? any_inside : any_outside) = true; });
    const bool inside = is_inside(use.function);
    const bool logs_read = inside && use.reads && any_outside;
    const bool enters = !inside && use.writes && any_inside;
    const bool leaves = inside && use.writes && any_outside;
    if (use.access != kNone)
      accesses_[use.access] |= static_cast<uint8_t>(
          (logs_read ? Plan::kLogsRead : 0) | (enters ? Plan::kEntersMemory : 0) | (leaves ? Plan::kLeavesMemory : 0));
    else
      calls_[use.call] |=
          static_cast<uint16_t>((logs_read ? Plan::kCallLogsRead : 0) | (enters ? Plan::kCallEntersMemory : 0) |
                                (leaves ? Plan::kCallLeavesMemory : 0));
  }

  void place_calls() {
    const auto caller_of = [&](uint32_t site) {
      return facts_.calls[points_to_.contexts().sites()[site].call].function;
    };
    const auto call_of = [&](uint32_t site) -> uint16_t& { return calls_[points_to_.contexts().sites()[site].call]; };
    for (const PointsTo::Target& each : points_to_.targets()) {
      const bool from_inside = each.external == kNone && is_inside(caller_of(each.site));
      if (!from_inside && is_inside(each.function)) call_of(each.site) |= Plan::kCallsInside;
      if (from_inside && !is_inside(each.function)) call_of(each.site) |= Plan::kCallsOutside;
    }
    for (const PointsTo::ExternalCall& each : points_to_.external_calls())
      if (each.is_call && !each.deterministic && is_inside(caller_of(each.site)))
        call_of(each.site) |= Plan::kCallsOutside;
    place_library_calls();
  }

  // A library may call what it was given at any call of one of its functions.
  void place_library_calls() {
    const bool any = std::ranges::any_of(points_to_.entries(), [&](const PointsTo::Entry& each) {
      return each.external != kNone && is_inside(each.function);
    });
    if (!any) return;
    for (const PointsTo::Effect& each : points_to_.effects())
      if (each.unknown) calls_[points_to_.contexts().sites()[each.site].call] |= Plan::kCallsInside;
  }

  const Facts& facts_;
  const std::vector<ModuleIds>& ids_;
  const PointsTo& points_to_;
  const DataFlow& graph_;
  const Choice& choice_;
  std::vector<uint8_t> functions_, objects_, accesses_;
  std::vector<uint16_t> calls_;
};

}  // namespace

Plan make_plan(const LinkedProgram& program, const PointsTo& points_to, const DataFlow& graph, const Choice& choice) {
  return PlanMaker(program, points_to, graph, choice).run();
}

Result<const Plan::Module*> Plan::module(std::string_view name, std::string_view of_fingerprint) const {
  const Module* same_name = nullptr;
  for (const Module& each : modules) {
    if (each.fingerprint == of_fingerprint) return &each;
    if (each.name == name) same_name = &each;
  }
  return fail(ErrorCode::bad_input,
              "the plan of {} does not fit {}, whose fingerprint is {}: {}. Run `friday cut choose` again "
              "on this build",
              program, name, of_fingerprint,
              same_name == nullptr
                  ? std::string("it has no such module")
                  : fmt::format("it was made of a build with the fingerprint {}", same_name->fingerprint));
}

}  // namespace friday::cut
