#include "core/infer/solver/questions.h"

#include <z3++.h>

#include <algorithm>

#include "core/infer/solver/linear.h"

namespace friday::infer {
namespace {

constexpr std::chrono::milliseconds kFirstPatience{400};
constexpr size_t kMostSingles = 4;
constexpr size_t kFreeSymbols[] = {5, 6, 8, 5, 6, 12};  // in one round

}  // namespace

// Translates expressions for Z3 and asks.
class Questions::Solver {
 public:
  explicit Solver(Expressions& expressions) : x_(expressions), tactic_(context_, "qfbv") {}

  Answer ask(const Island& island, Model* model, Deadline deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return Answer::unknown;
    try {
      z3::solver solver = tactic_.mk_solver();
      z3::params limits(context_);
      limits.set("timeout", static_cast<unsigned>(std::min<long>(left, 1 << 30)));
      solver.set(limits);
      translate(island.conditions);
      for (const Expr condition : island.conditions) solver.add(truth(condition));
      const z3::check_result found = solver.check();
      if (found == z3::sat) take(solver.get_model(), island, model);
      forget();
      return found == z3::sat ? Answer::yes : found == z3::unsat ? Answer::no : Answer::unknown;
    } catch (const z3::exception&) {  // out of memory, or out of time while preprocessing
      forget();
      return Answer::unknown;
    }
  }

 private:
  // A node as bits, as truth, or both; 1-bit nodes are translated as what is asked for.
  struct Translation {
    z3::expr bits, truth;
    explicit Translation(z3::context& context) : bits(context), truth(context) {}
  };

  void forget() {
    translations_.clear();
    places_.clear();
  }
  void take(const z3::model& found, const Island& island, Model* model) {
    for (const uint32_t symbol : island.symbols) {
      if (model->size() <= symbol) model->resize(symbol + 1);
      const z3::expr value = found.eval(name(symbol), true);
      unsigned number = 0;
      if (Z3_get_numeral_uint(context_, value, &number)) (*model)[symbol] = static_cast<uint8_t>(number);
    }
  }
  z3::expr name(uint64_t symbol) { return context_.bv_const(("s" + std::to_string(symbol)).c_str(), 8); }
  z3::expr number(uint64_t value, int bits) { return context_.bv_val(value, static_cast<unsigned>(bits)); }

  Translation& at(Expr expression) { return translations_[places_.at(expression)]; }
  z3::expr bits(Expr expression) {
    Translation& found = at(expression);
    if (!static_cast<bool>(found.bits)) found.bits = z3::ite(found.truth, number(1, 1), number(0, 1));
    return found.bits;
  }
  z3::expr truth(Expr expression) {
    Translation& found = at(expression);
    if (!static_cast<bool>(found.truth)) found.truth = found.bits == number(1, 1);
    return found.truth;
  }

  void translate(std::span<const Expr> roots) {
    for (const Expr expression : x_.nodes_of(roots)) {
      places_.emplace(expression, translations_.size());
      translations_.emplace_back(context_);
      Translation made(context_);
      translate_node(x_.node(expression), &made);
      translations_.back() = made;
    }
  }

  void translate_node(const Node& node, Translation* made) {
    switch (node.op) {
      case Op::equal: made->truth = bits(node.a) == bits(node.b); return;
      case Op::unsigned_less: made->truth = z3::ult(bits(node.a), bits(node.b)); return;
      case Op::signed_less: made->truth = z3::slt(bits(node.a), bits(node.b)); return;
      case Op::choose:
        if (node.bits == 1) made->truth = z3::ite(truth(node.a), truth(node.b), truth(node.c));
        else made->bits = z3::ite(truth(node.a), bits(node.b), bits(node.c));
        return;
      case Op::bit_and:
      case Op::bit_or:
      case Op::bit_xor:
        if (node.bits != 1) break;
        if (node.op == Op::bit_and) made->truth = truth(node.a) && truth(node.b);
        else if (node.op == Op::bit_or) made->truth = truth(node.a) || truth(node.b);
        else if (x_.is_constant(node.b, 1)) made->truth = !truth(node.a);
        else made->truth = truth(node.a) != truth(node.b);
        return;
      case Op::constant:
        made->bits = number(node.number, node.bits);
        if (node.bits == 1) made->truth = context_.bool_val(node.number != 0);
        return;
      default: break;
    }
    made->bits = arithmetic(node);
  }

  z3::expr arithmetic(const Node& node) {
    switch (node.op) {
      case Op::symbol: return name(node.number);
      case Op::add: return bits(node.a) + bits(node.b);
      case Op::sub: return bits(node.a) - bits(node.b);
      case Op::mul: return bits(node.a) * bits(node.b);
      case Op::mul_high_unsigned: return (z3::zext(bits(node.a), 64) * z3::zext(bits(node.b), 64)).extract(127, 64);
      case Op::mul_high_signed: return (z3::sext(bits(node.a), 64) * z3::sext(bits(node.b), 64)).extract(127, 64);
      case Op::unsigned_divide: return z3::udiv(bits(node.a), bits(node.b));
      case Op::unsigned_modulo: return z3::urem(bits(node.a), bits(node.b));
      case Op::signed_divide: return bits(node.a) / bits(node.b);
      case Op::signed_modulo: return z3::srem(bits(node.a), bits(node.b));
      case Op::wide_unsigned_divide: return wide_quotient(node, false).extract(63, 0);
      case Op::wide_signed_divide: return wide_quotient(node, true).extract(63, 0);
      case Op::wide_unsigned_modulo:
        return z3::urem(z3::concat(bits(node.a), bits(node.b)), z3::zext(bits(node.c), 64)).extract(63, 0);
      case Op::wide_signed_modulo:
        return z3::srem(z3::concat(bits(node.a), bits(node.b)), z3::sext(bits(node.c), 64)).extract(63, 0);
      case Op::bit_and: return bits(node.a) & bits(node.b);
      case Op::bit_or: return bits(node.a) | bits(node.b);
      case Op::bit_xor: return bits(node.a) ^ bits(node.b);
      case Op::shift_left: return z3::shl(bits(node.a), bits(node.b));
      case Op::shift_right: return z3::lshr(bits(node.a), bits(node.b));
      case Op::shift_right_signed: return z3::ashr(bits(node.a), bits(node.b));
      case Op::extract:
        return bits(node.a).extract(static_cast<unsigned>(node.number) + node.bits - 1u,
                                    static_cast<unsigned>(node.number));
      case Op::concat: return z3::concat(bits(node.a), bits(node.b));
      case Op::sign_extend: return z3::sext(bits(node.a), static_cast<unsigned>(node.bits - x_.bits(node.a)));
      case Op::select: return selected(node);
      case Op::count_ones: return ones(node);
      case Op::count_leading_zeros: return zeros_from(node, true);
      default: return zeros_from(node, false);
    }
  }
  z3::expr wide_quotient(const Node& node, bool is_signed) {
    const z3::expr number = z3::concat(bits(node.a), bits(node.b));
    return is_signed ? number / z3::sext(bits(node.c), 64) : z3::udiv(number, z3::zext(bits(node.c), 64));
  }
  z3::expr ones(const Node& node) {
    z3::expr sum = number(0, node.bits);
    for (unsigned i = 0; i < node.bits; ++i) sum = sum + z3::zext(bits(node.a).extract(i, i), node.bits - 1u);
    return sum;
  }
  // How many zeros there are before the first 1, from above or from below.
  z3::expr zeros_from(const Node& node, bool above) {
    z3::expr count = number(node.bits, node.bits);
    for (unsigned i = 0; i < node.bits; ++i) {
      const unsigned bit = above ? i : node.bits - 1u - i;  // the last one that is looked at decides
      count = z3::ite(bits(node.a).extract(bit, bit) == number(1, 1), number(node.bits - 1u - i, node.bits), count);
    }
    return count;
  }

  // A table whose entries are constants and XORs of its entries for single bits (as those of CRCs are) is a sum of
  // bits, which solvers handle far better than a table.
  bool is_linear(const Table& table) const {
    const size_t count = table.keys.size();
    if (count < 4 || (count & (count - 1)) != 0 || table.keys[count - 1] != count - 1) return false;
    for (size_t i = 0; i < count; ++i) {
      if (!x_.is_constant(table.entries[i])) return false;
      const size_t lowest = i & (0 - i);
      const uint64_t expected = x_.constant_value(table.entries[0]) ^ x_.constant_value(table.entries[lowest]) ^
                                x_.constant_value(table.entries[i ^ lowest]);
      if (i != 0 && x_.constant_value(table.entries[i]) != expected) return false;
    }
    return true;
  }
  z3::expr selected(const Node& node) {
    const Table& table = x_.table(node.number);
    const z3::expr key = bits(node.a);
    if (!is_linear(table)) return between(table, key, 0, table.keys.size());
    const uint64_t first = x_.constant_value(table.entries[0]);
    z3::expr sum = number(first, node.bits);
    for (unsigned bit = 0; (size_t{1} << bit) < table.keys.size(); ++bit) {
      const uint64_t with = x_.constant_value(table.entries[size_t{1} << bit]) ^ first;
      sum = sum ^ z3::ite(key.extract(bit, bit) == number(1, 1), number(with, node.bits), number(0, node.bits));
    }
    return sum;
  }
  z3::expr between(const Table& table, const z3::expr& key, size_t from, size_t to) {
    const bool alike =
        std::all_of(table.entries.begin() + static_cast<long>(from), table.entries.begin() + static_cast<long>(to),
                    [&](Expr entry) { return entry == table.entries[from]; });
    if (alike) return bits(table.entries[from]);
    const size_t middle = (from + to) / 2;
    return z3::ite(z3::ult(key, number(table.keys[middle], table.key_bits)), between(table, key, from, middle),
                   between(table, key, middle, to));
  }

  Expressions& x_;
  z3::context context_;
  z3::tactic tactic_;
  std::vector<Translation> translations_;
  std::unordered_map<Expr, size_t> places_;
};

Questions::Questions(Expressions& expressions)
    : expressions_(expressions), solver_(std::make_unique<Solver>(expressions)) {}
Questions::~Questions() = default;

const std::vector<uint32_t>& Questions::symbols_of(Expr condition) {
  const auto [found, is_new] = symbols_.try_emplace(condition);
  if (is_new) found->second = expressions_.symbols_of(std::span(&condition, 1));
  return found->second;
}

std::vector<Questions::Island> Questions::islands_around(std::span<const Expr> conditions,
                                                         const std::vector<bool>& of_interest) {
  std::unordered_map<uint32_t, std::vector<size_t>> by_symbol;
  for (size_t i = 0; i < conditions.size(); ++i) {
    for (const uint32_t symbol : symbols_of(conditions[i])) by_symbol[symbol].push_back(i);
  }
  std::vector<bool> taken(conditions.size());
  std::unordered_map<uint32_t, bool> seen;
  std::vector<Island> islands;
  for (size_t start = 0; start < conditions.size(); ++start) {
    if (!of_interest[start] || taken[start]) continue;
    Island& island = islands.emplace_back();
    std::vector<size_t> waiting{start};
    taken[start] = true;
    while (!waiting.empty()) {
      const size_t next = waiting.back();
      waiting.pop_back();
      island.conditions.push_back(conditions[next]);
      for (const uint32_t symbol : symbols_of(conditions[next])) {
        if (!seen.emplace(symbol, true).second) continue;
        island.symbols.push_back(symbol);
        for (const size_t other : by_symbol[symbol]) {
          if (taken[other]) continue;
          taken[other] = true;
          waiting.push_back(other);
        }
      }
    }
  }
  return islands;
}

Answer Questions::solve(std::span<const Expr> conditions, Model* model, Deadline deadline) {
  const Model* before = &expressions_.model();
  expressions_.set_model(model);
  std::vector<bool> broken;
  bool any = false, never = false;
  for (const Expr condition : conditions) {
    broken.push_back(expressions_.value(condition) == 0);
    any = any || broken.back();
    never = never || expressions_.is_constant(condition, 0);
  }
  expressions_.set_model(before);
  if (never) return Answer::no;
  if (!any) return Answer::yes;
  Model changed = *model;
  for (const Island& island : islands_around(conditions, broken)) {
    const Answer answer = solve_island(island, &changed, deadline);
    if (answer != Answer::yes) return answer;
  }
  *model = std::move(changed);
  return Answer::yes;
}

Answer Questions::solve_island(const Island& island, Model* model, Deadline deadline) {
  if (island.symbols.size() == 1) return try_out(island, model);
  if (try_single_symbols(island, model)) return Answer::yes;
  for (const Expr broken : broken_of(island, model)) {
    if (solve_linear(expressions_, island.conditions, broken, model, random_)) return Answer::yes;
  }
  const auto within = [&](std::chrono::milliseconds time) {
    return std::min(deadline, std::chrono::steady_clock::now() + time);
  };
  std::chrono::milliseconds patience = kFirstPatience;
  for (;;) {
    ++asked_;
    if (const Answer answer = solver_->ask(island, model, within(patience)); answer != Answer::unknown) return answer;
    for (const size_t free : kFreeSymbols) {
      if (std::chrono::steady_clock::now() >= deadline) return Answer::unknown;
      if (island.symbols.size() <= free) continue;
      if (ask_with_few_free(island, model, free, within(patience / 2)) == Answer::yes) return Answer::yes;
    }
    if (std::chrono::steady_clock::now() >= deadline) return Answer::unknown;
    patience *= 3;
  }
}

Answer Questions::ask_with_few_free(const Island& island, Model* model, size_t free, Deadline deadline) {
  Island restricted = island;
  std::vector<uint32_t> fixed = island.symbols;
  std::shuffle(fixed.begin(), fixed.end(), random_);
  for (size_t i = free; i < fixed.size(); ++i) {
    const uint8_t value = fixed[i] < model->size() ? (*model)[fixed[i]] : 0;
    restricted.conditions.push_back(expressions_.equal(expressions_.symbol(fixed[i]), expressions_.constant(value, 8)));
  }
  ++asked_;
  return solver_->ask(restricted, model, deadline);
}

std::vector<Expr> Questions::broken_of(const Island& island, const Model* model) {
  const Model* before = &expressions_.model();
  expressions_.set_model(model);
  std::vector<Expr> broken;
  for (const Expr each : island.conditions) {
    if (expressions_.value(each) == 0) broken.push_back(each);
  }
  expressions_.set_model(before);
  return broken;
}

// Most negated branches are about one byte: whether another value of a single symbol is enough.
bool Questions::try_single_symbols(const Island& island, Model* model) {
  std::vector<Expr> broken = broken_of(island, model);
  if (broken.size() != 1 || symbols_of(broken[0]).size() > kMostSingles) return false;
  const Model* before = &expressions_.model();
  bool holds = false;
  for (const uint32_t symbol : symbols_of(broken[0])) {
    if (model->size() <= symbol) model->resize(symbol + 1);
    const uint8_t old = (*model)[symbol];
    for (int value = 0; value < 256 && !holds; ++value) {
      (*model)[symbol] = static_cast<uint8_t>(value);
      expressions_.set_model(model);
      holds =
          expressions_.value(broken[0]) != 0 && std::all_of(island.conditions.begin(), island.conditions.end(),
                                                            [&](Expr each) { return expressions_.value(each) != 0; });
    }
    if (holds) break;
    (*model)[symbol] = old;
  }
  expressions_.set_model(before);
  return holds;
}

Answer Questions::try_out(const Island& island, Model* model) {
  const uint32_t symbol = island.symbols[0];
  if (model->size() <= symbol) model->resize(symbol + 1);
  const Model* before = &expressions_.model();
  const uint8_t old = (*model)[symbol];
  bool holds = false;
  for (int value = 0; value < 256 && !holds; ++value) {
    (*model)[symbol] = static_cast<uint8_t>(value);
    expressions_.set_model(model);
    holds = std::all_of(island.conditions.begin(), island.conditions.end(),
                        [&](Expr each) { return expressions_.value(each) != 0; });
  }
  if (!holds) (*model)[symbol] = old;
  expressions_.set_model(before);
  return holds ? Answer::yes : Answer::no;
}

}  // namespace friday::infer
