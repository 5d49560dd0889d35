#include "core/cut/contexts.h"

#include <algorithm>

#include "core/cut/makers.h"

namespace friday::cut {
namespace {

constexpr Id kShared = kNone - 1;  // as an owner: code of several functions, or of none, has the pointer

}  // namespace

Contexts::Contexts(const Facts& facts, const Annotations& annotations, const Limits& limits)
    : facts_(facts), annotations_(annotations) {
  const size_t functions = facts.functions.size();
  flows_ = index_of(functions, facts.flows.size(), [&](Id i) { return facts.flows[i].function; });
  calls_ = index_of(functions, facts.calls.size(), [&](Id i) { return facts.calls[i].function; });
  objects_of_ = index_of(functions, facts.objects.size(), [&](Id i) {
    return facts.objects[i].kind == ObjectKind::stack ? facts.objects[i].function : kNone;
  });
  object_place_.resize(facts.objects.size());
  for (Id function = 0; function < functions; function++)
    for (uint32_t i = 0; i < of(objects_of_, function).size(); i++) object_place_[of(objects_of_, function)[i]] = i;
  find_owners();
  choose_makers(limits);
  make_contexts(limits);
}

template <typename FunctionOf>
Contexts::Index Contexts::index_of(size_t functions, size_t count, FunctionOf function_of) {
  Index index;
  index.first.resize(functions + 1);
  for (Id i = 0; i < count; i++)
    if (const Id function = function_of(i); function < functions) index.first[function + 1]++;
  for (size_t i = 0; i < functions; i++) index.first[i + 1] += index.first[i];
  index.ids.resize(index.first[functions]);
  std::vector<uint32_t> next = index.first;
  for (Id i = 0; i < count; i++)
    if (const Id function = function_of(i); function < functions) index.ids[next[function]++] = i;
  return index;
}

void Contexts::find_owners() {
  owner_.assign(facts_.pointers, kNone);
  const auto note = [&](Id pointer, Id function) {
    if (pointer == kNone) return;
    Id& owner = owner_[pointer];
    if (function == kNone || (owner != kNone && owner != function)) owner = kShared;
    else owner = function;
  };
  for (const Flow& flow : facts_.flows) note(flow.to, flow.function), note(flow.from, flow.function);
  for (Id i = 0; i < facts_.functions.size(); i++) {
    const Function& function = facts_.functions[i];
    for (const Handed& each : function.parameters) note(each.pointer, i);
    note(function.result.pointer, i);
    note(function.variable_arguments, i);
  }
  for (const Call& call : facts_.calls) {
    for (const Handed& each : call.arguments) note(each.pointer, call.function);
    note(call.result.pointer, call.function);
    note(call.target, call.function);
  }
  for (const Access& access : facts_.accesses) note(access.pointer, access.function);
  pointers_of_ = index_of(facts_.functions.size(), facts_.pointers, [&](Id i) { return owner_[i]; });
  place_.resize(facts_.pointers);
  for (Id function = 0; function < facts_.functions.size(); function++)
    for (uint32_t i = 0; i < of(pointers_of_, function).size(); i++) place_[of(pointers_of_, function)[i]] = i;
}

Id Contexts::pointer(Id context, Id pointer) const {
  if (context == kNone || pointer == kNone || owner_[pointer] != contexts_[context].function) return pointer;
  return contexts_[context].first_pointer + place_[pointer];
}

Id Contexts::object(Id context, Id object) const {
  if (context == kNone || object == kNone) return object;
  const Object& each = facts_.objects[object];
  if (each.kind != ObjectKind::stack || each.function != contexts_[context].function) return object;
  return contexts_[context].first_object + object_place_[object];
}

// Takes as makers those that cost least, as long as there is room for all places that call them.
void Contexts::choose_makers(const Limits& limits) {
  const size_t functions = facts_.functions.size();
  const auto makes = find_makers(
      facts_, annotations_, [&](Id function) { return of(flows_, function); },
      [&](Id function) { return of(calls_, function); });
  is_maker_.assign(functions, false);
  for (Id i = 0; i < functions; i++) {
    const Annotation* annotation = annotations_.function(facts_.functions[i].name);
    is_maker_[i] = makes[i].any() && !(annotation != nullptr && annotation->allocates());
  }
  // Costs from the leaves of the calls on. A function that is reached again on the way down calls itself.
  enum class State : uint8_t { unknown, open, known };
  std::vector<State> states(functions, State::unknown);
  cost_.assign(functions, 0);
  struct Visit {
    Id function;
    size_t next;
  };
  std::vector<Visit> path;
  for (Id root = 0; root < functions; root++) {
    if (!is_maker_[root] || states[root] != State::unknown) continue;
    path.push_back({root, 0});
    while (!path.empty()) {
      auto& [function, next] = path.back();
      const auto calls = of(calls_, function);
      if (next == 0) states[function] = State::open, cost_[function] = of(flows_, function).size() + calls.size();
      if (next < calls.size()) {
        const Id callee = facts_.calls[calls[next]].callee;
        if (callee == kNone || !is_maker_[callee]) next++;
        else if (states[callee] == State::unknown) path.push_back({callee, 0});
        else if (states[callee] == State::open) is_maker_[callee] = false, next++;
        else cost_[function] += cost_[callee], next++;
        continue;
      }
      states[function] = State::known;
      if (cost_[function] > limits.flows_of_maker) is_maker_[function] = false;
      path.pop_back();
    }
  }
  std::vector<size_t> places(functions);
  for (const Call& call : facts_.calls)
    if (call.callee != kNone && is_maker_[call.callee] && !is_maker_[call.function]) places[call.callee]++;
  std::vector<Id> by_cost;
  for (Id i = 0; i < functions; i++)
    if (is_maker_[i]) by_cost.push_back(i);
  std::ranges::stable_sort(by_cost, {}, [&](Id i) { return places[i] * cost_[i]; });
  size_t total = 0;
  for (Id i : by_cost) {
    total += places[i] * cost_[i];
    if (total > limits.all_flows) is_maker_[i] = false;
  }
}

bool Contexts::is_within(Id context, Id function) const {
  for (; context != kNone; context = contexts_[context].parent)
    if (contexts_[context].function == function) return true;
  return false;
}

void Contexts::make_contexts(const Limits& limits) {
  std::vector<uint32_t> places(facts_.functions.size());
  for (const Call& call : facts_.calls)
    if (call.callee != kNone) places[call.callee]++;
  pointers_ = facts_.pointers;
  size_t flows = 0;
  const auto add = [&](Id call_id, Id within) {
    const Id callee = facts_.calls[call_id].callee;
    sites_.push_back({call_id, within, kNone});
    if (callee == kNone || !is_maker_[callee] || is_within(within, callee)) return;
    const uint32_t depth = within == kNone ? 0 : contexts_[within].depth + 1;
    const size_t more = of(flows_, callee).size() + of(calls_, callee).size();
    if ((within == kNone && places[callee] < 2) || depth >= limits.depth || flows + more > 2 * limits.all_flows) return;
    flows += more;
    sites_.back().callee = static_cast<Id>(contexts_.size());
    contexts_.push_back({callee, call_id, within, pointers_, objects(), depth});
    for (Id each : of(pointers_of_, callee)) copied_pointers_.push_back(each);
    for (Id each : of(objects_of_, callee)) copied_objects_.push_back(each);
    pointers_ = static_cast<Id>(facts_.pointers + copied_pointers_.size());
  };
  for (Id call = 0; call < facts_.calls.size(); call++) add(call, kNone);
  for (Id context = 0; context < contexts_.size(); context++)
    for (Id call : of(calls_, contexts_[context].function)) add(call, context);
}

}  // namespace friday::cut
