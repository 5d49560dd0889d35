#include "core/cut/facts_check.h"

#include <algorithm>

namespace friday::cut {
namespace {

// More than any list may have, so that ids of several modules can be added up without overflow, and kNone stays free.
constexpr size_t kMostItems = size_t{1} << 31;

class FactsCheck {
 public:
  explicit FactsCheck(const Facts& facts) : facts_(facts) {}

  Result<void> run() {
    FRIDAY_TRY_VOID(sizes());
    for (size_t i = 0; i < facts_.functions.size(); i++) function(facts_.functions[i], i);
    for (size_t i = 0; i < facts_.objects.size(); i++) object(facts_.objects[i], i);
    for (size_t i = 0; i < facts_.flows.size(); i++) flow(facts_.flows[i], i);
    for (size_t i = 0; i < facts_.calls.size(); i++) call(facts_.calls[i], i);
    for (size_t i = 0; i < facts_.accesses.size(); i++) access(facts_.accesses[i], i);
    for (size_t i = 0; i < facts_.unseen.size(); i++)
      id("piece of unseen code", i, "function", facts_.unseen[i].function, facts_.functions.size(), kMayBeNone);
    for (size_t i = 0; i < facts_.aliases.size(); i++) alias(facts_.aliases[i], i);
    blocks();
    modules();
    if (!wrong_.empty()) return fail(ErrorCode::bad_input, "the facts of {}: {}", facts_.module, wrong_);
    return {};
  }

 private:
  static constexpr bool kMayBeNone = true;

  Result<void> sizes() {
    for (size_t size : {size_t{facts_.pointers}, size_t{facts_.lengths}, facts_.functions.size(), facts_.objects.size(),
                        facts_.flows.size(), facts_.blocks.size(), facts_.calls.size(), facts_.accesses.size()})
      if (size >= kMostItems)
        return fail(ErrorCode::bad_input, "the facts of {} have a list of {} items, and at most {} are possible",
                    facts_.module, size, kMostItems - 1);
    return {};
  }

  void note(const char* item, size_t number, const std::string& what) {
    if (wrong_.empty()) wrong_ = fmt::format("{} {} {}", item, number, what);
  }
  void id(const char* item, size_t number, const char* what, Id id, size_t count, bool may_be_none = false) {
    if (id < count || (may_be_none && id == kNone)) return;
    note(item, number,
         id == kNone ? fmt::format("has no {}", what) : fmt::format("names {} {} of {}", what, id, count));
  }
  void handed(const char* item, size_t number, const Handed& handed) {
    id(item, number, "pointer", handed.pointer, facts_.pointers, kMayBeNone);
    id(item, number, "length", handed.length, facts_.lengths, kMayBeNone);
  }
  // The block must be one of the function's.
  void standing(const char* item, size_t number, Id function, Id block) {
    id(item, number, "function", function, facts_.functions.size());
    id(item, number, "block", block, facts_.blocks.size());
    if (wrong_.empty() && facts_.blocks[block].function != function)
      note(item, number, "stands in a block of another function");
  }

  void function(const Function& function, size_t number) {
    static constexpr char kItem[] = "function";
    for (const Handed& each : function.parameters) handed(kItem, number, each);
    handed(kItem, number, function.result);
    id(kItem, number, "pointer", function.variable_arguments, facts_.pointers, kMayBeNone);
    id(kItem, number, "object", function.object, facts_.objects.size(), kMayBeNone);
    const bool declared = function.linkage == Linkage::declared;
    id(kItem, number, "block", function.first_block, facts_.blocks.size(), declared);
    if (declared && function.first_block != kNone) note(kItem, number, "is declared only, and has blocks");
    if (function.name.empty()) note(kItem, number, "has no name");
    if (!wrong_.empty() || function.object == kNone) return;
    const Object& object = facts_.objects[function.object];
    if (object.kind != ObjectKind::function || object.function != number)
      note(kItem, number, "is not that of its object");
  }

  void object(const Object& object, size_t number) {
    static constexpr char kItem[] = "object";
    const bool in_function = object.kind != ObjectKind::global;
    id(kItem, number, "function", object.function, facts_.functions.size(), !in_function);
    id(kItem, number, "call", object.call, facts_.calls.size(), kMayBeNone);
    if (object.kind == ObjectKind::global && object.linkage != Linkage::internal && object.name.empty())
      note(kItem, number, "has no name");
  }

  void flow(const Flow& flow, size_t number) {
    static constexpr char kItem[] = "flow of pointers";
    const bool to_object = flow.kind == FlowKind::initial, from_object = flow.kind == FlowKind::address;
    if (!to_object) id(kItem, number, "pointer", flow.to, facts_.pointers);
    if (!from_object) id(kItem, number, "pointer", flow.from, facts_.pointers);
    if (to_object || from_object) id(kItem, number, "object", flow.object, facts_.objects.size());
    id(kItem, number, "function", flow.function, facts_.functions.size(), kMayBeNone);
  }

  void call(const Call& call, size_t number) {
    static constexpr char kItem[] = "call";
    standing(kItem, number, call.function, call.block);
    id(kItem, number, "function", call.callee, facts_.functions.size(), kMayBeNone);
    id(kItem, number, "pointer", call.target, facts_.pointers, call.callee != kNone);
    for (const Handed& each : call.arguments) handed(kItem, number, each);
    handed(kItem, number, call.result);
  }

  void access(const Access& access, size_t number) {
    static constexpr char kItem[] = "access";
    standing(kItem, number, access.function, access.block);
    id(kItem, number, "pointer", access.pointer, facts_.pointers);
    id(kItem, number, "length", access.length, facts_.lengths, kMayBeNone);
  }

  void alias(const Alias& alias, size_t number) {
    static constexpr char kItem[] = "alias";
    if (alias.name.empty()) note(kItem, number, "has no name");
    if ((alias.function == kNone) == (alias.object == kNone))
      note(kItem, number, "is not that of either a function or an object");
    id(kItem, number, "function", alias.function, facts_.functions.size(), kMayBeNone);
    id(kItem, number, "object", alias.object, facts_.objects.size(), kMayBeNone);
  }

  // Those of a function stand together, from its first_block on.
  void blocks() {
    const bool in_program = !facts_.modules.empty();
    for (size_t i = 0; i < facts_.blocks.size(); i++) {
      const Id function = facts_.blocks[i].function;
      id("block", i, "function", function, facts_.functions.size(), in_program);
      if (!wrong_.empty()) return;
      if (function == kNone) continue;
      const bool first = i == 0 || facts_.blocks[i - 1].function != function;
      if (first != (facts_.functions[function].first_block == i))
        note("block", i, "stands apart from the others of its function");
    }
    for (size_t i = 0; i < facts_.functions.size() && wrong_.empty(); i++)
      if (const Id first = facts_.functions[i].first_block; first != kNone && facts_.blocks[first].function != i)
        note("function", i, "begins in a block of another function");
  }

  void modules() {
    for (size_t i = 0; i < facts_.modules.size(); i++) {
      const auto& [name, fingerprint, function, block, length] = facts_.modules[i];
      const bool inside =
          function <= facts_.functions.size() && block <= facts_.blocks.size() && length <= facts_.lengths;
      const bool rises =
          i == 0 || (function >= facts_.modules[i - 1].first_function && block >= facts_.modules[i - 1].first_block &&
                     length >= facts_.modules[i - 1].first_length);
      if (!inside || !rises) note("module", i, "does not begin behind the one before it");
    }
    if (!facts_.modules.empty() && !facts_.aliases.empty()) note("alias", 0, "is left in the facts of a program");
  }

  const Facts& facts_;
  std::string wrong_;  // the first thing that is
};

}  // namespace

Result<void> check_facts(const Facts& facts) { return FactsCheck(facts).run(); }

}  // namespace friday::cut
