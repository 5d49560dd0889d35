#include "tests/unit/cut_support.h"

#include <algorithm>
#include <stdexcept>

namespace friday::cut::testing {

Id ProgramMaker::function(const std::string& name, uint32_t parameters, Linkage linkage) {
  const auto id = static_cast<Id>(facts.functions.size());
  Function function{
      .name = name, .linkage = linkage, .place = {"/src/" + facts.module, id + 1}, .shape = parameters + 1};
  if (linkage != Linkage::declared) {
    for (uint32_t i = 0; i < parameters; i++) function.parameters.push_back({pointer(), 8});
    function.result = {pointer(), 8};
    function.first_block = static_cast<Id>(facts.blocks.size());
    facts.blocks.push_back({id, id + 1});
  }
  facts.functions.push_back(std::move(function));
  return id;
}

Id ProgramMaker::variable(const std::string& name, Linkage linkage) {
  facts.objects.push_back({.kind = ObjectKind::global, .name = name, .linkage = linkage, .size = 8});
  return static_cast<Id>(facts.objects.size() - 1);
}

Id ProgramMaker::local(Id function, const std::string& name) {
  facts.objects.push_back({.kind = ObjectKind::stack, .name = name, .function = function, .size = 8});
  return static_cast<Id>(facts.objects.size() - 1);
}

Id ProgramMaker::address(Id function, Id object) {
  const Id to = pointer();
  facts.flows.push_back({.kind = FlowKind::address, .to = to, .object = object, .function = function});
  return to;
}

Id ProgramMaker::address_of_function(Id function, Id of) {
  Id& object = facts.functions[of].object;
  if (object == kNone) {
    object = static_cast<Id>(facts.objects.size());
    facts.objects.push_back({.kind = ObjectKind::function, .name = facts.functions[of].name, .function = of});
    facts.functions[of].address_taken = true;
  }
  return address(function, object);
}

Id ProgramMaker::add_call(Id function, Id callee, Id target, std::initializer_list<Id> arguments) {
  Call call{.function = function,
            .block = facts.functions[function].first_block,
            .callee = callee,
            .target = target,
            .shape = arguments.size() + 1,
            .line = 1,
            .arguments = {},
            .result = {pointer(), 8}};
  for (const Id each : arguments) call.arguments.push_back({each, 8});
  facts.calls.push_back(std::move(call));
  return facts.calls.back().result.pointer;
}
Id ProgramMaker::call(Id function, Id callee, std::initializer_list<Id> arguments) {
  return add_call(function, callee, kNone, arguments);
}
Id ProgramMaker::call_by(Id function, Id target, std::initializer_list<Id> arguments) {
  return add_call(function, kNone, target, arguments);
}

Id ProgramMaker::load(Id function, Id from) {
  const Id to = pointer();
  facts.flows.push_back({.kind = FlowKind::load, .to = to, .from = from, .function = function});
  facts.accesses.push_back({.function = function,
                            .block = facts.functions[function].first_block,
                            .pointer = from,
                            .reads = true,
                            .bytes = 8});
  return to;
}

void ProgramMaker::store(Id function, Id to, Id from) {
  facts.flows.push_back({.kind = FlowKind::store, .to = to, .from = from, .function = function});
  facts.accesses.push_back({.function = function,
                            .block = facts.functions[function].first_block,
                            .pointer = to,
                            .writes = true,
                            .bytes = 8});
}

void ProgramMaker::copy(Id function, Id from, Id to) {
  facts.flows.push_back({.kind = FlowKind::copy, .to = to, .from = from, .function = function});
}

void ProgramMaker::move(Id function, Id to, Id from, int64_t bytes) {
  facts.flows.push_back({.kind = FlowKind::move, .to = to, .from = from, .offset = bytes, .function = function});
  const Id block = facts.functions[function].first_block;
  facts.accesses.push_back({.function = function, .block = block, .pointer = from, .reads = true, .bytes = 16});
  facts.accesses.push_back({.function = function, .block = block, .pointer = to, .writes = true, .bytes = 16});
}

Facts ProgramMaker::linked() const {
  auto program = link("program", {facts});
  if (!program) throw std::runtime_error(program.error().message);
  return std::move(*program);
}

namespace {

class RandomProgram {
 public:
  RandomProgram(std::mt19937& random, uint32_t functions) : random_(random), functions_(functions) {}

  Facts run() {
    for (uint32_t i = 0; i < functions_; i++)
      maker_.function(i == 0 ? "main" : "f" + std::to_string(i), i == 0 ? 0 : below(3));
    add_maker();
    for (const char* name : {"malloc", "read", "memcpy", "free", "time", "unknown_function", "qsort"})
      externals_.push_back(maker_.declared(name));
    const uint32_t variables = 1 + below(4);
    for (uint32_t i = 0; i < variables; i++) variables_.push_back(maker_.variable("v" + std::to_string(i)));
    for (uint32_t i = 0; i < functions_; i++) fill(i);
    return maker_.facts;
  }

 private:
  uint32_t below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  Id any() { return values_[below(static_cast<uint32_t>(values_.size()))]; }

  // A wrapper of malloc(), in half of the programs.
  void add_maker() {
    if (below(2) == 0) return;
    made_ = maker_.function("make", 1);
    maker_.returns(made_, maker_.call(made_, maker_.declared("calloc"), {maker_.parameter(made_, 0)}));
  }

  void fill(Id function) {
    values_ = {maker_.address(function, variables_[below(static_cast<uint32_t>(variables_.size()))])};
    for (const Handed& each : maker_.facts.functions[function].parameters) values_.push_back(each.pointer);
    if (below(2) == 0) values_.push_back(maker_.address(function, maker_.local(function, "l")));
    const uint32_t count = 1 + below(8);
    for (uint32_t i = 0; i < count; i++) step(function);
    if (below(2) == 0) maker_.returns(function, any());
  }

  void step(Id function) {
    if (made_ != kNone && below(5) == 0) {
      values_.push_back(maker_.call(function, made_, {any()}));
      return;
    }
    switch (below(9)) {
      case 0: values_.push_back(maker_.load(function, any())); break;
      case 1: maker_.store(function, any(), any()); break;
      case 2: maker_.copy(function, any(), any()); break;
      case 3: maker_.move(function, any(), any()); break;
      case 4: values_.push_back(maker_.address_of_function(function, below(functions_))); break;
      case 5: values_.push_back(maker_.call_by(function, any(), {any()})); break;
      case 6:
        values_.push_back(maker_.call(function, externals_[below(static_cast<uint32_t>(externals_.size()))],
                                      {any(), any(), any(), any()}));
        break;
      default: values_.push_back(maker_.call(function, below(functions_), {any(), any()})); break;
    }
  }

  std::mt19937& random_;
  const uint32_t functions_;
  ProgramMaker maker_;
  Id made_ = kNone;
  std::vector<Id> externals_, variables_, values_;
};

}  // namespace

Facts random_module(std::mt19937& random, uint32_t functions) { return RandomProgram(random, functions).run(); }

Facts random_program(std::mt19937& random, uint32_t functions) {
  auto program = link("program", {random_module(random, functions)});
  if (!program) throw std::runtime_error(program.error().message);
  return std::move(*program);
}

ProgramCounts random_counts(std::mt19937& random, const Facts& program) {
  ProgramCounts counts;
  for (size_t i = 0; i < program.blocks.size(); i++) counts.blocks.push_back(random() % 4 == 0 ? 0 : random() % 100);
  for (size_t i = 0; i < program.lengths; i++) counts.lengths.push_back(random() % 1000);
  return counts;
}

}  // namespace friday::cut::testing
