// The constraints of what the program's own code does: flows, and calls of functions with code. points_to_external.cc
// has those of functions without code.
#include "core/cut/points_to.h"

#include <algorithm>
#include <numeric>

namespace friday::cut {

PointsTo::PointsTo(const Facts& facts, const Annotations& annotations, const PointsToOptions& options)
    : facts_(facts), annotations_(annotations), options_(options), contexts_(facts, annotations, options.limits) {
  for (Id i = 0; i < contexts_.pointers(); i++) solver_.add_node();  // their ids are those of the pointers
  add_items();
  for (const Flow& each : facts.flows) add_flow(kNone, each);
  for (Id i = 0; i < contexts_.contexts().size(); i++)
    for (const Id flow : contexts_.flows_of(contexts_.contexts()[i].function)) add_flow(i, facts.flows[flow]);
  add_variables();
  add_entries();
  add_sites();
  solver_.solve([this](uint32_t watch, uint32_t object) { reached(watch, object); });
}

uint32_t PointsTo::add_item(Item item, Node content) {
  items_.push_back(std::move(item));
  return solver_.add_object(content);
}

void PointsTo::add_items() {
  for (Id i = 0; i < contexts_.objects(); i++) {
    const Id original = contexts_.original_object(i);
    const Object& object = facts_.objects[original];
    const bool is_function = object.kind == ObjectKind::function;
    const bool declared = object.kind == ObjectKind::global && object.linkage == Linkage::declared;
    add_item({.kind = object.kind,
              .object = original,
              .call = object.call,
              .function = object.function,
              .name = is_function ? facts_.functions[object.function].name : object.name,
              .size = object.size,
              .constant = object.constant && !declared,
              .outside = declared},
             is_function ? kNoNode : solver_.add_node());
    if (object.kind == ObjectKind::heap && object.call != kNone && i == original) given_objects_[object.call] = i;
  }
}

void PointsTo::add_flow(Id context, const Flow& flow) {
  const Node to = pointer(context, flow.to), from = pointer(context, flow.from);
  const uint32_t object = contexts_.object(context, flow.object);
  switch (flow.kind) {
    case FlowKind::address: return solver_.point(to, object);
    case FlowKind::copy: return solver_.copy(from, to);
    case FlowKind::load: return solver_.load(from, to);
    case FlowKind::store: return solver_.store(to, from);
    case FlowKind::initial:
      if (const Node content = solver_.content_of(object); content != kNoNode) solver_.copy(from, content);
      return;
    case FlowKind::move: {
      const bool piece = flow.offset != kAnyOffset && flow.offset < 8;
      if (piece && !options_.pieces_carry_pointers) return;
      const Node moved = solver_.add_node();
      solver_.load(from, moved);
      return solver_.store(to, moved);
    }
  }
}

// What is in variables that the program only declares: those of libraries.
void PointsTo::add_variables() {
  for (uint32_t i = 0; i < contexts_.objects(); i++) {
    if (!items_[i].outside) continue;
    const std::string name = items_[i].name;
    if (const AnnotatedValue* known = annotations_.variable(name)) {
      items_[i].constant = known->kind == AnnotatedValue::Kind::constant;
      items_[i].outside = !items_[i].constant;
      solver_.copy(named(*known), solver_.content_of(i));
    } else {
      solver_.point(library(annotations_.library(name)).known, i);
    }
  }
}

// What the loader calls; of a program without main(), which is a library, all that others can call.
void PointsTo::add_entries() {
  const bool has_main = std::ranges::any_of(facts_.functions, [](const Function& each) {
    return each.name == "main" && each.linkage != Linkage::declared && each.linkage != Linkage::internal;
  });
  for (Id i = 0; i < facts_.functions.size(); i++) {
    const Function& each = facts_.functions[i];
    if (each.linkage == Linkage::declared) continue;
    const bool is_main = has_main && each.name == "main" && each.linkage != Linkage::internal;
    if (is_main || each.started) {
      enter(i, kNone);
      const Node arguments = named({.kind = AnnotatedValue::Kind::own, .name = "arguments"});
      for (const Handed& parameter : each.parameters)
        if (parameter.pointer != kNone) solver_.copy(arguments, parameter.pointer);
    } else if (!has_main && each.linkage != Linkage::internal) {
      const Library callers = library("");
      enter(i, callers.external);
      for (const Handed& parameter : each.parameters)
        if (parameter.pointer != kNone) solver_.copy(callers.known, parameter.pointer);
      if (each.result.pointer != kNone) solver_.copy(each.result.pointer, callers.known);
    }
  }
}

void PointsTo::enter(Id function, Id external) {
  if (entered_.emplace(function, external).second) entries_.push_back({function, external});
}

void PointsTo::add_sites() {
  const auto& sites = contexts_.sites();
  for (uint32_t i = 0; i < sites.size(); i++) {
    const Call& call = facts_.calls[sites[i].call];
    if (call.callee != kNone) {
      connect(i, call.callee, sites[i].callee);
      continue;
    }
    solver_.watch(pointer(sites[i].context, call.target), static_cast<uint32_t>(watches_.size()));
    watches_.push_back({WatchKind::call, i, kNone, {}, kNoNode, {}});
  }
}

PointsTo::Node PointsTo::argument(uint32_t site, uint32_t index) const {
  const auto& [call, context, callee] = contexts_.sites()[site];
  const auto& arguments = facts_.calls[call].arguments;
  return index < arguments.size() ? pointer(context, arguments[index].pointer) : kNoNode;
}

PointsTo::Node PointsTo::result_of(uint32_t site) {
  const auto& [call, context, callee] = contexts_.sites()[site];
  if (const Id result = facts_.calls[call].result.pointer; result != kNone) return pointer(context, result);
  const auto [known, is_new] = results_.try_emplace(site, kNoNode);
  if (is_new) known->second = solver_.add_node();
  return known->second;
}

void PointsTo::reached(uint32_t watch, uint32_t object) {
  if (!watches_[watch].seen.insert(object)) return;
  const WatchKind kind = watches_[watch].kind;
  if (kind == WatchKind::call) return reached_by_call(watches_[watch].site, object);
  if (items_[object].kind == ObjectKind::function) connect_callback(Watch(watches_[watch]), items_[object].function);
}

bool PointsTo::fits(uint64_t shape, const Function& function) const {
  return shape == 0 || function.shape == shape || function.variadic;
}

void PointsTo::reached_by_call(uint32_t site, uint32_t object) {
  const Call& call = facts_.calls[contexts_.sites()[site].call];
  if (items_[object].kind == ObjectKind::function) {
    const Id function = items_[object].function;
    if (fits(call.shape, facts_.functions[function])) connect(site, function, kNone);
  } else if (const auto code = library_of_item_.find(object); code != library_of_item_.end()) {
    connect_unknown(site, std::string(code->second));
  }
}

// A function that gives new memory, and whose description says so: its result is not what its body returns.
bool PointsTo::is_known_allocator(Id function) const {
  const Function& each = facts_.functions[function];
  const Annotation* annotation = annotations_.function(each.name);
  return annotation != nullptr && each.result.pointer != kNone &&
         std::ranges::any_of(annotation->returns, [](const Annotation::Result& result) {
           return result.value.kind == AnnotatedValue::Kind::fresh || result.value.kind == AnnotatedValue::Kind::shared;
         });
}

void PointsTo::connect(uint32_t site, Id function, Id context) {
  if (!connected_.emplace(site, function).second) return;
  if (facts_.functions[function].linkage == Linkage::declared) return connect_external(site, function);
  targets_.push_back({site, kNone, function, context, false});
  pass(site, function, context);
  if (!is_known_allocator(function)) return;
  external_calls_.push_back({site, external(facts_.functions[function].name, false), true, false});
  annotate(site, *annotations_.function(facts_.functions[function].name), kNone, function);
}

// Arguments to parameters, those of `...` to the memory that va_start hands out, and the result back.
void PointsTo::pass(uint32_t site, Id function, Id context) {
  const auto& [call_id, caller_context, callee] = contexts_.sites()[site];
  const Call& call = facts_.calls[call_id];
  const Function& to = facts_.functions[function];
  for (uint32_t i = 0; i < call.arguments.size(); i++) {
    const Node from = argument(site, i);
    if (from == kNoNode) continue;
    if (i < to.parameters.size()) {
      if (to.parameters[i].pointer != kNone) solver_.copy(from, pointer(context, to.parameters[i].pointer));
    } else if (to.variable_arguments != kNone) {
      solver_.store(pointer(context, to.variable_arguments), from);
    }
  }
  if (call.result.pointer != kNone && to.result.pointer != kNone && !is_known_allocator(function))
    solver_.copy(pointer(context, to.result.pointer), pointer(caller_context, call.result.pointer));
}

}  // namespace friday::cut
