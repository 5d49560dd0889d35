#include "core/infer/solver/expression.h"

#include <bit>

#include "core/infer/solver/check.h"

namespace friday::infer {
namespace {

using Wide = unsigned __int128;
using SignedWide = __int128;

constexpr size_t kFirstSlots = 1 << 12;

uint64_t hash_of(const Node& node) {
  uint64_t hash = (static_cast<uint64_t>(node.op) << 8 | node.bits) * 0x9e3779b97f4a7c15ull;
  for (const uint64_t part :
       {static_cast<uint64_t>(node.a) << 32 | node.b, static_cast<uint64_t>(node.c), node.number}) {
    hash = (hash ^ part) * 0xff51afd7ed558ccdull;
    hash ^= hash >> 32;
  }
  return hash;
}

size_t hash_of(const Table& table) {
  size_t hash = table.keys.size() * 257 + table.entry_bits;
  for (size_t i = 0; i < table.keys.size(); ++i)
    hash = (hash ^ table.keys[i] ^ table.entries[i] * 0x9e3779b1ull) * 0xff51afd7ed558ccdull;
  return hash;
}

uint64_t divided(Op op, uint64_t a, uint64_t b, int bits) {
  const int64_t signed_a = signed_value(a, bits), signed_b = signed_value(b, bits);
  const bool is_signed = op == Op::signed_divide || op == Op::signed_modulo;
  if (b == 0) {  // as SMT-LIB has it
    if (op == Op::unsigned_modulo || op == Op::signed_modulo) return a;
    return is_signed && signed_a < 0 ? 1 : ~0ull;
  }
  switch (op) {
    case Op::unsigned_divide: return a / b;
    case Op::unsigned_modulo: return a % b;
    case Op::signed_divide: return signed_b == -1 ? 0 - a : static_cast<uint64_t>(signed_a / signed_b);
    default: return signed_b == -1 ? 0 : static_cast<uint64_t>(signed_a % signed_b);
  }
}

uint64_t divided_wide(Op op, uint64_t high, uint64_t low, uint64_t by) {
  const Wide number = static_cast<Wide>(high) << 64 | low;
  if (by == 0) return op == Op::wide_unsigned_modulo || op == Op::wide_signed_modulo ? low : ~0ull;
  const auto signed_by = static_cast<int64_t>(by);
  switch (op) {
    case Op::wide_unsigned_divide: return static_cast<uint64_t>(number / by);
    case Op::wide_unsigned_modulo: return static_cast<uint64_t>(number % by);
    case Op::wide_signed_divide:
      return static_cast<uint64_t>(signed_by == -1 ? 0 - number
                                                   : static_cast<Wide>(static_cast<SignedWide>(number) / signed_by));
    default:
      return static_cast<uint64_t>(signed_by == -1 ? 0
                                                   : static_cast<Wide>(static_cast<SignedWide>(number) % signed_by));
  }
}

uint64_t shifted(Op op, uint64_t a, uint64_t amount, int bits) {
  const bool beyond = amount >= static_cast<uint64_t>(bits);
  switch (op) {
    case Op::shift_left: return beyond ? 0 : a << amount;
    case Op::shift_right: return beyond ? 0 : a >> amount;
    default: return static_cast<uint64_t>(signed_value(a, bits) >> (beyond ? bits - 1 : static_cast<int>(amount)));
  }
}

uint64_t counted(Op op, uint64_t a, int bits) {
  if (op == Op::count_ones) return static_cast<uint64_t>(std::popcount(a));
  if (a == 0) return static_cast<uint64_t>(bits);
  if (op == Op::count_trailing_zeros) return static_cast<uint64_t>(std::countr_zero(a));
  return static_cast<uint64_t>(std::countl_zero(a) - (64 - bits));
}

}  // namespace

size_t Table::place(uint64_t key) const {
  const auto found = std::lower_bound(keys.begin(), keys.end(), key);
  return found != keys.end() && *found == key ? static_cast<size_t>(found - keys.begin()) : 0;
}

Expressions::Expressions() : nodes_(1), slots_(kFirstSlots), values_(1), valued_(1) {}

Expr Expressions::insert(const Node& node) {
  if (2 * nodes_.size() >= slots_.size()) grow();
  const size_t last = slots_.size() - 1;
  size_t slot = hash_of(node) & last;
  for (; slots_[slot] != kNone; slot = (slot + 1) & last) {
    if (nodes_[slots_[slot]] == node) return slots_[slot];
  }
  const auto created = static_cast<Expr>(nodes_.size());
  require(created < (1u << 29), "there are more expressions than their numbers can tell apart");
  nodes_.push_back(node);
  values_.push_back(0);
  valued_.push_back(0);
  slots_[slot] = created;
  return created;
}

void Expressions::grow() {
  slots_.assign(slots_.size() * 2, kNone);
  const size_t last = slots_.size() - 1;
  for (Expr expression = 1; expression < nodes_.size(); ++expression) {
    size_t slot = hash_of(nodes_[expression]) & last;
    while (slots_[slot] != kNone) slot = (slot + 1) & last;
    slots_[slot] = expression;
  }
}

void Expressions::truncate(size_t size, size_t tables) {
  if (size == nodes_.size()) return;
  nodes_.resize(size);
  values_.resize(size);
  valued_.resize(size);
  seen_.resize(std::min(seen_.size(), size));
  tables_.resize(tables);
  std::erase_if(tables_by_hash_, [&](const auto& entry) { return entry.second >= tables; });
  slots_.assign(slots_.size() / 2, kNone);
  grow();
}

Expr Expressions::make(Op op, int bits, Expr a, Expr b, Expr c, uint64_t number) {
  return insert({op, static_cast<uint8_t>(bits), a, b, c, number});
}

Expr Expressions::constant(uint64_t value, int bits) {
  return insert({Op::constant, static_cast<uint8_t>(bits), kNone, kNone, kNone, value & mask_of(bits)});
}

Expr Expressions::symbol(uint32_t number) { return insert({Op::symbol, 8, kNone, kNone, kNone, number}); }

void Expressions::set_model(const Model* model) {
  model_ = model;
  ++model_number_;
}

uint64_t Expressions::apply(const Node& node, uint64_t a, uint64_t b, uint64_t c) const {
  const int operand_bits = node.a == kNone ? 0 : bits(node.a);
  uint64_t value = 0;
  switch (node.op) {
    case Op::constant: return node.number;
    case Op::symbol: return node.number < model_->size() ? (*model_)[node.number] : 0;
    case Op::add: value = a + b; break;
    case Op::sub: value = a - b; break;
    case Op::mul: value = a * b; break;
    case Op::mul_high_unsigned: value = static_cast<uint64_t>(static_cast<Wide>(a) * b >> 64); break;
    case Op::mul_high_signed:
      value = static_cast<uint64_t>(static_cast<SignedWide>(static_cast<int64_t>(a)) * static_cast<int64_t>(b) >> 64);
      break;
    case Op::unsigned_divide:
    case Op::unsigned_modulo:
    case Op::signed_divide:
    case Op::signed_modulo: value = divided(node.op, a, b, node.bits); break;
    case Op::wide_unsigned_divide:
    case Op::wide_unsigned_modulo:
    case Op::wide_signed_divide:
    case Op::wide_signed_modulo: value = divided_wide(node.op, a, b, c); break;
    case Op::bit_and: value = a & b; break;
    case Op::bit_or: value = a | b; break;
    case Op::bit_xor: value = a ^ b; break;
    case Op::shift_left:
    case Op::shift_right:
    case Op::shift_right_signed: value = shifted(node.op, a, b, node.bits); break;
    case Op::equal: return a == b;
    case Op::unsigned_less: return a < b;
    case Op::signed_less: return signed_value(a, operand_bits) < signed_value(b, operand_bits);
    case Op::choose: return a != 0 ? b : c;
    case Op::extract: value = a >> node.number; break;
    case Op::concat: value = a << bits(node.b) | b; break;
    case Op::sign_extend: value = static_cast<uint64_t>(signed_value(a, operand_bits)); break;
    case Op::select: return 0;  // of several operands; see compute()
    case Op::count_ones:
    case Op::count_leading_zeros:
    case Op::count_trailing_zeros: value = counted(node.op, a, node.bits); break;
  }
  return value & mask_of(node.bits);
}

uint64_t Expressions::compute(Expr expression) {
  const Node& node = nodes_[expression];
  if (node.op == Op::select) {
    const Table& table = tables_[node.number];
    return values_[table.entries[table.place(values_[node.a])]];
  }
  return apply(node, values_[node.a], values_[node.b], values_[node.c]);
}

uint64_t Expressions::value(Expr expression) {
  if (is_constant(expression)) return nodes_[expression].number;
  if (valued_[expression] == model_number_) return values_[expression];
  std::vector<Expr> waiting{expression};
  while (!waiting.empty()) {
    const Expr next = waiting.back();
    const size_t before = waiting.size();
    if (valued_[next] != model_number_) {
      for_each_operand(nodes_[next], [&](Expr operand) {
        if (valued_[operand] != model_number_) waiting.push_back(operand);
      });
    }
    if (waiting.size() != before) continue;
    waiting.pop_back();
    if (valued_[next] == model_number_) continue;
    values_[next] = compute(next);
    valued_[next] = model_number_;
  }
  return values_[expression];
}

std::vector<Expr> Expressions::nodes_of(std::span<const Expr> roots) {
  std::vector<Expr> found, waiting;
  ++walk_;
  seen_.resize(nodes_.size());
  const auto visit = [&](Expr expression) {
    if (std::exchange(seen_[expression], walk_) != walk_) waiting.push_back(expression);
  };
  for (const Expr root : roots) visit(root);
  while (!waiting.empty()) {
    const Expr next = waiting.back();
    waiting.pop_back();
    found.push_back(next);
    for_each_operand(nodes_[next], visit);
  }
  std::sort(found.begin(), found.end());
  return found;
}

Expr Expressions::select(Table table, Expr index) {
  const bool all_alike =
      std::all_of(table.entries.begin(), table.entries.end(), [&](Expr e) { return e == table.entries[0]; });
  if (all_alike) return table.entries[0];
  if (is_constant(index)) return table.entries[table.place(constant_value(index))];
  const size_t hash = hash_of(table);
  const int bits = table.entry_bits;
  for (auto [entry, end] = tables_by_hash_.equal_range(hash); entry != end; ++entry) {
    if (tables_[entry->second] == table) return make(Op::select, bits, index, kNone, kNone, entry->second);
  }
  tables_by_hash_.emplace(hash, tables_.size());
  tables_.push_back(std::move(table));
  return make(Op::select, bits, index, kNone, kNone, tables_.size() - 1);
}

Expr Expressions::count(Op op, Expr a) {
  const Node node{op, static_cast<uint8_t>(bits(a)), a, kNone, kNone, 0};
  return is_constant(a) ? constant(apply(node, constant_value(a), 0, 0), node.bits) : insert(node);
}

}  // namespace friday::infer
