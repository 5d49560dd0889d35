// The constraints of functions without code: what annotations say of them, or that they may do anything with what they
// reach.
#include <algorithm>

#include "core/cut/points_to.h"

namespace friday::cut {
namespace {

// Libraries whose memory may hold addresses of their code: `dlsym` returns "own libraries".
constexpr std::string_view kLoadedLibraries = "libraries";

bool does_nothing_with_memory(const Annotation& annotation) {
  return annotation.writes.empty() && annotation.moves.empty() && annotation.stores.empty() &&
         annotation.keeps.empty() && annotation.calls.empty();
}

}  // namespace

Id PointsTo::external(const std::string& name, bool is_library) {
  const auto [known, is_new] = external_of_.try_emplace({is_library, name}, static_cast<Id>(externals_.size()));
  if (is_new) externals_.push_back({name, is_library, 0});
  return known->second;
}

// All that a library knows is in one set: what it was given, what can be reached from there, and memory of its own. It
// may write any of these pointers to any of these places, return them, and call those that are functions.
const PointsTo::Library& PointsTo::library(const std::string& name) {
  const auto [known, is_new] = libraries_.try_emplace(name);
  Library& library = known->second;
  if (!is_new) return library;
  const std::string text = name.empty() ? "libraries without description" : "the library " + name;
  library.external = external(text, true);
  library.known = solver_.add_node();
  const uint32_t own = add_item({.name = "memory of " + text, .outside = true}, library.known);
  library_of_item_[own] = name;
  solver_.point(library.known, own);
  solver_.load(library.known, library.known);
  solver_.store(library.known, library.known);
  solver_.watch(library.known, static_cast<uint32_t>(watches_.size()));
  watches_.push_back({WatchKind::library, 0, library.external, {library.known}, library.known, {}});
  return library;
}

PointsTo::Node PointsTo::points_at(uint32_t item) {
  const auto [known, is_new] = points_at_.try_emplace(item, kNoNode);
  if (is_new) {
    known->second = solver_.add_node();
    solver_.point(known->second, item);
  }
  return known->second;
}

// Memory of a library, and what the C library keeps for the program. Pointers in the first lead back to it.
uint32_t PointsTo::named_item(const AnnotatedValue& value) {
  using Kind = AnnotatedValue::Kind;
  const auto known = named_items_.find({value.kind, value.name});
  if (known != named_items_.end()) return known->second;
  const Node content = solver_.add_node();
  const bool constant = value.kind == Kind::constant, kept = value.kind == Kind::kept;
  const uint32_t item = add_item({.name = fmt::format("{} {}",
                                                      kept       ? "kept"
                                                      : constant ? "constant"
                                                                 : "own",
                                                      value.name),
                                  .size = kept ? uint64_t{8} : uint64_t{0},
                                  .constant = constant,
                                  .outside = value.kind == Kind::own},
                                 content);
  if (value.kind == Kind::own && value.name == kLoadedLibraries) library_of_item_[item] = kLoadedLibraries;
  if (!kept) solver_.point(content, item);
  named_items_[{value.kind, value.name}] = item;
  return item;
}

PointsTo::Node PointsTo::named(const AnnotatedValue& value) {
  const uint32_t item = named_item(value);
  return value.kind == AnnotatedValue::Kind::kept ? solver_.content_of(item) : points_at(item);
}

PointsTo::Node PointsTo::allocated(uint32_t site, bool shared) {
  const auto known = allocated_.find({site, shared});
  if (known != allocated_.end()) return points_at(known->second);
  const auto& [call_id, context, callee] = contexts_.sites()[site];
  const auto given = given_objects_.find(call_id);
  uint32_t item = 0;
  if (given != given_objects_.end() && context == kNone && !shared) {
    item = given->second;
  } else {
    const Call& call = facts_.calls[call_id];
    const std::string what = call.callee == kNone ? "memory" : facts_.functions[call.callee].name;
    item = add_item({.kind = ObjectKind::heap,
                     .call = call_id,
                     .name = fmt::format("{} in {}, line {}", what, facts_.functions[call.function].name, call.line),
                     .outside = shared},
                    solver_.add_node());
  }
  allocated_[{site, shared}] = item;
  return points_at(item);
}

PointsTo::Node PointsTo::exported_symbols() {
  if (symbols_ != kNoNode) return symbols_;
  symbols_ = solver_.add_node();
  for (uint32_t i = 0; i < contexts_.objects(); i++) {
    const Object& object = facts_.objects[contexts_.original_object(i)];
    const bool function = object.kind == ObjectKind::function;
    const bool global = object.kind == ObjectKind::global;
    const Linkage linkage = function ? facts_.functions[object.function].linkage : object.linkage;
    if ((function || global) && (linkage == Linkage::strong || linkage == Linkage::weak)) solver_.point(symbols_, i);
  }
  return symbols_;
}

// The value without "below" or "all of"; none if the call has no such argument, or it cannot carry a pointer.
PointsTo::Node PointsTo::base_of(uint32_t site, const AnnotatedValue& value) {
  using Kind = AnnotatedValue::Kind;
  switch (value.kind) {
    case Kind::argument: {
      if (!value.onwards) return argument(site, value.argument);
      const Node all = solver_.add_node();
      const size_t count = facts_.calls[contexts_.sites()[site].call].arguments.size();
      for (uint32_t i = value.argument; i < count; i++)
        if (const Node each = argument(site, i); each != kNoNode) solver_.copy(each, all);
      return all;
    }
    case Kind::result: return result_of(site);
    case Kind::own:
    case Kind::constant:
    case Kind::kept: return named(value);
    case Kind::fresh:
    case Kind::shared: return allocated(site, value.kind == Kind::shared);
    case Kind::symbols: return exported_symbols();
  }
  return kNoNode;
}

PointsTo::Node PointsTo::value(uint32_t site, const AnnotatedValue& value) {
  const Node base = base_of(site, value);
  if (base == kNoNode || value.depth == AnnotatedValue::Depth::itself) return base;
  const Node deeper = solver_.add_node();
  solver_.load(base, deeper);
  if (value.depth == AnnotatedValue::Depth::all) {
    solver_.copy(base, deeper);
    solver_.load(deeper, deeper);
  }
  return deeper;
}

void PointsTo::connect_external(uint32_t site, Id function) {
  const std::string& name = facts_.functions[function].name;
  const Annotation* annotation = annotations_.function(name);
  if (annotation == nullptr) {
    unknown_[name]++;
    const Id actor = external(name, false);
    externals_[actor].calls++;
    external_calls_.push_back({site, actor, false, true});
    return connect_unknown(site, annotations_.library(name));
  }
  const Id actor = external(name, false);
  externals_[actor].calls++;
  external_calls_.push_back({site, actor, annotation->deterministic, true});
  annotate(site, *annotation, annotation->deterministic ? kNone : actor, kNone);
}

// The call gives the library all arguments, and gets anything that the library knows.
void PointsTo::connect_unknown(uint32_t site, const std::string& name) {
  const Library to = library(name);
  const Call& call = facts_.calls[contexts_.sites()[site].call];
  for (uint32_t i = 0; i < call.arguments.size(); i++)
    if (const Node each = argument(site, i); each != kNoNode) solver_.copy(each, to.known);
  if (call.result.pointer != kNone) solver_.copy(to.known, result_of(site));
  if (call.callee == kNone) external_calls_.push_back({site, to.external, false, true});
  Effect effect{
      .site = site, .external = to.external, .pointer = to.known, .writes = true, .unknown = true, .bytes = {}};
  effects_.push_back(std::move(effect));
}

void PointsTo::annotate(uint32_t site, const Annotation& annotation, Id external, Id function) {
  touch(site, annotation, external, function);
  move_pointers(site, annotation, external, function);
  if (function == kNone) call_back(site, annotation, external);
  for (const bool shared : {false, true})
    if (const auto made = allocated_.find({site, shared}); made != allocated_.end())
      allocations_.push_back({site, external, function, made->second});
}

void PointsTo::note_effect(Effect effect) {
  // What a function outside reads costs nothing: it does not run again.
  if (effect.pointer == kNoNode || (effect.external != kNone && !effect.writes)) return;
  effects_.push_back(std::move(effect));
}

void PointsTo::touch(uint32_t site, const Annotation& annotation, Id external, Id function) {
  const auto note = [&](const AnnotatedValue& memory, const AnnotatedBytes& bytes, bool reads) {
    note_effect({.site = site,
                 .external = external,
                 .function = function,
                 .pointer = value(site, memory),
                 .reads = reads,
                 .writes = !reads,
                 .unknown = false,
                 .bytes = bytes});
  };
  for (const Annotation::Touch& each : annotation.reads) note(each.memory, each.bytes, true);
  for (const Annotation::Touch& each : annotation.writes) note(each.memory, each.bytes, false);
  for (const Annotation::Move& each : annotation.moves) {
    note(each.from, each.bytes, true);
    note(each.to, each.bytes, false);
  }
}

void PointsTo::move_pointers(uint32_t site, const Annotation& annotation, Id external, Id function) {
  static const AnnotatedBytes kPointer{.kind = AnnotatedBytes::Kind::product, .factor = 8};
  const auto note = [&](Node pointer, bool reads) {
    note_effect({.site = site,
                 .external = external,
                 .function = function,
                 .pointer = pointer,
                 .reads = reads,
                 .writes = !reads,
                 .unknown = false,
                 .bytes = kPointer});
  };
  // A value may itself be read from memory.
  const auto take = [&](const AnnotatedValue& from) {
    if (from.kind == AnnotatedValue::Kind::kept) note(points_at(named_item(from)), true);
    if (from.depth != AnnotatedValue::Depth::itself) note(base_of(site, from), true);
    return value(site, from);
  };
  for (const Annotation::Move& each : annotation.moves) {
    const Node from = value(site, each.from), to = value(site, each.to);
    if (from == kNoNode || to == kNoNode) continue;
    const Node moved = solver_.add_node();
    solver_.load(from, moved);
    solver_.store(to, moved);
  }
  for (const Annotation::Result& each : annotation.returns)
    if (const Node from = take(each.value); from != kNoNode) solver_.copy(from, result_of(site));
  for (const Annotation::Store& each : annotation.stores) {
    const Node from = take(each.value), at = value(site, each.at);
    if (from == kNoNode || at == kNoNode) continue;
    solver_.store(at, from);
    note(at, false);
  }
  for (const Annotation::Keep& each : annotation.keeps) {
    const AnnotatedValue kept{.kind = AnnotatedValue::Kind::kept, .name = each.name};
    if (const Node from = take(each.value); from != kNoNode) solver_.copy(from, named(kept));
    note(points_at(named_item(kept)), false);
  }
}

void PointsTo::call_back(uint32_t site, const Annotation& annotation, Id external) {
  for (const Annotation::Callback& each : annotation.calls) {
    const Node called = value(site, each.function);
    if (called == kNoNode) continue;
    Watch watch{WatchKind::callback, site, external, {}, kNoNode, {}};
    for (const AnnotatedValue& argument : each.arguments) watch.arguments.push_back(value(site, argument));
    if (!each.result_kept.empty()) watch.result = named({.kind = AnnotatedValue::Kind::kept, .name = each.result_kept});
    solver_.watch(called, static_cast<uint32_t>(watches_.size()));
    watches_.push_back(std::move(watch));
  }
}

void PointsTo::connect_callback(const Watch& watch, Id function) {
  const Function& to = facts_.functions[function];
  const bool of_library = watch.kind == WatchKind::library;
  if (to.linkage == Linkage::declared) {
    const Annotation* annotation = annotations_.function(to.name);
    if (annotation != nullptr && does_nothing_with_memory(*annotation)) return;
    const Library other = library(annotations_.library(to.name));
    for (const Node each : watch.arguments)
      if (each != kNoNode) solver_.copy(each, other.known);
    if (watch.result != kNoNode) solver_.copy(other.known, watch.result);
    if (!of_library)
      effects_.push_back({.site = watch.site,
                          .external = other.external,
                          .pointer = other.known,
                          .writes = true,
                          .unknown = true,
                          .bytes = {}});
    return;
  }
  for (uint32_t i = 0; i < to.parameters.size(); i++) {
    // A library may hand any of what it knows to any parameter.
    const Node from = of_library ? watch.arguments[0] : i < watch.arguments.size() ? watch.arguments[i] : kNoNode;
    if (from != kNoNode && to.parameters[i].pointer != kNone) solver_.copy(from, to.parameters[i].pointer);
  }
  if (of_library && to.variable_arguments != kNone) solver_.store(to.variable_arguments, watch.arguments[0]);
  if (watch.result != kNoNode && to.result.pointer != kNone) solver_.copy(to.result.pointer, watch.result);
  if (of_library) enter(function, watch.external);
  else targets_.push_back({watch.site, watch.external, function, kNone, true});
}

}  // namespace friday::cut
