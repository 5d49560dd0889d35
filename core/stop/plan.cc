#include "core/stop/plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include <nlohmann/json.hpp>

namespace friday {

namespace {

using Json = nlohmann::json;

std::vector<std::byte> from_hex(const std::string& text) {
  std::vector<std::byte> bytes(text.size() / 2);
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint8_t value = 0;
    auto [end, error] = std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, value, 16);
    if (error != std::errc{} || end != text.data() + 2 * i + 2) throw std::runtime_error("bytecode is not hexadecimal");
    bytes[i] = std::byte{value};
  }
  return bytes;
}

TypeKind kind_of(const std::string& name) {
  static const std::map<std::string, TypeKind> kinds = {
      {"int", TypeKind::integer},       {"bool", TypeKind::boolean},     {"enum", TypeKind::enumeration},
      {"float", TypeKind::floating},    {"pointer", TypeKind::pointer},  {"reference", TypeKind::reference},
      {"array", TypeKind::array},       {"struct", TypeKind::structure}, {"union", TypeKind::union_},
      {"function", TypeKind::function}, {"void", TypeKind::void_}};
  auto it = kinds.find(name);
  return it == kinds.end() ? TypeKind::other : it->second;
}

PlanType::Float float_format(const std::string& name) {
  return name == "ieee32"    ? PlanType::Float::ieee32
         : name == "ieee64"  ? PlanType::Float::ieee64
         : name == "ieee128" ? PlanType::Float::ieee128
         : name == "x87"     ? PlanType::Float::x87
                             : PlanType::Float::none;
}

PlanType::Field parse_field(const Json& json) {
  PlanType::Field field;
  if (!json.at("name").is_null()) field.name = json.at("name").get<std::string>();
  field.type = json.at("type").get<uint32_t>();
  if (!json.at("offset").is_null()) field.offset = json.at("offset").get<uint64_t>();
  field.base_class = json.value("base", false);
  field.artificial = json.value("artificial", false);
  field.bit = json.value("bit", 0u);
  field.bits = json.value("bits", 0u);
  return field;
}

PlanType parse_type(const Json& json) {
  PlanType type;
  type.kind = kind_of(json.at("kind").get<std::string>());
  type.name = json.at("name").get<std::string>();
  type.plain = json.value("plain", type.name);
  type.size = json.at("size").get<uint64_t>();
  type.is_signed = json.value("signed", false);
  type.character = json.value("char", false);
  type.to_function = json.value("function", false);
  type.format = float_format(json.value("format", std::string()));
  type.target = json.value("target", std::string());
  type.target_size = json.value("target_size", uint64_t{0});
  type.element = json.value("element", 0u);
  type.count = json.value("count", uint64_t{0});
  type.lower = json.value("lower", int64_t{0});
  type.standard = json.value("standard", std::string());
  if (json.contains("item")) type.item = json.at("item").get<uint32_t>();
  if (json.contains("shift") && !json.at("shift").is_null()) type.shift = json.at("shift").get<uint64_t>();
  if (json.contains("fields"))
    for (const Json& field : json.at("fields")) type.fields.push_back(parse_field(field));
  if (json.contains("values")) type.enumerators = json.at("values").get<std::vector<std::pair<std::string, int64_t>>>();
  return type;
}

// Checks that all indexes into the type table are valid, so that later code need not check them.
bool table_is_closed(const ExpressionPlan& plan) {
  auto good = [&](uint32_t index) { return index < plan.types.size(); };
  return good(plan.type) && std::ranges::all_of(plan.types, [&](const PlanType& type) {
           return (type.kind != TypeKind::array || good(type.element)) && (!type.item || good(*type.item)) &&
                  std::ranges::all_of(type.fields, [&](const PlanType::Field& field) { return good(field.type); });
         });
}

std::vector<uint32_t> addresses_of(const Json& code) {
  return code.contains("addresses") ? code.at("addresses").get<std::vector<uint32_t>>() : std::vector<uint32_t>();
}

ExpressionPlan::Code parse_code(const Json& json) {
  return {from_hex(json.at("agent").get<std::string>()), addresses_of(json)};
}

ExpressionPlan::Passing passing_of(const std::string& name) {
  if (name == "integer") return ExpressionPlan::Passing::general;
  if (name == "vector") return ExpressionPlan::Passing::vector;
  throw std::runtime_error("unknown way to pass a value");
}

constexpr uint64_t kMostReturned = 4096;  // bytes; larger results are left to gdb (gdb_calls.py)

ExpressionPlan::Call parse_call(const Json& json) {
  ExpressionPlan::Call call;
  call.function = parse_code(json.at("function"));
  for (const Json& argument : json.at("arguments"))
    call.arguments.push_back({parse_code(argument), passing_of(argument.at("passing").get<std::string>())});
  const Json& returned = json.at("returned");
  call.returned_at = Addr{returned.at("at").get<uint64_t>()};
  call.size = returned.at("size").get<uint64_t>();
  if (call.size > kMostReturned) throw std::runtime_error("a result that is too large for the stack");
  if (const Json& passing = returned.at("passing"); !passing.is_null()) {
    call.returned.emplace();
    for (const Json& each : passing) call.returned->push_back(passing_of(each.get<std::string>()));
    if (call.returned->size() > 2 || (!call.returned->empty() && call.size > 8 * call.returned->size()))
      throw std::runtime_error("a result that does not fit into its registers");
  }
  return call;
}

ExpressionPlan from_json(const Json& json) {
  ExpressionPlan plan;
  plan.expression = json.at("expression").get<std::string>();
  if (json.at("kind") == "gdb") {
    plan.reason = json.at("reason").get<std::string>();
    return plan;
  }
  plan.bytecode = from_hex(json.at("agent").get<std::string>());
  const bool is_value = json.at("result") == "value";
  if (json.at("kind") == "call") {
    plan.kind = ExpressionPlan::Kind::call;
    plan.call = parse_call(json.at("call"));
    plan.call->is_value = is_value;
  } else {
    if (json.at("kind") != "agent") throw std::runtime_error("unknown kind of plan");
    plan.kind = is_value ? ExpressionPlan::Kind::value : ExpressionPlan::Kind::address;
  }
  if (const Json place = json.value("place", Json()); !place.is_null())
    plan.place =
        ExpressionPlan::Place{from_hex(place.at("agent").get<std::string>()), addresses_of(place),
                              place.at("size").get<uint64_t>(), place.value("bit", 0u), place.value("bits", 0u)};
  plan.fixed = json.value("fixed", false);
  plan.movable = json.value("movable", false);
  plan.addresses = addresses_of(json);
  if (json.contains("steps"))
    for (const Json& step : json.at("steps")) plan.steps.push_back(parse_step(step));
  plan.registers = json.at("registers").get<std::vector<uint32_t>>();
  plan.verified = json.value("verified", false);
  plan.type = json.at("type").get<uint32_t>();
  for (const Json& type : json.at("types")) plan.types.push_back(parse_type(type));
  if (!table_is_closed(plan)) throw std::runtime_error("a type of the plan is not in its table");
  if (is_value && plan.result_type().size > 8) throw std::runtime_error("a scalar of more than 8 bytes");
  return plan;
}

// Reads a node's memory and remembers what was read. A system call costs hardly more for a page than for a word, and
// what the operations on a container read lies close together, so from the second read on a whole page is fetched. The
// node does not run while an expression is evaluated.
class LoggedMemory final : public MemoryReader {
 public:
  LoggedMemory(NodeControl& node, std::vector<MemoryCell>* reads) : memory_(node), reads_(reads) {}
  Result<void> read(Addr address, std::span<std::byte> out) override {
    auto done = fetch(address, out);
    if (done && reads_) reads_->push_back({address, out.size()});
    return done;
  }

 private:
  static constexpr uint64_t kBlock = 4096;  // bytes; a page, of which all or nothing can be read
  static constexpr uint64_t kNone = 1;      // the address of no block
  struct Block {
    uint64_t address = kNone;
    std::array<std::byte, kBlock> bytes;  // not initialised: most expressions need none
  };

  Result<void> fetch(Addr address, std::span<std::byte> out) {
    const uint64_t low = address.value & ~(kBlock - 1), offset = address.value - low;
    if (first_ || out.size() > kBlock - offset) {
      first_ = false;
      return memory_.read(address, out);
    }
    auto* block = std::ranges::find(blocks_, low, &Block::address);
    if (block == blocks_.end()) {
      block = &blocks_[next_++ % blocks_.size()];
      block->address = low;
      if (!memory_.read(Addr{low}, block->bytes)) {
        block->address = kNone;
        return memory_.read(address, out);  // what can be read of it, or the error for these bytes
      }
    }
    std::memcpy(out.data(), block->bytes.data() + offset, out.size());
    return {};
  }

  NodeMemory memory_;
  std::vector<MemoryCell>* reads_;
  bool first_ = true;
  size_t next_ = 0;
  std::array<Block, 6> blocks_;
};

// A node's memory, with what a function has returned at an address where the node has none.
class MemoryWithReturned final : public MemoryReader {
 public:
  MemoryWithReturned(NodeControl& node, Addr at, std::span<const std::byte> returned)
      : memory_(node), at_(at), returned_(returned) {}
  bool contains(Addr address, size_t size) const {
    const uint64_t offset = address.value - at_.value;
    return offset <= returned_.size() && size <= returned_.size() - offset;
  }
  Result<void> read(Addr address, std::span<std::byte> out) override {
    if (!contains(address, out.size())) return memory_.read(address, out);
    std::ranges::copy(returned_.subspan(address.value - at_.value, out.size()), out.begin());
    return {};
  }

 private:
  NodeMemory memory_;
  Addr at_;
  std::span<const std::byte> returned_;
};

// Runs bytecode. Fetches the thread's registers only if the plan uses any.
Result<uint64_t> run(const ExpressionPlan& plan, std::span<const std::byte> bytecode, NodeControl& node,
                     ThreadId thread, MemoryReader& memory) {
  user_regs_struct registers{};
  if (!plan.registers.empty()) {
    FRIDAY_TRY(now, node.registers(thread));
    registers = now;
  }
  FRIDAY_TRY(result, run_agent(bytecode, memory, registers, plan.steps));
  if (result.empty) return fail(ErrorCode::bad_input, "the compiled expression `{}` has no value", plan.expression);
  return result.value;
}

Result<uint64_t> run(const ExpressionPlan& plan, std::span<const std::byte> bytecode, NodeControl& node,
                     ThreadId thread, std::vector<MemoryCell>* reads = nullptr) {
  LoggedMemory memory(node, reads);
  return run(plan, bytecode, node, thread, memory);
}

std::unexpected<Error> about(const ExpressionPlan& plan, Error error) {
  error.message = fmt::format("{}: {}", plan.expression, error.message);
  return std::unexpected(std::move(error));
}

// The value of a plan whose bytecode has yielded `result`: a scalar, or the address of an object.
Result<PlanValue> value_of(const ExpressionPlan& plan, uint64_t result, bool is_scalar, MemoryReader& memory) {
  PlanValue value{plan.type, std::vector<std::byte>(plan.result_type().size), std::nullopt};
  if (is_scalar) {
    std::memcpy(value.bytes.data(), &result, value.bytes.size());
    return value;
  }
  value.address = Addr{result};
  if (!memory.read(*value.address, value.bytes))
    return about(plan, {.code = ErrorCode::bad_address,
                        .message = fmt::format("cannot read {} bytes at {}", value.bytes.size(), *value.address),
                        .address = value.address->value});
  return value;
}

}  // namespace

uint64_t PlanValue::as_unsigned() const {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof value));
  return value;
}

Result<ExpressionPlan> parse_plan(std::string_view json) {
  try {
    return from_json(Json::parse(json));
  } catch (const std::exception& problem) {
    return fail(ErrorCode::bad_input, "gdb answered -friday-plan with something else than a plan: {}", problem.what());
  }
}

Result<PlanValue> evaluate(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                           std::vector<MemoryCell>* reads) {
  if (plan.kind == ExpressionPlan::Kind::gdb)
    return fail(ErrorCode::unsupported, "only gdb can evaluate `{}`: {}", plan.expression, plan.reason);
  if (plan.kind == ExpressionPlan::Kind::call)
    return fail(ErrorCode::unsupported, "`{}` calls a function", plan.expression);
  LoggedMemory memory(node, reads);
  auto result = run(plan, plan.bytecode, node, thread, memory);
  if (!result) return about(plan, result.error());
  NodeMemory objects(node);
  return value_of(plan, *result, plan.kind == ExpressionPlan::Kind::value, objects);
}

Result<PlanValue> evaluate_returned(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                                    std::span<const std::byte> returned) {
  MemoryWithReturned memory(node, plan.call->returned_at, returned);
  auto result = run(plan, plan.bytecode, node, thread, memory);
  if (!result) return about(plan, result.error());
  FRIDAY_TRY(value, value_of(plan, *result, plan.call->is_value, memory));
  if (value.address && memory.contains(*value.address, value.bytes.size())) value.address.reset();
  return value;
}

Result<CallValues> evaluate_call(const ExpressionPlan& plan, NodeControl& node, ThreadId thread) {
  CallValues values;
  auto function = run(plan, plan.call->function.bytecode, node, thread);
  if (!function) return about(plan, function.error());
  values.function = *function;
  for (const auto& argument : plan.call->arguments) {
    auto value = run(plan, argument.value.bytecode, node, thread);
    if (!value) return about(plan, value.error());
    values.arguments.push_back(*value);
  }
  return values;
}

Result<PlaceValue> evaluate_place(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                                  std::vector<MemoryCell>* reads) {
  if (plan.kind == ExpressionPlan::Kind::gdb)
    return fail(ErrorCode::unsupported, "only gdb can evaluate `{}`: {}", plan.expression, plan.reason);
  if (!plan.place) return fail(ErrorCode::unsupported, "`{}` has no place in memory", plan.expression);
  auto address = run(plan, plan.place->bytecode, node, thread, reads);
  if (!address) return about(plan, address.error());
  return PlaceValue{Addr{*address}, plan.place->size, plan.place->bit, plan.place->bits};
}

}  // namespace friday
