// Expressions over symbols: a directed acyclic graph (DAG) of bit-vectors of 1 to 64 bits, each node stored once
// (hash-consing), so that equal expressions have equal numbers. A symbol is one byte that no recording has. The
// functions that build expressions simplify: constants are folded, bytes that are taken apart and put together again
// are the same bytes, masks and constant shifts become concatenations, comparisons become comparisons of bytes where
// they can. Nothing here knows Z3; questions.h translates what is asked.
//
// Operands of a node have lower numbers than the node, so ascending numbers are an order of evaluation.
//
// Each node has a value under the current model, which is computed on demand and kept until the model changes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace friday::infer {

using Expr = uint32_t;  // 0: none, the value is known without any symbol
inline constexpr Expr kNone = 0;

enum class Op : uint8_t {
  constant,  // number: the value
  symbol,    // number: which one; 8 bits
  add,
  sub,
  mul,
  mul_high_unsigned,
  mul_high_signed,  // the upper half of a product of two 64-bit numbers
  unsigned_divide,
  unsigned_modulo,  // undefined for a divisor of 0; whoever builds one excludes that
  signed_divide,
  signed_modulo,  // truncating, as the processor does
  wide_unsigned_divide,
  wide_unsigned_modulo,  // of the 128-bit number a:b by c; 64 bits of the result
  wide_signed_divide,
  wide_signed_modulo,
  bit_and,
  bit_or,
  bit_xor,
  shift_left,
  shift_right,
  shift_right_signed,  // by b, of the same width; as in SMT-LIB for amounts beyond it
  equal,
  unsigned_less,
  signed_less,  // of 1 bit
  choose,       // 1-bit a: b if it is 1, else c
  extract,      // the bits of a from bit `number` on
  concat,       // a above b
  sign_extend,  // a
  select,       // entry of table `number` whose key is a
  count_ones,
  count_leading_zeros,
  count_trailing_zeros,  // of all bits; the width for 0
};

struct Node {
  Op op = Op::constant;
  uint8_t bits = 0;
  Expr a = kNone, b = kNone, c = kNone;
  uint64_t number = 0;
  bool operator==(const Node&) const = default;
};

// A read of memory through an address that depends on symbols: for each possible address (relative to some place) what
// is there. Keys ascend. A key that is not in the table cannot occur under the path condition; it reads as the first
// entry.
struct Table {
  uint8_t key_bits = 0, entry_bits = 0;
  std::vector<uint64_t> keys;
  std::vector<Expr> entries;
  bool operator==(const Table&) const = default;
  size_t place(uint64_t key) const;  // of the entry
};

// A value for each symbol, by its number in here (0, 1, ...).
using Model = std::vector<uint8_t>;

constexpr uint64_t mask_of(int bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }
constexpr int64_t signed_value(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

class Expressions {
 public:
  Expressions();

  const Node& node(Expr expression) const { return nodes_[expression]; }
  int bits(Expr expression) const { return nodes_[expression].bits; }
  bool is_constant(Expr expression) const { return nodes_[expression].op == Op::constant; }
  bool is_constant(Expr expression, uint64_t value) const {
    return is_constant(expression) && nodes_[expression].number == value;
  }
  uint64_t constant_value(Expr expression) const { return nodes_[expression].number; }
  size_t size() const { return nodes_.size(); }
  const Table& table(uint64_t number) const { return tables_[number]; }

  Expr constant(uint64_t value, int bits);
  Expr symbol(uint32_t number);
  Expr add(Expr a, Expr b);
  Expr sub(Expr a, Expr b);
  Expr mul(Expr a, Expr b);
  Expr divide(Op op, Expr a, Expr b);  // the four of one width
  Expr divide_wide(Op op, Expr high, Expr low, Expr by);
  Expr mul_high(Op op, Expr a, Expr b);
  Expr bitwise(Op op, Expr a, Expr b);  // bit_and, bit_or, bit_xor
  Expr shift(Op op, Expr a, Expr amount);
  Expr equal(Expr a, Expr b);
  Expr unsigned_less(Expr a, Expr b);
  Expr signed_less(Expr a, Expr b);
  Expr choose(Expr condition, Expr yes, Expr no);
  Expr extract(Expr a, int low, int bits);
  Expr concat(Expr high, Expr low);
  Expr zero_extend(Expr a, int bits);  // to `bits`; may be the width that it has
  Expr sign_extend(Expr a, int bits);
  Expr select(Table table, Expr index);
  Expr count(Op op, Expr a);
  Expr complement(Expr a) { return bitwise(Op::bit_xor, a, constant(~0ull, bits(a))); }
  Expr negated(Expr condition) { return complement(condition); }  // of 1 bit
  Expr both(Expr a, Expr b) { return bitwise(Op::bit_and, a, b); }
  Expr either(Expr a, Expr b) { return bitwise(Op::bit_or, a, b); }
  Expr byte(Expr a, int number) { return extract(a, 8 * number, 8); }
  Expr sign_bit(Expr a) { return extract(a, bits(a) - 1, 1); }

  // The model that value() is about, from now on. It must stay where it is and must not change in between.
  void set_model(const Model* model);
  const Model& model() const { return *model_; }
  uint64_t value(Expr expression);
  // What an operation gives for these values of its operands.
  uint64_t apply(const Node& node, uint64_t a, uint64_t b, uint64_t c) const;

  // The symbols that an expression depends on, ascending. A node for which `stop` says yes is not looked into.
  template <typename Stop>
  std::vector<uint32_t> symbols_of(std::span<const Expr> roots, Stop stop);
  std::vector<uint32_t> symbols_of(std::span<const Expr> roots) {
    return symbols_of(roots, [](Expr) { return false; });
  }
  // All nodes that the roots consist of, ascending.
  std::vector<Expr> nodes_of(std::span<const Expr> roots);
  template <typename Visit>
  void for_each_operand(const Node& node, Visit visit) const;

  // Forgets all expressions beyond the first `size`, and tables likewise: nobody may hold one of them.
  size_t tables() const { return tables_.size(); }
  void truncate(size_t size, size_t tables);

 private:
  Expr make(Op op, int bits, Expr a, Expr b = kNone, Expr c = kNone, uint64_t number = 0);
  Expr insert(const Node& node);
  void grow();
  uint64_t compute(Expr expression);
  bool fold(Op op, int bits, Expr a, Expr b, Expr* folded);
  Expr join(Expr high, Expr low);
  Expr extract_from(Expr a, int low, int bits, int depth);
  Expr extract_pushed(Expr a, int low, int bits, int depth);
  Expr masked(Expr a, uint64_t mask);
  Expr split_bitwise(Op op, Expr a, Expr b);
  Expr simple_bitwise(Op op, Expr a, uint64_t constant);
  Expr equal_constant(Expr a, uint64_t value);
  Expr equal_choice(Expr choice, uint64_t value);
  Expr equal_selected(Expr selected, uint64_t value);
  uint64_t zeros(Expr a, int depth);  // bits that are certainly 0
  int leading_zeros(Expr a);

  std::vector<Node> nodes_;
  std::vector<Expr> slots_;       // hash table, open addressing
  std::vector<uint64_t> values_;  // under the model
  std::vector<uint32_t> valued_;  // in which the value was computed
  std::vector<uint32_t> seen_;    // marks of walks
  std::vector<Table> tables_;
  std::unordered_multimap<size_t, uint64_t> tables_by_hash_;
  const Model* model_ = nullptr;
  uint32_t model_number_ = 1;
  uint32_t walk_ = 0;
};

template <typename Visit>
void Expressions::for_each_operand(const Node& node, Visit visit) const {
  if (node.a != kNone) visit(node.a);
  if (node.b != kNone) visit(node.b);
  if (node.c != kNone) visit(node.c);
  if (node.op == Op::select) {
    for (const Expr entry : tables_[node.number].entries) visit(entry);
  }
}

template <typename Stop>
std::vector<uint32_t> Expressions::symbols_of(std::span<const Expr> roots, Stop stop) {
  std::vector<uint32_t> symbols;
  std::vector<Expr> waiting;
  ++walk_;
  seen_.resize(nodes_.size());
  const auto visit = [&](Expr expression) {
    if (std::exchange(seen_[expression], walk_) != walk_ && !is_constant(expression)) waiting.push_back(expression);
  };
  for (const Expr root : roots) visit(root);
  while (!waiting.empty()) {
    const Expr next = waiting.back();
    waiting.pop_back();
    if (stop(next)) continue;
    if (nodes_[next].op == Op::symbol) symbols.push_back(static_cast<uint32_t>(nodes_[next].number));
    for_each_operand(nodes_[next], visit);
  }
  std::sort(symbols.begin(), symbols.end());
  return symbols;
}

}  // namespace friday::infer
