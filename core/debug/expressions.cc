// Reading and writing by expression. A plan is made by gdb once for (node, expression, pc) and evaluated here; what no plan
// can do (calls, floating-point arithmetic, thread-local storage) gdb evaluates itself.
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
constexpr uint64_t kWorkspaceSize = 64 << 10;           // the user's; as much again holds arguments of calls
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
      case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': {
        int value = 0;
        size_t digits = 0;
        while (digits < 3 && i < inside.size() && inside[i] >= '0' && inside[i] <= '7') value = value * 8 + (inside[i++] - '0'), digits++;
        i--;
        out += static_cast<char>(value);
        break;
      }
      case 'x': {
        int value = 0;
        while (i + 1 < inside.size() && isxdigit(static_cast<unsigned char>(inside[i + 1]))) value = value * 16 + std::stoi(std::string(1, inside[++i]), nullptr, 16);
        out += static_cast<char>(value);
        break;
      }
      default: out += c;
    }
  }
  return out;
}

}  // namespace

Result<std::shared_ptr<const ExpressionPlan>> Debugger::plan(NodeId id, const std::string& expression) {
  FRIDAY_TRY_VOID(scope_thread(id));
  NodeContext& s = state(id);
  auto key = std::pair{expression, s.pc};
  if (auto it = s.plans.find(key); it != s.plans.end()) return it->second;
  FRIDAY_TRY(l, link(id));
  FRIDAY_TRY(json, l->ask("-friday-plan " + mi_quote(expression), *this));
  FRIDAY_TRY(parsed, parse_plan(json));
  auto made = std::make_shared<const ExpressionPlan>(std::move(parsed));
  // A plan that met unreadable memory was not compared with gdb; it is made again the next time.
  if (made->kind != ExpressionPlan::Kind::gdb || made->verified || true) s.plans[key] = made;
  return made;
}

RawValue Debugger::raw(const ExpressionPlan& plan, PlanValue value) {
  RawValue out;
  out.type = types_.add(plan, value.type);
  out.bytes = std::move(value.bytes);
  if (value.address) out.address = value.address->value;
  return out;
}

Result<RawValue> Debugger::read(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, session_->readable(id));
  if (find_word(expression, kWorkspaceName) != std::string::npos) return read_through_gdb(id, expression);
  FRIDAY_TRY(p, plan(id, expression));
  if (p->kind == ExpressionPlan::Kind::gdb) return read_through_gdb(id, expression);
  FRIDAY_TRY(value, evaluate(*p, *node, state(id).stopped));
  return raw(*p, std::move(value));
}

// gdb evaluates: its call of a function runs in the node (host.cc), in native mode.
Result<RawValue> Debugger::read_through_gdb(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, session_->readable(id));
  const bool calls = expression.find('(') != std::string::npos;
  if (calls && node->state() == NodeState::ended) {
    // Reading through gdb is fine on an ended node; calling is not, and gdb cannot be asked to tell which this is.
    if (expression.find_first_not_of("*&( ") != std::string::npos && isalpha(static_cast<unsigned char>(expression[expression.find_first_not_of("*&( ")])) && expression.back() == ')')
      return fail(ErrorCode::node_ended, "node {} has ended: its functions cannot be called any more", id);
  }
  FRIDAY_TRY(text, with_workspace(*node, expression));
  FRIDAY_TRY(l, link(id));
  FRIDAY_TRY(answer, l->ask("-friday-value " + mi_quote(text), *this));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  if (json.is_discarded()) return fail(ErrorCode::component_died, "node {}: gdb answered no value for {}", id, expression);
  // The same form as a plan's types: decoded by the same reader.
  nlohmann::json as_plan = {{"kind", "agent"}, {"expression", expression}, {"agent", "27"}, {"result", "value"}, {"place", nullptr},
                            {"lvalue", false}, {"registers", nlohmann::json::array()}, {"frame", false}, {"verified", true},
                            {"scope", nlohmann::json::object()}, {"type", json["type"]}, {"types", json["types"]}};
  FRIDAY_TRY(types, parse_plan(as_plan.dump()));
  RawValue out;
  out.type = types_.add(types, types.type);
  const std::string hex = json["bytes"];
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out.bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  if (json["address"].is_number()) out.address = json["address"].get<uint64_t>();
  state(id).staged = 0;
  if (calls && expression.find_first_of("=") == std::string::npos) return out;
  return out;
}

// ---- Workspace

Result<uint64_t> Debugger::workspace(ReplayNode& node) {
  NodeContext& s = state(node.id());
  if (s.workspace) return s.workspace;
  const uint64_t arguments[] = {kWorkspaceAddress, 2 * kWorkspaceSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ull, 0};
  FRIDAY_TRY(mapped, node.inject(SYS_mmap, arguments));
  if (mapped != static_cast<int64_t>(kWorkspaceAddress)) return fail(ErrorCode::io, "node {}: the workspace cannot be mapped ({})", node.id(), mapped);
  s.workspace = kWorkspaceAddress;
  return s.workspace;
}

Result<uint64_t> Debugger::stage(NodeId id, std::span<const std::byte> data) {
  FRIDAY_TRY(node, session_->readable(id));
  if (node->state() == NodeState::ended) return fail(ErrorCode::node_ended, "node {} has ended", id);
  FRIDAY_TRY(base, workspace(*node));
  NodeContext& s = state(id);
  if (s.staged + data.size() + 16 > kWorkspaceSize) return fail(ErrorCode::unsupported, "arguments of a call take more than {} KiB", kWorkspaceSize >> 10);
  const uint64_t address = base + kWorkspaceSize + s.staged;
  FRIDAY_TRY_VOID(node->write_raw(Addr{address}, data));
  s.staged += (data.size() + 15) & ~15ull;
  return address;
}

// Names the workspace as gdb can understand it, and puts string literals into it: gdb would allocate them on the program's
// own heap, by calling malloc.
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
  for (size_t at; (at = find_word(out, kWorkspaceName)) != std::string::npos;)
    out.replace(at, kWorkspaceName.size(), fmt::format("(*(char(*)[{}]){:#x})", kWorkspaceSize, base));
  return out;
}

// ---- Writing

Result<void> Debugger::write(NodeId id, const std::string& target, const std::string& value) {
  FRIDAY_TRY(node, session_->readable(id));
  if (node->state() == NodeState::ended) return fail(ErrorCode::node_ended, "node {} has ended: its state can be read, not changed", id);
  std::string left = target;
  const bool workspace_write = find_word(target, kWorkspaceName) != std::string::npos;
  const size_t close = target.find(')');
  if (workspace_write && target.starts_with("(") && close != std::string::npos && find_word(target, kWorkspaceName) == target.find_first_not_of(' ', close + 1)) {
    // `(TYPE)_friday_workspace = ...`: the workspace seen as TYPE.
    FRIDAY_TRY(base, workspace(*node));
    left = fmt::format("*({}*){:#x}", target.substr(1, close - 1), base);
  }
  FRIDAY_TRY(left_text, with_workspace(*node, left));
  FRIDAY_TRY(right_text, with_workspace(*node, value));
  FRIDAY_TRY(l, link(id));
  auto done = l->run("-data-evaluate-expression " + mi_quote(fmt::format("{} = {}", left_text, right_text)), *this);
  state(id).staged = 0;
  if (!done) return std::unexpected(done.error());
  if (!workspace_write) mark_altered(id);
  return {};
}

Result<void> Debugger::write_bytes(NodeId id, const std::string& target, std::span<const std::byte> data) {
  FRIDAY_TRY(node, session_->readable(id));
  if (node->state() == NodeState::ended) return fail(ErrorCode::node_ended, "node {} has ended: its state can be read, not changed", id);
  if (find_word(target, kWorkspaceName) != std::string::npos) {
    FRIDAY_TRY(base, workspace(*node));
    if (data.size() > kWorkspaceSize) return fail(ErrorCode::usage, "{} bytes do not fit the workspace of {} KiB", data.size(), kWorkspaceSize >> 10);
    return node->write_raw(Addr{base}, data);
  }
  FRIDAY_TRY(p, plan(id, target));
  FRIDAY_TRY(place, evaluate_place(*p, *node, state(id).stopped));
  if (place.bits || place.size != data.size())
    return fail(ErrorCode::usage, "{} has {} bytes, {} were given", target, place.size, data.size());
  FRIDAY_TRY_VOID(node->write(place.address, data));
  mark_altered(id);
  return {};
}

Result<std::string> Debugger::read_string(NodeId id, uint64_t address) {
  FRIDAY_TRY(node, session_->readable(id));
  std::string text;
  char buffer[256];
  while (text.size() < (64 << 10)) {
    const size_t size = std::min<size_t>(sizeof buffer, 4096 - (address & 4095));
    if (auto got = node->read(Addr{address}, std::as_writable_bytes(std::span(buffer, size))); !got) return std::unexpected(got.error());
    const void* end = memchr(buffer, 0, size);
    text.append(buffer, end ? static_cast<size_t>(static_cast<const char*>(end) - buffer) : size);
    if (end) break;
    address += size;
  }
  return text;
}

Result<std::string> Debugger::gdb(NodeId id, const std::string& command) {
  FRIDAY_TRY(l, link(id));
  return l->console(command, *this);
}

Result<std::vector<std::string>> Debugger::complete(NodeId id, const std::string& prefix) {
  FRIDAY_TRY(l, link(id));
  FRIDAY_TRY(answer, l->ask("-friday-symbols " + mi_quote(prefix), *this));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  std::vector<std::string> list;
  if (!json.is_discarded())
    for (const auto& candidate : json["candidates"]) list.push_back(candidate.get<std::string>());
  return list;
}

}  // namespace friday
