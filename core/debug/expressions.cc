// Reading and writing by expression. A plan is made by gdb once for (program, scope, expression) and evaluated here;
// what no plan can do (calls, floating-point arithmetic, thread-local storage) gdb evaluates itself.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include <nlohmann/json.hpp>

#include "core/debug/debugger.h"
#include "core/mi/value.h"

namespace friday {
namespace {

using shim::kWorkspaceAddress;
constexpr uint64_t kWorkspaceSize = 64 << 10;  // the user's; as much again holds arguments of calls
constexpr std::string_view kWorkspaceName = "_friday_workspace";

bool is_identifier(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Position of `name` as a whole word in `text`, npos if absent. String literals hold no names of ours.
size_t find_word(std::string_view text, std::string_view name, size_t from = 0) {
  for (size_t at = text.find(name, from); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool left = at == 0 || !is_identifier(text[at - 1]);
    const bool right = at + name.size() == text.size() || !is_identifier(text[at + name.size()]);
    if (left && right) return at;
  }
  return std::string_view::npos;
}

// The bytes of a C string literal's inside (escapes resolved).
std::string unescape(std::string_view inside) {
  std::string out;
  for (size_t i = 0; i < inside.size(); i++) {
    if (inside[i] != '\\' || i + 1 == inside.size()) {
      out += inside[i];
      continue;
    }
    const char c = inside[++i];
    switch (c) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7': {
        int value = 0;
        size_t digits = 0;
        while (digits < 3 && i < inside.size() && inside[i] >= '0' && inside[i] <= '7')
          value = value * 8 + (inside[i++] - '0'), digits++;
        i--;
        out += static_cast<char>(value);
        break;
      }
      case 'x': {
        int value = 0;
        while (i + 1 < inside.size() && isxdigit(static_cast<unsigned char>(inside[i + 1])))
          value = value * 16 + std::stoi(std::string(1, inside[++i]), nullptr, 16);
        out += static_cast<char>(value);
        break;
      }
      default: out += c;
    }
  }
  return out;
}

}  // namespace

namespace {

// Whether the expression calls something: a name before a parenthesis that does not begin a declarator, as in
// char(*)[8].
bool has_call(const std::string& expression) {
  for (size_t at = expression.find('('); at != std::string::npos; at = expression.find('(', at + 1)) {
    const size_t before = expression.find_last_not_of(' ', at - 1), after = expression.find_first_not_of(' ', at + 1);
    if (at == 0 || before == std::string::npos || !is_identifier(expression[before]) ||
        (after != std::string::npos && expression[after] == '*'))
      continue;
    const size_t end = before + 1;
    const size_t start =
        expression.find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", before) + 1;
    const std::string_view word = std::string_view(expression).substr(start, end - start);
    if (word != "sizeof" && word != "alignof" && word != "_Alignof") return true;
  }
  return false;
}

// What -friday-value answered, as a plan of the place where it was, in the form of -friday-plan: decoded by the same
// reader.
Result<ExpressionPlan> plan_of_value(const nlohmann::json& value, const std::string& expression) {
  const uint64_t address = value["address"].is_number() ? value["address"].get<uint64_t>() : 0;
  const std::string code = fmt::format("25{:016x}27", address);  // const64, end
  const size_t size = value["bytes"].get<std::string>().size() / 2;
  return parse_plan(nlohmann::json{
      {"kind", "agent"},
      {"expression", expression},
      {"agent", code},
      {"result", "address"},
      {"place", {{"agent", code}, {"size", size}}},
      {"registers", nlohmann::json::array()},
      {"verified", true},
      {"type", value["type"]},
      {"types",
       value["types"]}}.dump());
}

}  // namespace

namespace {
// Whether a name of `names` stands in the expression; `this` stands everywhere, for members.
bool uses_any(const std::string& expression, const std::set<std::string>& names) {
  return names.contains("this") || std::any_of(names.begin(), names.end(), [&](const auto& name) {
           return find_word(expression, name) != std::string::npos;
         });
}

// A key for an address that equal layouts share.
std::string name_of(const Layout& layout, uint64_t address) {
  auto place = layout.place(address);
  return place ? fmt::format("{}+{:x}", place->first, place->second) : fmt::format("{:x}", address);
}

std::string scope_of_pc(const Layout& layout, uint64_t pc) { return "pc " + name_of(layout, pc); }

// What gdb says of an expression itself, not of the memory that it found.
bool is_refusal(const Error& error) {
  return error.code == ErrorCode::not_found ||
         (error.code == ErrorCode::bad_input && error.message.find("annot access memory") == std::string::npos);
}
}  // namespace

// The scope of the node's pc; asked once a program.
Result<const CodeScope*> Debugger::find_scope(NodeId id) {
  FRIDAY_TRY(found, placed(id));
  NodeContext& s = *found;
  const uint64_t pc = focus_.pc(id);
  if (auto known = s.scopes.find(pc); known != s.scopes.end()) return &known->second;
  const auto place = s.layout.place(pc);
  if (!place) return &s.scopes.emplace(pc, CodeScope{"no block", {}}).first->second;
  auto shared = s.program->scopes.find(*place);
  if (shared == s.program->scopes.end()) {
    FRIDAY_TRY(asked, knowing_link(id));
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

const KnownPlan* Debugger::known_plan(NodeId id, const std::string& expression) {
  NodeContext& s = state(id);
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

// What another node of the program was told.
std::optional<KnownPlan> Debugger::shared_plan(NodeId id, const CodeScope& scope, const std::string& expression) {
  NodeContext& s = state(id);
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

void Debugger::keep_plan(NodeId id, const CodeScope& scope, const std::string& expression, const KnownPlan& plan) {
  NodeContext& s = state(id);
  const uint64_t pc = focus_.pc(id);
  // gdb compared the plan with its own evaluation, unless memory on the way could not be read: then it is made again.
  if (plan.plan && plan.plan->kind != ExpressionPlan::Kind::gdb && !plan.plan->verified) return;
  // One that names a local variable is of its pc alone (where the variable is, or that it is a constant, may change
  // with each instruction), any other holds in the whole block.
  const bool local = !plan.plan || !plan.plan->registers.empty() || uses_any(expression, scope.locals);
  const std::string key = local ? scope_of_pc(s.layout, pc) : scope.block;
  s.plans[key][expression] = plan;
  if (s.layout.place(pc)) s.program->plans[key].insert_or_assign(expression, Program::SharedPlan{plan, s.layout});
}

Result<KnownPlan> Debugger::make_plan(NodeId id, const std::string& expression) {
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto text = l->ask("-friday-plan " + mi_quote(expression), gdbs_);
  if (!text && is_refusal(text.error())) return KnownPlan{nullptr, 0, text.error()};
  if (!text) return std::unexpected(text.error());
  FRIDAY_TRY(parsed, parse_plan(*text));
  KnownPlan made{std::make_shared<const ExpressionPlan>(std::move(parsed)), 0, std::nullopt};
  if (made.plan->kind != ExpressionPlan::Kind::gdb) made.type = types_.add(*made.plan, made.plan->type);
  return made;
}

Result<KnownPlan> Debugger::plan(NodeId id, const std::string& expression) {
  FRIDAY_TRY_VOID(focus_.current_thread(id));
  NodeContext& s = state(id);
  if (focus_.is_elsewhere(id)) return plan_elsewhere(id, expression);
  const KnownPlan* known = known_plan(id, expression);
  if (known && !known->refusal) return *known;
  // A name that was not there may have come with a library.
  FRIDAY_TRY(found, find_scope(id));
  const CodeScope scope = *found;
  known = known_plan(id, expression);
  auto plan = known ? std::optional(*known) : shared_plan(id, scope, expression);
  if (!plan) {
    FRIDAY_TRY(made, make_plan(id, expression));
    keep_plan(id, scope, expression, made);
    plan = std::move(made);
  }
  if (plan->refusal) return std::unexpected(*plan->refusal);
  return *plan;
}

// As it is meant in a frame that the user has selected; registers there are gdb's knowledge.
Result<KnownPlan> Debugger::plan_elsewhere(NodeId id, const std::string& expression) {
  FRIDAY_TRY(made, make_plan(id, expression));
  if (made.refusal) return std::unexpected(*made.refusal);
  if (made.plan->registers.empty() || made.plan->kind == ExpressionPlan::Kind::gdb) return made;
  ExpressionPlan by_gdb;
  by_gdb.expression = expression;
  by_gdb.reason = "another frame or thread is selected";
  made.plan = std::make_shared<const ExpressionPlan>(std::move(by_gdb));
  return made;
}

Result<RawValue> Debugger::read(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, focus_.started_node(id));
  // String literals are arguments of calls: they lie in the workspace, and are written there each time.
  const bool stages =
      expression.find('"') != std::string::npos || find_word(expression, kWorkspaceName) != std::string::npos;
  if (stages && node->state() == NodeState::ended) return read_through_gdb(id, expression);
  auto text = stages ? with_workspace(*node, expression) : Result<std::string>(expression);
  if (!text) return std::unexpected(text.error());
  FRIDAY_TRY(p, plan(id, *text));
  if (p.plan->kind == ExpressionPlan::Kind::gdb) return read_through_gdb(id, *text);
  if (p.plan->kind != ExpressionPlan::Kind::call) return read_by_plan(*node, p);
  auto value = call_by_plan(*node, p);
  state(id).staged = 0;
  return value;
}

Result<std::optional<RawValue>> Debugger::read_quickly(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(focus_.current_thread(id));
  const KnownPlan* known = focus_.is_elsewhere(id) ? nullptr : known_plan(id, expression);
  if (!known || known->refusal || known->plan->kind == ExpressionPlan::Kind::gdb ||
      known->plan->kind == ExpressionPlan::Kind::call)
    return std::nullopt;
  FRIDAY_TRY(value, read_by_plan(*node, *known));
  return std::optional(std::move(value));
}

Result<RawValue> Debugger::read_by_plan(ReplayNode& node, const KnownPlan& p) {
  FRIDAY_TRY(value, evaluate(*p.plan, node, focus_.selected_thread(node.id())));
  RawValue out{p.type, std::move(value.bytes), std::nullopt};
  if (value.address) out.address = value.address->value;
  return out;
}

// gdb evaluates: its call of a function runs in the node (host.cc), in native mode.
Result<RawValue> Debugger::read_through_gdb(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, focus_.started_node(id));
  if (has_call(expression)) FRIDAY_TRY_VOID(node->check_goes_on("its functions cannot be called any more"));
  FRIDAY_TRY(text, with_workspace(*node, expression));
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto answer = explained(l->ask("-friday-value " + mi_quote(text), gdbs_));
  state(id).staged = 0;
  if (!answer) return std::unexpected(answer.error());
  auto json = nlohmann::json::parse(*answer, nullptr, false);
  if (json.is_discarded())
    return fail(ErrorCode::component_died, "node {}: gdb answered no value for {}", id, expression);
  FRIDAY_TRY(value, plan_of_value(json, expression));
  RawValue out{types_.add(value, value.type), {}, std::nullopt};
  const std::string hex = json["bytes"];
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  if (json["address"].is_number()) out.address = json["address"].get<uint64_t>();
  return out;
}

// A plan for the place where gdb finds an expression now, for a watch of what bytecode cannot say (an array made by a
// cast).
Result<std::shared_ptr<const ExpressionPlan>> Debugger::place_now(NodeId id, const std::string& expression,
                                                                  const std::string& reason) {
  auto refused = fail(ErrorCode::unsupported, "node {}: {} cannot be watched: {}", id, expression,
                      reason.empty() ? "it has no place in memory" : reason);
  if (has_call(expression)) return refused;
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto answer = l->ask("-friday-value " + mi_quote(expression), gdbs_);
  if (!answer) {
    Error error = answer.error();
    error.message = fmt::format("node {}: {} cannot be watched: {}", id, expression, error.message);
    return std::unexpected(std::move(error));
  }
  auto json = nlohmann::json::parse(*answer, nullptr, false);
  if (json.is_discarded() || !json["address"].is_number()) return refused;
  FRIDAY_TRY(plan, plan_of_value(json, expression));
  plan.fixed = true;
  return std::make_shared<const ExpressionPlan>(std::move(plan));
}

// ---- Workspace

Result<uint64_t> Debugger::workspace(ReplayNode& node) {
  NodeContext& s = state(node.id());
  if (s.workspace) return s.workspace;
  const uint64_t arguments[] = {
      kWorkspaceAddress, 2 * kWorkspaceSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ull, 0};
  FRIDAY_TRY(mapped, node.inject(SYS_mmap, arguments));
  if (mapped != static_cast<int64_t>(kWorkspaceAddress))
    return fail(ErrorCode::io, "node {}: the workspace cannot be mapped ({})", node.id(), mapped);
  s.workspace = kWorkspaceAddress;
  return s.workspace;
}

Result<uint64_t> Debugger::stage(NodeId id, std::span<const std::byte> data) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(node->check_goes_on("nothing can be put into its memory"));
  FRIDAY_TRY(base, workspace(*node));
  NodeContext& s = state(id);
  if (s.staged + data.size() + 16 > kWorkspaceSize)
    return fail(ErrorCode::unsupported, "arguments of a call take more than {} KiB", kWorkspaceSize >> 10);
  const uint64_t address = base + kWorkspaceSize + s.staged;
  FRIDAY_TRY_VOID(node->write_raw(Addr{address}, data));
  s.staged += (data.size() + 15) & ~15ull;
  return address;
}

// Names the workspace as gdb can understand it, and puts string literals into it: gdb would allocate them on the
// program's own heap, by calling malloc.
Result<std::string> Debugger::with_workspace(ReplayNode& node, std::string expression) {
  std::string out;
  for (size_t i = 0; i < expression.size(); i++) {
    if (expression[i] == '\'') {
      size_t end = i + 1;
      while (end < expression.size() && expression[end] != '\'') end += expression[end] == '\\' ? 2 : 1;
      out += expression.substr(i, end + 1 - i);
      i = end;
    } else if (expression[i] == '"') {
      size_t end = i + 1;
      while (end < expression.size() && expression[end] != '"') end += expression[end] == '\\' ? 2 : 1;
      std::string text = unescape(std::string_view(expression).substr(i + 1, std::min(end, expression.size()) - i - 1));
      text += '\0';
      FRIDAY_TRY(address, stage(node.id(), std::as_bytes(std::span(text.data(), text.size()))));
      out += fmt::format("((char*){:#x})", address);
      i = end;
    } else {
      out += expression[i];
    }
  }
  if (find_word(out, kWorkspaceName) == std::string::npos) return out;
  FRIDAY_TRY(base, workspace(node));
  for (size_t at; (at = find_word(out, kWorkspaceName)) != std::string::npos;) {
    // Behind a cast to a pointer its address is enough; of a pointer to an array gdb makes no bytecode.
    const size_t sign = out.find_last_not_of(' ', at - 1);
    const size_t from = at > 0 && sign != std::string::npos && out[sign] == '&' ? sign : at;
    const std::string_view before = std::string_view(out).substr(0, from);
    const size_t end = before.find_last_not_of(' ');
    const bool cast = end != std::string_view::npos && end > 0 && before[end] == ')' &&
                      before[before.find_last_not_of(' ', end - 1)] == '*';
    if (cast) out.replace(from, at + kWorkspaceName.size() - from, fmt::format("((char*){:#x})", base));
    else out.replace(at, kWorkspaceName.size(), fmt::format("(*(char(*)[{}]){:#x})", kWorkspaceSize, base));
  }
  return out;
}

// ---- Writing

namespace {

struct Number {
  bool is_float = false;
  uint64_t whole = 0;
  double real = 0;
};

// A number as C writes it, when it is nothing else.
std::optional<Number> literal(const std::string& text) {
  const char *begin = text.c_str(), *digits = begin + (*begin == '-');
  if (!isdigit(static_cast<unsigned char>(*digits))) return std::nullopt;
  if (*digits == '0' && isdigit(static_cast<unsigned char>(digits[1]))) return std::nullopt;  // octal
  char* end;
  errno = 0;
  const uint64_t whole = strtoull(digits, &end, 0);
  if (!*end && !errno) return Number{false, *begin == '-' ? 0 - whole : whole, 0};
  errno = 0;
  const double real = strtod(begin, &end);
  if (*end || errno) return std::nullopt;
  return Number{true, 0, real};
}

// The value as an object of the type has it; none when the type is no scalar, or the conversion is not for us.
std::optional<std::vector<std::byte>> encoded(const Number& number, const PlanType& type) {
  std::vector<std::byte> bytes(type.size);
  const auto put = [&](const auto& value) {
    memcpy(bytes.data(), &value, std::min(bytes.size(), sizeof value));
    return bytes;
  };
  switch (type.kind) {
    case TypeKind::integer:
    case TypeKind::enumeration:
    case TypeKind::pointer:
      if (number.is_float || type.size > 8) return std::nullopt;
      return put(number.whole);
    case TypeKind::boolean:
      if (number.is_float) return std::nullopt;
      return put(uint64_t{number.whole != 0});
    case TypeKind::floating: {
      const double value = number.is_float ? number.real : static_cast<double>(static_cast<int64_t>(number.whole));
      if (type.format == PlanType::Float::ieee64) return put(value);
      if (type.format == PlanType::Float::ieee32) return put(static_cast<float>(value));
      return std::nullopt;
    }
    default: return std::nullopt;
  }
}

}  // namespace

// The value of a plan as 64 bits, signs extended; none when it is no whole number, or gdb must evaluate it.
Result<std::optional<uint64_t>> Debugger::whole_number(ReplayNode& node, const KnownPlan& p) {
  const bool calls = p.plan->kind == ExpressionPlan::Kind::call;
  if (!calls && p.plan->kind != ExpressionPlan::Kind::value) return std::nullopt;
  const PlanType& type = p.plan->result_type();
  uint64_t whole = 0;
  if (calls) {
    if (type.kind == TypeKind::floating || type.size > sizeof whole || p.plan->call->reference) return std::nullopt;
    FRIDAY_TRY(value, call_by_plan(node, p));
    memcpy(&whole, value.bytes.data(), value.bytes.size());
  } else {
    FRIDAY_TRY(value, evaluate(*p.plan, node, focus_.selected_thread(node.id())));
    whole = value.as_unsigned();
  }
  if (type.is_signed && type.size < 8 && whole >> (8 * type.size - 1)) whole |= ~0ull << (8 * type.size);
  return whole;
}

// `target = value` without gdb, where both are plain; false when gdb must do it. `own`: the target lies in the
// workspace.
Result<bool> Debugger::assign(ReplayNode& node, const std::string& target, const std::string& value, bool own) {
  FRIDAY_TRY(p, plan(node.id(), target));
  if (!p.plan->place || p.plan->kind == ExpressionPlan::Kind::gdb) return false;
  std::optional<Number> number = literal(value);
  if (!number) {
    FRIDAY_TRY(from, plan(node.id(), value));
    FRIDAY_TRY(got, whole_number(node, from));
    if (!got) return false;
    number = Number{false, *got, 0};
  }
  auto bytes = encoded(*number, p.plan->result_type());
  if (!bytes) return false;
  FRIDAY_TRY(place, evaluate_place(*p.plan, node, focus_.selected_thread(node.id())));
  if (place.bits) {
    if (place.bits + place.bit > 64 || place.size > 8) return false;
    uint64_t old = 0;
    const uint64_t mask = (place.bits == 64 ? ~0ull : (1ull << place.bits) - 1) << place.bit;
    FRIDAY_TRY_VOID(node.read(place.address, std::as_writable_bytes(std::span(&old, 1)).first(place.size)));
    old = (old & ~mask) | (number->whole << place.bit & mask);
    bytes->resize(place.size);
    memcpy(bytes->data(), &old, place.size);
  }
  if (bytes->size() != place.size) return false;
  if (!node.write(place.address, *bytes))
    return std::unexpected(
        Error{.code = ErrorCode::bad_address,
              .message = fmt::format("{}: cannot write {} bytes at {}", target, place.size, place.address),
              .address = place.address.value});
  resync_watches(node);
  if (!own) alterations_.note_memory(node.id());
  return true;
}

Result<void> Debugger::write(NodeId id, const std::string& target, const std::string& value) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(node->check_goes_on("its state can be read, not changed"));
  std::string left = target;
  const bool workspace_write = find_word(target, kWorkspaceName) != std::string::npos;
  const size_t close = target.find(')');
  if (workspace_write && target.starts_with("(") && close != std::string::npos &&
      find_word(target, kWorkspaceName) == target.find_first_not_of(' ', close + 1)) {
    // `(TYPE)_friday_workspace = ...`: the workspace seen as TYPE.
    FRIDAY_TRY(base, workspace(*node));
    left = fmt::format("*({}*){:#x}", target.substr(1, close - 1), base);
  }
  FRIDAY_TRY(left_text, with_workspace(*node, left));
  FRIDAY_TRY(right_text, with_workspace(*node, value));
  auto assigned = assign(*node, left_text, right_text, workspace_write);
  if (!assigned || *assigned) state(id).staged = 0;
  if (!assigned) return std::unexpected(assigned.error());
  if (*assigned) return {};
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto done =
      explained(l->run("-data-evaluate-expression " + mi_quote(fmt::format("{} = {}", left_text, right_text)), gdbs_));
  state(id).staged = 0;
  if (!done) return std::unexpected(done.error());
  if (!workspace_write) alterations_.note_any(id);
  return {};
}

Result<void> Debugger::write_bytes(NodeId id, const std::string& target, std::span<const std::byte> data) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(node->check_goes_on("its state can be read, not changed"));
  if (find_word(target, kWorkspaceName) != std::string::npos) {
    FRIDAY_TRY(base, workspace(*node));
    if (data.size() > kWorkspaceSize)
      return fail(ErrorCode::usage, "{} bytes do not fit the workspace of {} KiB", data.size(), kWorkspaceSize >> 10);
    return node->write_raw(Addr{base}, data);
  }
  FRIDAY_TRY(p, plan(id, target));
  FRIDAY_TRY(place, evaluate_place(*p.plan, *node, focus_.selected_thread(id)));
  if (place.bits || place.size != data.size())
    return fail(ErrorCode::usage, "{} has {} bytes, {} were given", target, place.size, data.size());
  FRIDAY_TRY_VOID(node->write(place.address, data));
  resync_watches(*node);
  alterations_.note_memory(id);
  return {};
}

Result<void> Debugger::read_memory(NodeId id, uint64_t address, std::span<std::byte> out) {
  FRIDAY_TRY(node, session_->readable(id));
  return node->read(Addr{address}, out);
}

Result<std::string> Debugger::read_string(NodeId id, uint64_t address) {
  FRIDAY_TRY(node, session_->readable(id));
  std::string text;
  char buffer[256];
  while (text.size() < (64 << 10)) {
    const size_t size = std::min<size_t>(sizeof buffer, 4096 - (address & 4095));
    if (auto got = node->read(Addr{address}, std::as_writable_bytes(std::span(buffer, size))); !got)
      return std::unexpected(got.error());
    const void* end = memchr(buffer, 0, size);
    text.append(buffer, end ? static_cast<size_t>(static_cast<const char*>(end) - buffer) : size);
    if (end) break;
    address += size;
  }
  return text;
}

Result<std::string> Debugger::gdb(NodeId id, const std::string& command) {
  FRIDAY_TRY(l, gdbs_.connect(id));
  l->client().view().take_changed();
  auto said = l->console(command, gdbs_);
  const bool undone = call_error_ && !alterations_.contains(id);
  auto text = explained(std::move(said));
  if (l->client().view().take_changed() && !undone) alterations_.note_any(id);
  gdbs_.update_selection(id, *l);
  return text;
}

Result<std::vector<std::string>> Debugger::complete(NodeId id, const std::string& prefix) {
  FRIDAY_TRY(l, gdbs_.connect(id));
  FRIDAY_TRY(answer, l->ask("-friday-symbols " + mi_quote(prefix), gdbs_));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  std::vector<std::string> list;
  if (!json.is_discarded())
    for (const auto& candidate : json["candidates"]) list.push_back(candidate.get<std::string>());
  return list;
}

}  // namespace friday
