// Runs random programs (cut_support.h), so that predictions about all runs can be compared with some.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/cut/points_to.h"

namespace friday::cut::testing {

// Runs a program of random_program(): the flows and calls of a function in random order, by values. Checks that each
// pointer points to what was predicted, and tells an observer what is read, written and called.
class Interpreter {
 public:
  struct Observer {
    // Code of a function reads or writes by a pointer. `items` are those of PointsTo that may stand for the memory.
    std::function<void(Id function, Id pointer, bool writes, const std::set<uint32_t>& items)> access;
    // The same, of a function without code that `call` calls.
    std::function<void(Id call, bool writes, const std::set<uint32_t>& items)> external_access;
    // A function is entered from this call; by a callback if `callback`.
    std::function<void(Id call, Id function, bool callback)> enters;
  };

  Interpreter(const Facts& facts, const PointsTo& points_to, std::mt19937& random, Observer observer = {})
      : facts_(facts), points_to_(points_to), random_(random), observer_(std::move(observer)) {
    const auto& sites = points_to.contexts().sites();
    for (uint32_t i = 0; i < sites.size(); i++) site_[{sites[i].call, sites[i].context}] = sites[i].callee;
    for (uint32_t i = 0; i < points_to.items().size(); i++) {
      const PointsTo::Item& item = points_to.items()[i];
      if (item.kind == ObjectKind::heap) heap_[item.call].insert(i);
      if (item.name == "memory of libraries without description") library_item_ = i;
    }
    calls_.resize(facts.functions.size());
    for (Id i = 0; i < facts.calls.size(); i++) calls_[facts.calls[i].function].push_back(i);
  }

  // Empty if all was predicted.
  std::string run() {
    for (int i = 0; i < 6 && wrong_.empty(); i++) enter(0, kNone, {}, 0);
    return wrong_;
  }
  size_t checks() const { return checks_; }

 private:
  struct Thing {
    std::set<uint32_t> items;  // one of these stands for it
    Id function = kNone;
    std::vector<Thing*> content;
  };
  using Env = std::map<Id, Thing*>;

  size_t below(size_t limit) { return random_() % limit; }
  Thing* make(std::set<uint32_t> items, Id function = kNone) {
    things_.push_back({std::move(items), function, {}});
    return &things_.back();
  }
  Thing* global(Id object) {
    Thing*& thing = globals_[object];
    if (thing == nullptr)
      thing =
          make({object}, facts_.objects[object].kind == ObjectKind::function ? facts_.objects[object].function : kNone);
    return thing;
  }
  static Thing* get(const Env& env, Id pointer) {
    const auto known = env.find(pointer);
    return known == env.end() ? nullptr : known->second;
  }
  Thing* loaded(Thing* from) {
    return from == nullptr || from->content.empty() ? nullptr : from->content[below(from->content.size())];
  }

  bool holds(const SparseSet& set, const Thing& thing) {
    checks_++;
    for (const uint32_t item : thing.items)
      if (set.contains(item)) return true;
    return false;
  }
  void set(Env& env, Id context, Id pointer, Thing* thing) {
    if (thing == nullptr || pointer == kNone) return;
    env[pointer] = thing;
    if (!holds(points_to_.points(context, pointer), *thing) && wrong_.empty())
      wrong_ = fmt::format("pointer {} in context {} points to item {}", pointer, context, *thing->items.begin());
  }
  void put(Thing* to, Thing* value) {
    if (to == nullptr || value == nullptr || to->function != kNone) return;
    to->content.push_back(value);
    bool any = false;
    for (const uint32_t item : to->items) any = any || holds(*points_to_.content(item), *value);
    if (!any && wrong_.empty())
      wrong_ = fmt::format("item {} holds a pointer to item {}", *to->items.begin(), *value->items.begin());
  }

  Thing* enter(Id function, Id context, const std::vector<Thing*>& arguments, int depth) {
    Env env;
    std::map<Id, Thing*> locals;
    const auto& parameters = facts_.functions[function].parameters;
    for (size_t i = 0; i < std::min(parameters.size(), arguments.size()); i++)
      set(env, context, parameters[i].pointer, arguments[i]);
    const auto flows = points_to_.contexts().flows_of(function);
    const size_t steps = 3 * (flows.size() + calls_[function].size());
    for (size_t i = 0; i < steps && wrong_.empty() && ++steps_ < 20'000; i++) {
      const size_t pick = below(flows.size() + calls_[function].size());
      if (pick < flows.size()) step(env, locals, context, facts_.flows[flows[pick]]);
      else if (depth < 6) call(env, context, calls_[function][pick - flows.size()], depth);
    }
    return get(env, facts_.functions[function].result.pointer);
  }

  void observe(Id function, Id pointer, bool writes, const Thing* thing) {
    if (observer_.access && thing != nullptr && thing->function == kNone)
      observer_.access(function, pointer, writes, thing->items);
  }
  void observe_external(Id call, bool writes, const Thing* thing) {
    if (observer_.external_access && thing != nullptr && thing->function == kNone)
      observer_.external_access(call, writes, thing->items);
  }
  void observe_entry(Id call, Id function, bool callback) {
    if (observer_.enters) observer_.enters(call, function, callback);
  }

  void step(Env& env, std::map<Id, Thing*>& locals, Id context, const Flow& flow) {
    switch (flow.kind) {
      case FlowKind::address: {
        const bool local = facts_.objects[flow.object].kind == ObjectKind::stack;
        Thing*& thing = locals[flow.object];
        if (local && thing == nullptr) thing = make({points_to_.contexts().object(context, flow.object)});
        return set(env, context, flow.to, local ? thing : global(flow.object));
      }
      case FlowKind::copy: return set(env, context, flow.to, get(env, flow.from));
      case FlowKind::load:
        observe(flow.function, flow.from, false, get(env, flow.from));
        return set(env, context, flow.to, loaded(get(env, flow.from)));
      case FlowKind::store:
        observe(flow.function, flow.to, true, get(env, flow.to));
        return put(get(env, flow.to), get(env, flow.from));
      case FlowKind::move:
        observe(flow.function, flow.from, false, get(env, flow.from));
        observe(flow.function, flow.to, true, get(env, flow.to));
        return put(get(env, flow.to), loaded(get(env, flow.from)));
      case FlowKind::initial: return;
    }
  }

  void call(Env& env, Id context, Id id, int depth) {
    const Call& call = facts_.calls[id];
    std::vector<Thing*> arguments;
    for (const Handed& each : call.arguments) arguments.push_back(get(env, each.pointer));
    Id callee = call.callee;
    if (callee == kNone) {
      const Thing* target = get(env, call.target);
      if (target == nullptr || target->function == kNone) return;
      callee = target->function;
      if (facts_.functions[callee].shape != call.shape) return;
    }
    const Function& function = facts_.functions[callee];
    Thing* result = nullptr;
    if (function.linkage != Linkage::declared) {
      observe_entry(id, callee, false);
      result = enter(callee, call.callee == kNone ? kNone : site_.at({id, context}), arguments, depth + 1);
    } else {
      result = external(function.name, id, arguments, depth);
    }
    set(env, context, call.result.pointer, result);
  }

  Thing* external(const std::string& name, Id call, std::vector<Thing*>& arguments, int depth) {
    if (name == "malloc" || name == "calloc") return make(heap_[call]);
    if (name == "memcpy") {
      observe_external(call, false, arguments[1]);
      observe_external(call, true, arguments[0]);
      put(arguments[0], loaded(arguments[1]));
      return arguments[0];
    }
    if (name == "read") observe_external(call, true, arguments[1]);
    if (name == "qsort" && arguments[3] != nullptr && arguments[3]->function != kNone) {
      observe_entry(call, arguments[3]->function, false);
      enter(arguments[3]->function, kNone, {arguments[0], arguments[0]}, depth + 1);
    }
    return name == "unknown_function" ? unknown(call, arguments, depth) : nullptr;
  }

  // Does anything with what it was ever given.
  Thing* unknown(Id call, const std::vector<Thing*>& arguments, int depth) {
    if (known_.empty()) known_.push_back(make({library_item_}));
    for (Thing* each : arguments)
      if (each != nullptr) known_.push_back(each);
    for (int i = 0; i < 4; i++) {
      Thing *one = known_[below(known_.size())], *other = known_[below(known_.size())];
      observe_external(call, true, one);
      put(one, other);
      if (Thing* deeper = loaded(one); deeper != nullptr) known_.push_back(deeper);
      if (one->function == kNone || depth >= 5) continue;
      observe_entry(call, one->function, true);
      if (Thing* result = enter(one->function, kNone, {other, other}, depth + 1); result != nullptr)
        known_.push_back(result);
    }
    return known_[below(known_.size())];
  }

  const Facts& facts_;
  const PointsTo& points_to_;
  std::mt19937& random_;
  const Observer observer_;
  std::map<std::pair<Id, Id>, Id> site_;
  std::map<Id, std::set<uint32_t>> heap_;
  std::vector<std::vector<Id>> calls_;
  std::deque<Thing> things_;
  std::map<Id, Thing*> globals_;
  std::vector<Thing*> known_;
  uint32_t library_item_ = 0;
  size_t steps_ = 0, checks_ = 0;
  std::string wrong_;
};

}  // namespace friday::cut::testing
