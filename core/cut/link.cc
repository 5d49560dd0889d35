// Joins the facts of modules as a linker joins objects. First all symbols are resolved, then each module's lists are
// appended to the program's with new ids. Functions and objects that another module defines get the id of that
// definition. Of a weak definition that another one replaces, only its blocks and lengths stay, since a profile counts
// them by their numbers.
#include <xxhash.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/cut/facts.h"
#include "core/cut/facts_check.h"

namespace friday::cut {
namespace {

constexpr uint64_t kMostLinked = uint64_t{1} << 31;  // items of one list of a program

// Where a symbol is defined, or declared if nobody defines it.
struct Symbol {
  size_t module = 0;
  Linkage linkage = Linkage::declared;
  bool is_function = false, is_thread_local = false;
  Id id = kNone;  // in the module's functions or objects
};

class Joining {
 public:
  Joining(std::string program, std::vector<Facts> modules) : modules_(std::move(modules)) {
    out_.module = std::move(program);
  }

  Result<LinkedProgram> run() {
    FRIDAY_TRY_VOID(check());
    for (size_t m = 0; m < modules_.size(); m++) FRIDAY_TRY_VOID(collect(m));
    maps_.resize(modules_.size());
    for (size_t m = 0; m < modules_.size(); m++) number_own(m);
    for (size_t m = 0; m < modules_.size(); m++) FRIDAY_TRY_VOID(number_others(m));
    number_function_objects();
    for (size_t m = 0; m < modules_.size(); m++) append(m);
    out_.fingerprint = fingerprint();
    FRIDAY_TRY_VOID(check_facts(out_));
    LinkedProgram program{std::move(out_), {}};
    for (Map& map : maps_)
      program.ids.push_back(
          {std::move(map.functions), std::move(map.objects), std::move(map.calls), std::move(map.accesses)});
    return program;
  }

 private:
  // New ids by old ones.
  struct Map {
    std::vector<Id> functions, objects, calls, accesses;
    std::vector<bool> keeps_function, keeps_object;  // what the program takes from this module
    Id pointer = 0, length = 0, block = 0;           // the first ones
  };

  Result<void> check() {
    if (modules_.empty())
      return fail(ErrorCode::usage, "{} is to be linked of no modules: name the facts of its source files",
                  out_.module);
    uint64_t pointers = 0, items = 0;
    for (const Facts& each : modules_) {
      if (!each.modules.empty())
        return fail(ErrorCode::usage,
                    "{} has the facts of a program, not of a module: name the facts of its source files", each.module);
      FRIDAY_TRY_VOID(check_facts(each));
      pointers += uint64_t{each.pointers} + each.lengths;
      items += each.functions.size() + each.objects.size() + each.blocks.size() + each.calls.size();
    }
    if (std::max(pointers, items) >= kMostLinked)
      return fail(ErrorCode::unsupported,
                  "{} has {} pointers and {} functions, objects, blocks and calls, and at most {} "
                  "are possible",
                  out_.module, pointers, items, kMostLinked);
    return {};
  }

  static std::string place_of(const Facts& facts, const Symbol& symbol) {
    const Place& place = symbol.is_function ? facts.functions[symbol.id].place : facts.objects[symbol.id].place;
    return place.line == 0 ? facts.module : fmt::format("{} (line {})", facts.module, place.line);
  }
  std::string place_of(const Symbol& symbol) const { return place_of(modules_[symbol.module], symbol); }

  Result<void> collect(size_t m) {
    const Facts& facts = modules_[m];
    for (Id i = 0; i < facts.functions.size(); i++)
      if (const Function& each = facts.functions[i]; each.linkage != Linkage::internal)
        FRIDAY_TRY_VOID(add(each.name, {m, each.linkage, true, false, i}));
    for (Id i = 0; i < facts.objects.size(); i++)
      if (const Object& each = facts.objects[i]; is_global(each))
        FRIDAY_TRY_VOID(add(each.name, {m, each.linkage, false, each.thread_local_, i}));
    for (const Alias& each : facts.aliases) {
      if (each.linkage == Linkage::internal || each.linkage == Linkage::declared) continue;
      const bool is_function = each.function != kNone;
      const bool is_thread_local = !is_function && facts.objects[each.object].thread_local_;
      FRIDAY_TRY_VOID(
          add(each.name, {m, each.linkage, is_function, is_thread_local, is_function ? each.function : each.object}));
    }
    return {};
  }
  static bool is_global(const Object& object) {
    return object.kind == ObjectKind::global && object.linkage != Linkage::internal;
  }

  Result<void> add(std::string_view name, const Symbol& symbol) {
    const auto [known, is_new] = symbols_.try_emplace(name, symbol);
    if (is_new) return {};
    Symbol& before = known->second;
    if (before.is_function != symbol.is_function) return disagreement(name, before, symbol, "a function", "a variable");
    if (!symbol.is_function && before.is_thread_local != symbol.is_thread_local)
      return disagreement(name, before, symbol, "one variable for each thread", "one for all");
    if (before.linkage == Linkage::strong && symbol.linkage == Linkage::strong) return twice(name, before, symbol);
    if (before.linkage != Linkage::strong && symbol.linkage < before.linkage) before = symbol;
    return {};
  }
  std::unexpected<Error> disagreement(std::string_view name, const Symbol& one, const Symbol& other, const char* yes,
                                      const char* no) const {
    const bool first = one.is_function || (!other.is_function && one.is_thread_local);
    return fail(ErrorCode::bad_input,
                "{} is {} in {}, and {} in {}: they do not belong to one program, or one of them is "
                "old and must be compiled again",
                name, first ? yes : no, place_of(one), first ? no : yes, place_of(other));
  }
  std::unexpected<Error> twice(std::string_view name, const Symbol& one, const Symbol& other) const {
    const Facts &first = modules_[one.module], &second = modules_[other.module];
    if (one.module != other.module && first.fingerprint == second.fingerprint && first.module == second.module)
      return fail(ErrorCode::usage, "the facts of {} were given twice for {}: name each module once", first.module,
                  out_.module);
    return fail(ErrorCode::bad_input,
                "{} is defined in {} and in {}: no linker takes both, so they do not belong to one "
                "program. Name the modules of one program only",
                name, place_of(one), place_of(other));
  }

  // Whether a symbol's item in a module is the one that the program has.
  bool is_chosen(std::string_view name, size_t m, bool is_function, Id id) const {
    const Symbol& symbol = symbols_.at(name);
    return symbol.module == m && symbol.is_function == is_function && symbol.id == id;
  }

  // New ids for what the program takes from this module; and for its pointers, lengths and blocks, which all stay.
  void number_own(size_t m) {
    const Facts& facts = modules_[m];
    Map& map = maps_[m];
    map.pointer = out_.pointers, map.length = out_.lengths, map.block = blocks_;
    out_.pointers += facts.pointers, out_.lengths += facts.lengths, blocks_ += static_cast<Id>(facts.blocks.size());
    out_.modules.push_back({facts.module, facts.fingerprint, functions_, map.block, map.length});
    for (Id i = 0; i < facts.functions.size(); i++) {
      const Function& each = facts.functions[i];
      map.keeps_function.push_back(each.linkage == Linkage::internal || is_chosen(each.name, m, true, i));
      map.functions.push_back(map.keeps_function[i] ? functions_++ : kNone);
    }
    for (Id i = 0; i < facts.objects.size(); i++) {
      const Object& each = facts.objects[i];
      map.keeps_object.push_back(each.kind != ObjectKind::function &&
                                 (!is_global(each) || is_chosen(each.name, m, false, i)));
      map.objects.push_back(map.keeps_object[i] ? objects_++ : kNone);
    }
    for (const Call& each : facts.calls) map.calls.push_back(map.keeps_function[each.function] ? calls_++ : kNone);
  }

  // The ids of what another module defines. An alias of a symbol may lead on to a third module.
  Result<void> number_others(size_t m) {
    const Facts& facts = modules_[m];
    for (Id i = 0; i < facts.functions.size(); i++)
      if (!maps_[m].keeps_function[i]) {
        FRIDAY_TRY(found, defined(facts.functions[i].name));
        maps_[m].functions[i] = maps_[found.module].functions[found.id];
      }
    for (Id i = 0; i < facts.objects.size(); i++)
      if (!maps_[m].keeps_object[i] && facts.objects[i].kind != ObjectKind::function) {
        FRIDAY_TRY(found, defined(facts.objects[i].name));
        maps_[m].objects[i] = maps_[found.module].objects[found.id];
      }
    return {};
  }
  Result<Symbol> defined(const std::string& name) const {
    std::string_view next = name;
    for (size_t step = 0; step <= modules_.size(); step++) {
      const Symbol& symbol = symbols_.at(next);
      const auto& [facts, map] = std::tie(modules_[symbol.module], maps_[symbol.module]);
      if ((symbol.is_function ? map.keeps_function : map.keeps_object)[symbol.id]) return symbol;
      next = symbol.is_function ? facts.functions[symbol.id].name : facts.objects[symbol.id].name;
    }
    return fail(ErrorCode::bad_input,
                "{} is an alias of itself, by the modules of {}: one of them is old and must be "
                "compiled again",
                name, out_.module);
  }

  // The objects that stand for a function in several modules are one.
  void number_function_objects() {
    std::vector<Id> object_of(functions_, kNone);
    for (size_t m = 0; m < modules_.size(); m++) {
      const Facts& facts = modules_[m];
      for (Id i = 0; i < facts.objects.size(); i++) {
        if (facts.objects[i].kind != ObjectKind::function) continue;
        Id& object = object_of[maps_[m].functions[facts.objects[i].function]];
        maps_[m].keeps_object[i] = object == kNone;
        if (object == kNone) object = objects_++;
        maps_[m].objects[i] = object;
      }
    }
    function_objects_ = std::move(object_of);
    out_.functions.resize(functions_);
    out_.objects.resize(objects_);
  }

  void append(size_t m) {
    append_functions(m);
    append_objects(m);
    append_flows(m);
    append_code(m);
    modules_[m] = {};
  }

  Id pointer(const Map& map, Id id) const { return id == kNone ? kNone : id + map.pointer; }
  Id length(const Map& map, Id id) const { return id == kNone ? kNone : id + map.length; }
  static Id look_up(const std::vector<Id>& ids, Id id) { return id == kNone ? kNone : ids[id]; }
  void renumber(const Map& map, Handed& handed) const {
    handed.pointer = pointer(map, handed.pointer);
    handed.length = length(map, handed.length);
  }
  bool is_dropped(size_t m, Id function) const { return function != kNone && !maps_[m].keeps_function[function]; }

  void append_functions(size_t m) {
    const Map& map = maps_[m];
    for (Id i = 0; i < modules_[m].functions.size(); i++) {
      Function& from = modules_[m].functions[i];
      Function& to = out_.functions[map.functions[i]];
      const bool taken = to.address_taken || from.address_taken;
      if (map.keeps_function[i]) {
        to = std::move(from);
        for (Handed& each : to.parameters) renumber(map, each);
        renumber(map, to.result);
        to.variable_arguments = pointer(map, to.variable_arguments);
        to.object = function_objects_[map.functions[i]];
        if (to.first_block != kNone) to.first_block += map.block;
      }
      to.address_taken = taken;
    }
  }

  // Common symbols (those of `int table[];` in several modules) are as large as the largest of them.
  void append_objects(size_t m) {
    const Map& map = maps_[m];
    for (Id i = 0; i < modules_[m].objects.size(); i++) {
      Object& from = modules_[m].objects[i];
      Object& to = out_.objects[map.objects[i]];
      const uint64_t size = std::max(to.size, from.size);
      if (map.keeps_object[i]) {
        to = std::move(from);
        to.function = look_up(map.functions, to.function);
        to.call = look_up(map.calls, to.call);
        if (to.linkage == Linkage::weak) to.size = size;
      } else {
        if (to.linkage != Linkage::strong) to.size = size;
        if (to.linkage == Linkage::declared) to.constant = to.constant && from.constant;
      }
    }
  }

  void append_flows(size_t m) {
    const Map& map = maps_[m];
    for (Flow flow : modules_[m].flows) {
      const bool replaced = flow.kind == FlowKind::initial && !map.keeps_object[flow.object];
      if (replaced || is_dropped(m, flow.function)) continue;
      flow.to = pointer(map, flow.to), flow.from = pointer(map, flow.from);
      flow.object = look_up(map.objects, flow.object);
      flow.function = look_up(map.functions, flow.function);
      out_.flows.push_back(flow);
    }
  }

  void append_code(size_t m) {
    Map& map = maps_[m];
    Facts& facts = modules_[m];
    for (Block block : facts.blocks) {
      block.function = is_dropped(m, block.function) ? kNone : map.functions[block.function];
      out_.blocks.push_back(block);
    }
    for (Call& call : facts.calls) {
      if (is_dropped(m, call.function)) continue;
      call.function = map.functions[call.function], call.block += map.block;
      call.callee = look_up(map.functions, call.callee), call.target = pointer(map, call.target);
      for (Handed& each : call.arguments) renumber(map, each);
      renumber(map, call.result);
      out_.calls.push_back(std::move(call));
    }
    for (Access access : facts.accesses) {
      const bool dropped = is_dropped(m, access.function);
      map.accesses.push_back(dropped ? kNone : static_cast<Id>(out_.accesses.size()));
      if (dropped) continue;
      access.function = map.functions[access.function], access.block += map.block;
      access.pointer = pointer(map, access.pointer), access.length = length(map, access.length);
      out_.accesses.push_back(access);
    }
    for (Unseen& unseen : facts.unseen) {
      if (is_dropped(m, unseen.function)) continue;
      if (unseen.function == kNone) unseen.what = fmt::format("{}: {}", facts.module, unseen.what);
      unseen.function = look_up(map.functions, unseen.function);
      out_.unseen.push_back(std::move(unseen));
    }
  }

  std::string fingerprint() const {
    std::string all;
    for (const Facts::Module& each : out_.modules) all += each.fingerprint + "\n";
    const XXH128_hash_t hash = XXH3_128bits(all.data(), all.size());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

  std::vector<Facts> modules_;
  Facts out_;
  std::unordered_map<std::string_view, Symbol> symbols_;  // of names in modules_
  std::vector<Map> maps_;
  std::vector<Id> function_objects_;  // by function of the program
  Id functions_ = 0, objects_ = 0, calls_ = 0, blocks_ = 0;
};

}  // namespace

std::expected<Facts, Error> link(std::string program, std::vector<Facts> modules) {
  FRIDAY_TRY(linked, link_with_ids(std::move(program), std::move(modules)));
  return std::move(linked.facts);
}

std::expected<LinkedProgram, Error> link_with_ids(std::string program, std::vector<Facts> modules) {
  return Joining(std::move(program), std::move(modules)).run();
}

}  // namespace friday::cut
