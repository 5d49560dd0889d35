#include "core/debug/expressions.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include <nlohmann/json.hpp>

#include "core/debug/expression_text.h"
#include "core/mi/value.h"

namespace friday {

namespace {

// Makes a plan of gdb's answer to -friday-value: one that yields the memory where the value is. It is written in the
// format of -friday-plan, so that the same code decodes both.
Result<ExpressionPlan> plan_of_value(const nlohmann::json& value, const std::string& expression) {
  const uint64_t address = value["address"].is_number() ? value["address"].get<uint64_t>() : 0;
  const std::string code = fmt::format("25{:016x}27", address);  // agent bytecode: const64 ADDRESS, end
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

Result<RawValue> Expressions::read(NodeId id, const std::string& expression) {
  const auto start = std::chrono::steady_clock::now();
  Used used;
  auto value = answer(id, expression, used);
  costs_.note(expression, used.way, used.reason, std::chrono::steady_clock::now() - start);
  return value;
}

Result<RawValue> Expressions::answer(NodeId id, const std::string& expression, Used& used) {
  FRIDAY_TRY(node, focus_.started_node(id));
  const bool stages = Workspace::is_needed_by(expression);
  // A literal that is only compared is part of the plan.
  if (stages && !Workspace::is_named_in(expression) && !passes_literal_to_function(expression)) {
    auto plan = symbols_.plan(id, expression);
    if (plan && plan->plan->kind != ExpressionPlan::Kind::gdb && plan->plan->kind != ExpressionPlan::Kind::call)
      return read_by_plan(*node, *plan);
  }
  // Other string literals, which are arguments of calls, are copied to the workspace each time.
  if (stages && node->state() == NodeState::ended) {
    used.way = Costs::Way::gdb;
    return read_through_gdb(id, expression);
  }
  auto text = stages ? workspace_.expand(*node, expression) : Result<std::string>(expression);
  if (!text) return std::unexpected(text.error());
  FRIDAY_TRY(p, symbols_.plan(id, *text));
  if (p.plan->kind == ExpressionPlan::Kind::gdb) {
    used = {Costs::Way::gdb, p.plan->reason};
    return read_through_gdb(id, *text);
  }
  if (p.plan->kind != ExpressionPlan::Kind::call) return read_by_plan(*node, p);
  used.way = Costs::Way::call;
  auto value = calls_.call(*node, p);
  workspace_.forget_staged(id);
  return value;
}

Result<std::optional<RawValue>> Expressions::read_quickly(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(focus_.current_thread(id));
  const KnownPlan* known = focus_.is_elsewhere(id) ? nullptr : symbols_.find_plan(id, expression);
  if (!known || known->refusal || known->plan->kind == ExpressionPlan::Kind::gdb ||
      known->plan->kind == ExpressionPlan::Kind::call)
    return std::nullopt;
  const auto start = std::chrono::steady_clock::now();
  auto value = read_by_plan(*node, *known);
  costs_.note(expression, Costs::Way::plan, "", std::chrono::steady_clock::now() - start);
  if (!value) return std::unexpected(std::move(value.error()));
  return std::optional(std::move(*value));
}

Result<RawValue> Expressions::read_by_plan(ReplayNode& node, const KnownPlan& p) {
  FRIDAY_TRY(value, evaluate(*p.plan, node, focus_.selected_thread(node.id())));
  RawValue out{p.type, std::move(value.bytes), std::nullopt};
  if (value.address) out.address = value.address->value;
  return out;
}

void Expressions::begin_asking(GdbLink& link) {
  (void)link.client().view().take_stored();
  (void)link.client().view().take_workspace_write();
  (void)link.client().view().take_refusal();
}

void Expressions::note_stores(NodeId id, GdbLink& link, bool call_has_failed) {
  const bool stored = link.client().view().take_stored(call_has_failed);
  if (link.client().view().take_workspace_write() || stored) observer_->memory_changed(*session_.find(id));
  if (stored) alterations_.note_any(id);
}

// Has gdb evaluate the expression. If gdb calls a function, Calls::run_for_gdb() runs it.
Result<RawValue> Expressions::read_through_gdb(NodeId id, const std::string& expression) {
  FRIDAY_TRY(node, focus_.started_node(id));
  if (has_call(expression)) FRIDAY_TRY_VOID(node->check_goes_on("its functions cannot be called any more"));
  FRIDAY_TRY(text, workspace_.expand(*node, expression));
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto answer = ask_gdb(id, *l, [&] { return l->ask("-friday-value " + mi_quote(text), gdbs_); });
  workspace_.forget_staged(id);
  if (!answer) return std::unexpected(answer.error());
  auto json = nlohmann::json::parse(*answer, nullptr, false);
  if (json.is_discarded())
    return fail(ErrorCode::component_died, "node {}: gdb was asked for the value of {} and gave no valid answer", id,
                expression);
  FRIDAY_TRY(value, plan_of_value(json, expression));
  RawValue out{symbols_.types().add(value, value.type), {}, std::nullopt};
  const std::string hex = json["bytes"];
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  if (json["address"].is_number()) out.address = json["address"].get<uint64_t>();
  return out;
}

Result<std::shared_ptr<const ExpressionPlan>> Expressions::find_place_now(NodeId id, const std::string& expression,
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

Result<void> Expressions::read_memory(NodeId id, uint64_t address, std::span<std::byte> out) {
  FRIDAY_TRY(node, session_.readable(id));
  return node->read(Addr{address}, out);
}

Result<std::string> Expressions::read_string(NodeId id, uint64_t address) {
  FRIDAY_TRY(node, session_.readable(id));
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

// What `print` of an operation on a container shows. None for other commands and other expressions, which are gdb's.
Result<std::optional<std::string>> Expressions::print_by_plan(NodeId id, const std::string& command) {
  const auto print = parse_print_command(command);
  if (!print) return std::nullopt;
  auto plan = symbols_.plan(id, print->expression);
  if (!plan) return std::nullopt;  // gdb reports the error
  const ExpressionPlan& known = *plan->plan;
  const bool is_operation = known.kind == ExpressionPlan::Kind::value || known.kind == ExpressionPlan::Kind::address;
  if (!is_operation || (known.steps.empty() && !has_call(print->expression))) return std::nullopt;
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY(value, read_by_plan(*node, *plan));
  std::optional<uint64_t> address = value.address;
  if (!address && known.place && !known.place->bits)
    if (auto place = evaluate_place(known, *node, focus_.selected_thread(id))) address = place->address.value;
  FRIDAY_TRY(l, gdbs_.connect(id));
  std::string bytes;
  if (!address)
    for (const std::byte b : value.bytes) bytes += fmt::format("{:02x}", b);
  FRIDAY_TRY(text, l->console(fmt::format("python show_value({}, {}, '{}', {})", nlohmann::json(print->format).dump(),
                                          address.value_or(0), bytes, nlohmann::json(print->expression).dump()),
                              gdbs_));
  return std::optional(std::move(text));
}

Result<std::string> Expressions::run_gdb_command(NodeId id, const std::string& command) {
  FRIDAY_TRY(shown, print_by_plan(id, command));
  if (shown) return std::move(*shown);
  FRIDAY_TRY(l, gdbs_.connect(id));
  auto text = ask_gdb(id, *l, [&] { return l->console(command, gdbs_); });
  gdbs_.update_selection(id, *l);
  return text;
}

Result<std::vector<std::string>> Expressions::complete(NodeId id, const std::string& prefix) {
  FRIDAY_TRY(l, gdbs_.connect(id));
  FRIDAY_TRY(answer, l->ask("-friday-symbols " + mi_quote(prefix), gdbs_));
  auto json = nlohmann::json::parse(answer, nullptr, false);
  std::vector<std::string> list;
  if (!json.is_discarded())
    for (const auto& candidate : json["candidates"]) list.push_back(candidate.get<std::string>());
  return list;
}

}  // namespace friday
