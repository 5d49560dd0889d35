#include "core/cut/makers.h"

#include <algorithm>
#include <unordered_map>

namespace friday::cut {
namespace {

// Where a value of a function comes from. Bits: new memory, anything else, argument i, the address of local variable i.
struct Origins {
  static constexpr uint32_t kMost =
      30;  // arguments and variables that are told apart; a function with more is no maker
  uint64_t bits = 0;

  static constexpr uint64_t kFresh = 1, kOther = 2;
  static uint64_t argument(uint32_t i) { return uint64_t{4} << i; }
  static uint64_t local(uint32_t i) { return uint64_t{4} << kMost << i; }
  static constexpr uint64_t kArguments = ((uint64_t{1} << kMost) - 1) << 2;
};

constexpr size_t kMostRounds = 64;  // through a function's flows; more are not worth it

// One function. What its pointers and variables may hold is followed until nothing is new.
class MakerCheck {
 public:
  MakerCheck(const Facts& facts, const Annotations& annotations, const std::vector<Makes>& makes, Id function)
      : facts_(facts), annotations_(annotations), makes_(makes), function_(function) {}

  Makes run(std::span<const Id> flows, std::span<const Id> calls) {
    const Function& function = facts_.functions[function_];
    Makes found;
    if (function.parameters.size() > Origins::kMost) return found;
    for (uint32_t i = 0; i < function.parameters.size(); i++)
      if (const Id pointer = function.parameters[i].pointer; pointer != kNone) of_[pointer] |= Origins::argument(i);
    size_t rounds = 0;
    do {
      changed_ = false;
      for (Id flow : flows) follow(facts_.flows[flow]);
      for (Id call : calls) follow(facts_.calls[call]);
    } while (changed_ && !gave_up_ && ++rounds < kMostRounds);
    if (gave_up_ || changed_) return found;
    const uint64_t result = function.result.pointer == kNone ? 0 : of_[function.result.pointer];
    found.result = (result & Origins::kFresh) != 0 && (result & ~(Origins::kFresh | Origins::kArguments)) == 0;
    for (uint32_t i = 0; i < function.parameters.size(); i++) found.arguments.push_back(stored_[i] == Origins::kFresh);
    return found;
  }

 private:
  void add(uint64_t& to, uint64_t bits) {
    changed_ = changed_ || (bits & ~to) != 0;
    to |= bits;
  }
  uint64_t get(Id pointer) const {
    if (pointer == kNone) return 0;
    const auto known = of_.find(pointer);
    return known == of_.end() ? 0 : known->second;
  }
  void add_to(Id pointer, uint64_t bits) {
    if (pointer != kNone) add(of_[pointer], bits);
  }
  uint64_t address_of(Id object) {
    const Object& each = facts_.objects[object];
    if (each.kind != ObjectKind::stack || each.function != function_) return Origins::kOther;
    const auto [known, is_new] = local_.try_emplace(object, static_cast<uint32_t>(local_.size()));
    if (known->second >= Origins::kMost) gave_up_ = true;
    return gave_up_ ? Origins::kOther : Origins::local(known->second);
  }
  // What memory at this value may hold.
  uint64_t loaded(uint64_t address) {
    uint64_t bits = (address & (Origins::kOther | Origins::kArguments | Origins::kFresh)) != 0 ? Origins::kOther : 0;
    for (uint32_t i = 0; i < Origins::kMost; i++)
      if ((address & Origins::local(i)) != 0) bits |= held_[i];
    return bits;
  }
  void store(uint64_t address, uint64_t bits) {
    for (uint32_t i = 0; i < Origins::kMost; i++) {
      if ((address & Origins::local(i)) != 0) add(held_[i], bits);
      if ((address & Origins::argument(i)) != 0) add(stored_[i], bits);
    }
  }

  void follow(const Flow& flow) {
    switch (flow.kind) {
      case FlowKind::address: return add_to(flow.to, address_of(flow.object));
      case FlowKind::copy: return add_to(flow.to, get(flow.from));
      case FlowKind::load: return add_to(flow.to, loaded(get(flow.from)));
      case FlowKind::store: return store(get(flow.to), get(flow.from));
      case FlowKind::move: return store(get(flow.to), loaded(get(flow.from)));
      case FlowKind::initial: return;
    }
  }

  void follow(const Call& call) {
    if (call.callee == kNone) return follow_unknown(call);
    const Function& callee = facts_.functions[call.callee];
    const Annotation* annotation = annotations_.function(callee.name);
    if (annotation != nullptr && (callee.linkage == Linkage::declared || annotation->allocates()))
      return follow_annotated(call, *annotation);
    const Makes& makes = makes_[call.callee];
    if (!makes.any()) return follow_unknown(call);
    add_to(call.result.pointer, makes.result ? Origins::kFresh : Origins::kOther);
    for (size_t i = 0; i < call.arguments.size(); i++) {
      const bool made = i < makes.arguments.size() && makes.arguments[i];
      const uint64_t address = get(call.arguments[i].pointer);
      if (made) store(address, Origins::kFresh);
      else for_locals(address);
      if (makes.result) add_to(call.result.pointer, address & Origins::kArguments);
    }
  }
  // The callee may put anything into a variable whose address it has.
  void for_locals(uint64_t address) {
    for (uint32_t i = 0; i < Origins::kMost; i++)
      if ((address & Origins::local(i)) != 0) add(held_[i], Origins::kOther);
  }
  void follow_unknown(const Call& call) {
    add_to(call.result.pointer, Origins::kOther);
    for (const Handed& each : call.arguments) for_locals(get(each.pointer));
  }

  void follow_annotated(const Call& call, const Annotation& annotation) {
    using Kind = AnnotatedValue::Kind;
    const auto argument = [&](const AnnotatedValue& value) {
      return value.argument < call.arguments.size() ? get(call.arguments[value.argument].pointer) : 0;
    };
    const auto value = [&](const AnnotatedValue& value) {
      const bool plain = value.depth == AnnotatedValue::Depth::itself && !value.onwards;
      if (plain && (value.kind == Kind::fresh || value.kind == Kind::shared)) return Origins::kFresh;
      return plain && value.kind == Kind::argument ? argument(value) : Origins::kOther;
    };
    for (const Annotation::Result& each : annotation.returns) add_to(call.result.pointer, value(each.value));
    for (const Annotation::Store& each : annotation.stores) {
      const bool plain = each.at.kind == Kind::argument && each.at.depth == AnnotatedValue::Depth::itself;
      if (plain && !each.at.onwards) store(argument(each.at), value(each.value));
      else if (each.at.kind != Kind::result) follow_unknown(call);
    }
    for (const Annotation::Move& each : annotation.moves)
      if (each.to.kind == Kind::argument) for_locals(argument(each.to));
  }

  const Facts& facts_;
  const Annotations& annotations_;
  const std::vector<Makes>& makes_;
  const Id function_;
  std::unordered_map<Id, uint64_t> of_;     // by pointer
  std::unordered_map<Id, uint32_t> local_;  // numbers of the local variables whose addresses are taken
  uint64_t held_[Origins::kMost] = {};      // by local variable
  uint64_t stored_[Origins::kMost] = {};    // by argument: what is stored where it points to
  bool changed_ = false, gave_up_ = false;
};

}  // namespace

std::vector<Makes> find_makers(const Facts& facts, const Annotations& annotations,
                               const std::function<std::span<const Id>(Id)>& flows_of,
                               const std::function<std::span<const Id>(Id)>& calls_of) {
  std::vector<Makes> makes(facts.functions.size());
  std::vector<std::vector<Id>> callers(facts.functions.size());
  for (const Call& call : facts.calls)
    if (call.callee != kNone) callers[call.callee].push_back(call.function);
  // A function is looked at again when one that it calls has turned out to be a maker. None ever ceases to be one.
  std::vector<Id> work;
  std::vector<bool> waits(facts.functions.size(), true);
  for (Id i = 0; i < facts.functions.size(); i++) work.push_back(i);
  while (!work.empty()) {
    const Id function = work.back();
    work.pop_back();
    waits[function] = false;
    if (facts.functions[function].linkage == Linkage::declared || makes[function].any()) continue;
    makes[function] = MakerCheck(facts, annotations, makes, function).run(flows_of(function), calls_of(function));
    if (!makes[function].any()) continue;
    for (Id caller : callers[function])
      if (!waits[caller]) waits[caller] = true, work.push_back(caller);
  }
  return makes;
}

}  // namespace friday::cut
