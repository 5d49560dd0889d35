// Assignment by expression. If target and value are simple enough, no gdb is needed.
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/counted.h"
#include "core/debug/expressions.h"
#include "core/mi/value.h"

namespace friday {

namespace {

struct Number {
  bool is_float = false;
  uint64_t whole = 0;
  double real = 0;
};

// The text as a number, if it is a single literal of C; none for octal literals, which gdb must evaluate.
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

// The bytes of an object of this type with this value; none if the type is not a scalar, or if gdb must convert the
// value.
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
      if (!number.is_float && number.whole >> 63) return std::nullopt;  // negative, or large and unsigned
      const double value = number.is_float ? number.real : static_cast<double>(static_cast<int64_t>(number.whole));
      if (type.format == PlanType::Float::ieee64) return put(value);
      if (type.format == PlanType::Float::ieee32) return put(static_cast<float>(value));
      return std::nullopt;
    }
    default: return std::nullopt;
  }
}

bool is_whole(TypeKind kind) {
  return kind == TypeKind::integer || kind == TypeKind::boolean || kind == TypeKind::enumeration ||
         kind == TypeKind::pointer;
}

}  // namespace

// The value of a plan, sign-extended to 64 bits; none if it is not an integer, or if gdb must evaluate it.
Result<std::optional<uint64_t>> Expressions::whole_number(ReplayNode& node, const KnownPlan& p) {
  const bool calls = p.plan->kind == ExpressionPlan::Kind::call;
  if (!calls && p.plan->kind != ExpressionPlan::Kind::value) return std::nullopt;
  const PlanType& type = p.plan->result_type();
  uint64_t whole = 0;
  if (calls) {
    if (!is_whole(type.kind) || type.size > sizeof whole) return std::nullopt;
    FRIDAY_TRY(value, calls_.call(node, p));
    memcpy(&whole, value.bytes.data(), value.bytes.size());
  } else {
    FRIDAY_TRY(value, evaluate(*p.plan, node, focus_.selected_thread(node.id())));
    whole = value.as_unsigned();
  }
  if (type.is_signed && type.size < 8 && whole >> (8 * type.size - 1)) whole |= ~0ull << (8 * type.size);
  return whole;
}

// Assigns without gdb if target and value are simple enough; otherwise returns false. With `own`, the target is in the
// workspace, so that the node is not altered.
Result<bool> Expressions::assign(ReplayNode& node, const std::string& target, const std::string& value, bool own) {
  FRIDAY_TRY(p, symbols_.plan(node.id(), target));
  if (!p.plan->place || p.plan->kind == ExpressionPlan::Kind::gdb) return false;
  std::optional<Number> number = literal(value);
  if (!number) {
    FRIDAY_TRY(from, symbols_.plan(node.id(), value));
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
              .message = fmt::format("{}: cannot write {} at {}", target, counted(place.size, "byte"), place.address),
              .address = place.address.value});
  observer_->memory_changed(node);
  if (!own) alterations_.note_memory(node.id());
  return true;
}

Result<void> Expressions::write(NodeId id, const std::string& target, const std::string& value) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(node->check_goes_on("its state can be read, not changed"));
  std::string left = target;
  const bool workspace_write = Workspace::is_named_in(target);
  const size_t close = target.find(')');
  if (workspace_write && target.starts_with("(") && close != std::string::npos &&
      Workspace::is_named_at(target, target.find_first_not_of(' ', close + 1))) {
    // `(TYPE)_friday_workspace = ...` writes to the workspace as an object of TYPE.
    FRIDAY_TRY(base, workspace_.map(*node));
    left = fmt::format("*({}*){:#x}", target.substr(1, close - 1), base);
  }
  FRIDAY_TRY(left_text, workspace_.expand(*node, left));
  FRIDAY_TRY(right_text, workspace_.expand(*node, value));
  auto assigned = assign(*node, left_text, right_text, workspace_write);
  if (!assigned || *assigned) workspace_.forget_staged(id);
  if (!assigned) return std::unexpected(assigned.error());
  if (*assigned) return {};
  FRIDAY_TRY(l, gdbs_.connect(id));
  const std::string assignment = mi_quote(fmt::format("{} = {}", left_text, right_text));
  auto done = ask_gdb(id, *l, [&] { return l->run("-data-evaluate-expression " + assignment, gdbs_); });
  workspace_.forget_staged(id);
  if (!done) return std::unexpected(done.error());
  return {};
}

Result<void> Expressions::write_bytes(NodeId id, const std::string& target, std::span<const std::byte> data) {
  FRIDAY_TRY(node, focus_.started_node(id));
  FRIDAY_TRY_VOID(node->check_goes_on("its state can be read, not changed"));
  if (Workspace::is_named_in(target)) {
    FRIDAY_TRY(base, workspace_.map(*node));
    if (data.size() > Workspace::kSize)
      return fail(ErrorCode::usage, "{} are too many for the workspace of {} KiB", counted(data.size(), "byte"),
                  Workspace::kSize >> 10);
    return node->write_raw(Addr{base}, data);
  }
  FRIDAY_TRY(p, symbols_.plan(id, target));
  FRIDAY_TRY(place, evaluate_place(*p.plan, *node, focus_.selected_thread(id)));
  if (place.bits || place.size != data.size())
    return fail(ErrorCode::usage, "{} has {}; {} cannot be written to it", target, counted(place.size, "byte"),
                counted(data.size(), "byte"));
  FRIDAY_TRY_VOID(node->write(place.address, data));
  observer_->memory_changed(*node);
  alterations_.note_memory(id);
  return {};
}

}  // namespace friday
