#include "core/debug/symbol_cache.h"

#include <algorithm>
#include <array>
#include <cctype>

#include <nlohmann/json.hpp>

#include "core/debug/expression_text.h"
#include "core/mi/value.h"
#include "core/rsp/libraries.h"

namespace friday {

namespace {

// Formats an entry of -friday-locate or -friday-source as "function at file:line".
std::string text_of(const nlohmann::json& entry) {
  std::string text = entry["function"].is_string() ? entry["function"].get<std::string>() : "";
  if (entry["file"].is_string() && entry["line"].is_number()) {
    const std::string file = entry["file"];
    text +=
        fmt::format("{}{}:{}", text.empty() ? "" : " at ", file.substr(file.rfind('/') + 1), entry["line"].get<int>());
  }
  return text;
}

// Whether the meaning of a location depends neither on the node nor on gdb's state. An address depends on the node, and
// a line number alone means gdb's current source file.
bool stands_alone(const std::string& location) {
  return !location.empty() && (isalpha(static_cast<unsigned char>(location[0])) || location[0] == '_' ||
                               location[0] == ':' || location[0] == '/');
}

// The libraries in the loader's list, in its order, as a text; empty if the list cannot be read. A library is
// identified by its file, or by its name if it has none (vdso(7)), because addresses differ between the nodes of one
// program.
std::string libraries_of(ReplayNode& node, const Layout& layout) {
  std::string list;
  auto loaded = loaded_libraries(node);
  if (!loaded) return list;
  for (const LoadedLibrary& each : loaded->libraries) {
    const auto place = layout.place(each.dynamic);
    list += place ? fmt::format("{} ", place->first) : each.name + " ";
  }
  return list;
}

}  // namespace

namespace {
// Whether the expression may use one of these names. With `this` among them any expression may, by naming a member.
bool uses_any(const std::string& expression, const std::set<std::string>& names) {
  return names.contains("this") || std::any_of(names.begin(), names.end(), [&](const auto& name) {
           return find_word(expression, name) != std::string::npos;
         });
}

// A key for an address that is the same in all nodes with equal layouts.
std::string name_of(const Layout& layout, uint64_t address) {
  auto place = layout.place(address);
  return place ? fmt::format("{}+{:x}", place->first, place->second) : fmt::format("{:x}", address);
}

std::string scope_of_pc(const Layout& layout, uint64_t pc) { return "pc " + name_of(layout, pc); }

// Whether gdb's error concerns the expression itself, and not the values or the frames that there were this time: at
// the same place in the code a variable of a frame further out may be known where the function was called from
// elsewhere.
bool is_refusal(const Error& error) {
  constexpr std::array kOfThisTime{"annot access memory", "optimized out", "No frame", "ivision by zero", "available"};
  const auto says = [&](const char* words) { return error.message.find(words) != std::string::npos; };
  return error.code == ErrorCode::not_found ||
         (error.code == ErrorCode::bad_input && std::ranges::none_of(kOfThisTime, says));
}
}  // namespace

// The scope of the current thread's pc. gdb is asked once for each program.
Result<const CodeScope*> SymbolCache::find_scope(NodeId id) {
  FRIDAY_TRY(found, refresh(id));
  NodeCode& s = *found;
  const uint64_t pc = focus_.pc(id);
  if (auto known = s.scopes.find(pc); known != s.scopes.end()) return &known->second;
  const auto place = s.layout.place(pc);
  if (!place) return &s.scopes.emplace(pc, CodeScope{"no block", {}}).first->second;
  auto shared = s.program->scopes.find(*place);
  if (shared == s.program->scopes.end()) {
    FRIDAY_TRY(asked, connect_any(id));
    FRIDAY_TRY(answer, asked.first->ask(fmt::format("-friday-scope {:#x}", asked.second->address(*place)), gdbs_));
    const auto said = nlohmann::json::parse(answer);
    CodeScope scope{"no block", {}};
    if (!said["block"].is_null()) {
      const uint64_t low = said["block"], high = said["block_end"];
      scope.block = fmt::format("{} {:x}", name_of(*asked.second, low), high - low);
      for (const auto& name : said["locals"]) scope.locals.insert(name.get<std::string>());
    }
    shared = s.program->scopes.emplace(*place, std::move(scope)).first;
  }
  return &s.scopes.emplace(pc, shared->second).first->second;
}

const KnownPlan* SymbolCache::find_plan(NodeId id, const std::string& expression) {
  NodeCode& s = code(id);
  const uint64_t pc = focus_.pc(id);
  auto find = [&](const std::string& scope) -> const KnownPlan* {
    auto plans = s.plans.find(scope);
    if (plans == s.plans.end()) return nullptr;
    auto it = plans->second.find(expression);
    return it == plans->second.end() ? nullptr : &it->second;
  };
  auto scope = s.scopes.find(pc);
  if (scope == s.scopes.end()) return nullptr;
  if (const KnownPlan* found = find(scope->second.block)) return found;
  return find(scope_of_pc(s.layout, pc));
}

void SymbolCache::code_changed(NodeId id, bool changing) {
  code(id).changing = changing;
  code(id).forget();
}

void SymbolCache::restart() {
  for (auto& [id, node] : nodes_) node.frames.clear();
}

// The plan that was made for another node of the same program, translated for this node; none if there is none.
std::optional<KnownPlan> SymbolCache::shared_plan(NodeId id, const CodeScope& scope, const std::string& expression) {
  NodeCode& s = code(id);
  const uint64_t pc = focus_.pc(id);
  if (!s.layout.place(pc)) return std::nullopt;
  for (const std::string& key : {scope.block, scope_of_pc(s.layout, pc)}) {
    auto plans = s.program->plans.find(key);
    if (plans == s.program->plans.end()) continue;
    auto it = plans->second.find(expression);
    if (it == plans->second.end()) continue;
    KnownPlan plan = it->second.known;
    if (!plan.refusal) plan.plan = moved(plan.plan, it->second.layout, s.layout);
    if (!plan.refusal && !plan.plan) continue;
    s.plans[key][expression] = plan;
    return plan;
  }
  return std::nullopt;
}

void SymbolCache::keep_plan(NodeId id, const CodeScope& scope, const std::string& expression, const KnownPlan& plan) {
  NodeCode& s = code(id);
  const uint64_t pc = focus_.pc(id);
  // gdb has verified the plan by comparing it with its own evaluation, unless memory could not be read. Then the plan
  // is not kept, so that it is made and verified the next time.
  if (plan.plan && plan.plan->kind != ExpressionPlan::Kind::gdb && !plan.plan->verified) return;
  // NodeCode::plans explains the two scopes.
  const bool local = !plan.plan || !plan.plan->registers.empty() || uses_any(expression, scope.locals);
  const std::string key = local ? scope_of_pc(s.layout, pc) : scope.block;
  s.plans[key][expression] = plan;
  if (s.layout.place(pc)) s.program->plans[key].insert_or_assign(expression, Program::SharedPlan{plan, s.layout});
}

Result<KnownPlan> SymbolCache::make_plan(NodeId id, const std::string& expression) {
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto text = l->ask("-friday-plan " + mi_quote(expression), gdbs_);
  // What is said of FUNCTION::VARIABLE also depends on where FUNCTION was called from.
  const bool of_frame = expression.find("::") != std::string::npos;
  if (!text && !of_frame && is_refusal(text.error())) return KnownPlan{nullptr, 0, text.error()};
  if (!text) return std::unexpected(text.error());
  FRIDAY_TRY(parsed, parse_plan(*text));
  KnownPlan made{std::make_shared<const ExpressionPlan>(std::move(parsed)), 0, std::nullopt};
  if (made.plan->kind != ExpressionPlan::Kind::gdb) made.type = types_.add(*made.plan, made.plan->type);
  return made;
}

Result<KnownPlan> SymbolCache::plan(NodeId id, const std::string& expression) {
  FRIDAY_TRY_VOID(focus_.current_thread(id));
  if (focus_.is_elsewhere(id)) return plan_elsewhere(id, expression);
  const KnownPlan* known = find_plan(id, expression);
  if (known && !known->refusal) return *known;
  // If there is a refusal, look again: a library with that name may have been loaded since.
  FRIDAY_TRY(found, find_scope(id));
  const CodeScope scope = *found;
  known = find_plan(id, expression);
  auto plan = known ? std::optional(*known) : shared_plan(id, scope, expression);
  if (!plan) {
    FRIDAY_TRY(made, make_plan(id, expression));
    keep_plan(id, scope, expression, made);
    plan = std::move(made);
  }
  if (plan->refusal) return std::unexpected(*plan->refusal);
  return *plan;
}

// The plan for the frame that the user has selected. If it needs registers, gdb must evaluate it, because only gdb
// knows the registers of an outer frame.
Result<KnownPlan> SymbolCache::plan_elsewhere(NodeId id, const std::string& expression) {
  FRIDAY_TRY(made, make_plan(id, expression));
  if (made.refusal) return std::unexpected(*made.refusal);
  if (made.plan->registers.empty() || made.plan->kind == ExpressionPlan::Kind::gdb) return made;
  ExpressionPlan by_gdb;
  by_gdb.expression = expression;
  by_gdb.reason = "another frame or thread is selected";
  made.plan = std::make_shared<const ExpressionPlan>(std::move(by_gdb));
  return made;
}

Result<NodeCode*> SymbolCache::refresh(NodeId id) {
  FRIDAY_TRY(node, session_.readable(id));
  NodeCode& s = code(id);
  if (s.program && s.layout_epoch == focus_.epoch()) return &s;
  FRIDAY_TRY(layout, Layout::of(node->process().pid()));
  s.layout_epoch = focus_.epoch();
  if (s.program && layout.key() == s.layout.key() && (!s.changing || s.program == &s.unshared)) return &s;
  s.forget();
  s.layout = std::move(layout);
  if (s.changing) {
    s.unshared = Program();
    s.program = &s.unshared;
  } else {
    // The order of the libraries matters: it decides which of two variables with the same name gdb finds.
    s.program = &programs_[fmt::format("{}\n{}", s.layout.key(), libraries_of(*node, s.layout))];
  }
  return &s;
}

// A gdb of any node of the same program, preferably one that is connected already, and the layout of that node.
Result<std::pair<GdbLink*, const Layout*>> SymbolCache::connect_any(NodeId id) {
  FRIDAY_TRY(own, refresh(id));
  // While a node starts, the gdbs of other nodes are not served.
  if (!gdbs_.serves_only() && !gdbs_.is_connected(id))
    for (auto& [other, s] : nodes_) {
      if (!gdbs_.is_connected(other) || s.program != own->program || !refresh(other) || s.program != own->program)
        continue;
      FRIDAY_TRY(l, gdbs_.connect(other));
      return std::pair{l, &s.layout};
    }
  FRIDAY_TRY(l, gdbs_.connect(id));
  return std::pair{l, &own->layout};
}

// With `anywhere`, asks the gdb of any node of the program; otherwise that of this node.
Result<std::vector<CodeLocation>> SymbolCache::ask_locations(NodeId id, const std::string& command, bool anywhere) {
  std::pair<GdbLink*, const Layout*> asked;
  if (anywhere) {
    FRIDAY_TRY(found, connect_any(id));
    asked = found;
  } else {
    FRIDAY_TRY(own, refresh(id));
    FRIDAY_TRY(l, gdbs_.connect(id));
    asked = {l, &own->layout};
  }
  FRIDAY_TRY(answer, asked.first->ask("-friday-locate " + command, gdbs_));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded() || json.empty())
    return fail(ErrorCode::not_found, "node {}: gdb found no location for {}", id, command);
  std::vector<CodeLocation> list;
  for (const auto& entry : json) {
    if (!entry["address"].is_number()) continue;
    const uint64_t address = entry["address"];
    list.push_back({asked.second->place(address), address, text_of(entry)});
  }
  return list;
}

Result<std::vector<CodeLocation>> SymbolCache::locate(NodeId id, const std::string& location) {
  return stands_alone(location) ? locate_by_program(id, mi_quote(location))
                                : ask_locations(id, mi_quote(location), false);
}

Result<std::vector<CodeLocation>> SymbolCache::locate_local(NodeId id, const std::string& function,
                                                            const std::string& variable) {
  const auto end = std::ranges::find_if_not(variable, [](unsigned char c) { return isalnum(c) || c == '_'; });
  return locate_by_program(
      id, fmt::format("-local {} {}", mi_quote(function), mi_quote(std::string(variable.begin(), end))));
}

Result<std::vector<CodeLocation>> SymbolCache::locate_by_program(NodeId id, const std::string& command) {
  FRIDAY_TRY(s, refresh(id));
  Program& program = *s->program;
  if (auto known = program.locations.find(command); known != program.locations.end()) return known->second;
  auto asked = ask_locations(id, command, true);
  // If gdb says that there is no such location, that is valid for all nodes. If gdb died or was interrupted, nothing is
  // known.
  const bool keep = asked ? std::all_of(asked->begin(), asked->end(), [](const auto& l) { return l.place.has_value(); })
                          : asked.error().code == ErrorCode::bad_input || asked.error().code == ErrorCode::not_found;
  if (keep) program.locations.insert_or_assign(command, asked);
  return asked;
}

Result<void> SymbolCache::check_condition(NodeId id, Addr address, const std::string& condition) {
  FRIDAY_TRY(own, refresh(id));
  const auto place = own->layout.place(address.value);
  FRIDAY_TRY(asked, connect_any(id));
  FRIDAY_TRY_VOID(asked.first->ask(
      fmt::format("-friday-check {:#x} {}", place ? asked.second->address(*place) : address.value, mi_quote(condition)),
      gdbs_));
  return {};
}

Result<std::string> SymbolCache::find_source(NodeId id, uint64_t pc) {
  FRIDAY_TRY(own, refresh(id));
  const auto place = own->layout.place(pc);
  if (place)
    if (auto known = own->program->sources.find(*place); known != own->program->sources.end()) return known->second;
  FRIDAY_TRY(asked, connect_any(id));
  FRIDAY_TRY(answer,
             asked.first->ask(fmt::format("-friday-source {:#x}", place ? asked.second->address(*place) : pc), gdbs_));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded() || json.empty()) return std::string();
  std::string text = text_of(json[0]);
  if (place) own->program->sources[*place] = text;
  return text;
}

std::string SymbolCache::describe_place(NodeId id, uint64_t pc) {
  auto text = find_source(id, pc);
  return text && !text->empty() ? *text : fmt::format("{:#x}", pc);
}

}  // namespace friday
