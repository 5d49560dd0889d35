#include "core/infer/solver/linear.h"

#include <algorithm>

namespace friday::infer {
namespace {

constexpr int kTries = 24;
constexpr size_t kMostHits = 4096;  // that are checked in one try

struct PairSum {
  uint64_t sum;
  uint16_t bytes;
  bool operator<(const PairSum& other) const { return sum < other.sum; }
};

std::vector<PairSum> sums_of_pair(uint64_t first, uint64_t second, uint64_t mask) {
  std::vector<PairSum> sums;
  sums.reserve(1 << 16);
  for (uint64_t a = 0; a < 256; ++a) {
    for (uint64_t b = 0; b < 256; ++b)
      sums.push_back({(a * first + b * second) & mask, static_cast<uint16_t>(a << 8 | b)});
  }
  std::sort(sums.begin(), sums.end());
  return sums;
}

class LinearTry {
 public:
  LinearTry(Expressions& x, std::span<const Expr> conditions, const LinearForm& form, uint64_t wanted)
      : x_(x), conditions_(conditions), form_(form), wanted_(wanted), mask_(mask_of(form.bits)) {}

  bool vary(const uint32_t* symbols, Model* model) {
    uint64_t rest = wanted_ - form_.constant;
    for (const auto& [symbol, factor] : form_.factors) {
      if (std::find(symbols, symbols + 4, symbol) == symbols + 4) rest -= factor * (*model)[symbol];
    }
    const auto factor = [&](int i) { return form_.factors.at(symbols[i]); };
    const std::vector<PairSum> left = sums_of_pair(factor(0), factor(1), mask_);
    size_t hits = 0;
    for (uint64_t a = 0; a < 256; ++a) {
      for (uint64_t b = 0; b < 256; ++b) {
        const uint64_t needed = (rest - a * factor(2) - b * factor(3)) & mask_;
        for (auto hit = std::lower_bound(left.begin(), left.end(), PairSum{needed, 0});
             hit != left.end() && hit->sum == needed; ++hit) {
          const uint8_t values[] = {static_cast<uint8_t>(hit->bytes >> 8), static_cast<uint8_t>(hit->bytes),
                                    static_cast<uint8_t>(a), static_cast<uint8_t>(b)};
          if (holds(symbols, values, model)) return true;
          if (++hits == kMostHits) return false;
        }
      }
    }
    return false;
  }

 private:
  // Whether all conditions hold with these values; if not, the model is as before.
  bool holds(const uint32_t* symbols, const uint8_t* values, Model* model) {
    uint8_t before[4];
    for (int i = 0; i < 4; ++i) before[i] = std::exchange((*model)[symbols[i]], values[i]);
    x_.set_model(model);
    if (std::all_of(conditions_.begin(), conditions_.end(), [&](Expr each) { return x_.value(each) != 0; }))
      return true;
    for (int i = 0; i < 4; ++i) (*model)[symbols[i]] = before[i];
    return false;
  }

  Expressions& x_;
  std::span<const Expr> conditions_;
  const LinearForm& form_;
  uint64_t wanted_, mask_;
};

}  // namespace

// The factor with which each node goes into the sum is found from the root down. What a node of fewer bits than the
// root wraps around must not count: its factor must be a multiple of what is missing, or the node does not wrap.
std::optional<LinearForm> linear_form(Expressions& x, Expr expression) {
  const std::vector<Expr> nodes = x.nodes_of(std::span(&expression, 1));
  LinearForm form;
  form.bits = x.bits(expression);
  const uint64_t mask = mask_of(form.bits);
  std::unordered_map<Expr, uint64_t> factors{{expression, 1}};
  for (auto next = nodes.rbegin(); next != nodes.rend(); ++next) {
    const uint64_t factor = factors[*next] & mask;
    const Node& node = x.node(*next);
    if (factor == 0) continue;
    const bool may_wrap = node.bits >= form.bits || ((factor << node.bits) & mask) == 0;
    switch (node.op) {
      case Op::constant: form.constant += factor * node.number; continue;
      case Op::symbol: form.factors[static_cast<uint32_t>(node.number)] += factor; continue;
      case Op::concat:
        factors[node.a] += factor << x.bits(node.b);
        factors[node.b] += factor;
        continue;
      default: break;
    }
    if (!may_wrap) return std::nullopt;
    if (node.op == Op::add || node.op == Op::sub) {
      factors[node.a] += factor;
      factors[node.b] += node.op == Op::add ? factor : 0 - factor;
    } else if (node.op == Op::mul && x.is_constant(node.b)) {
      factors[node.a] += factor * x.constant_value(node.b);
    } else if (node.op == Op::shift_left && x.is_constant(node.b) && x.constant_value(node.b) < 64) {
      factors[node.a] += factor << x.constant_value(node.b);
    } else if (node.op == Op::extract && node.number == 0) {
      factors[node.a] += factor;
    } else {
      return std::nullopt;
    }
  }
  std::erase_if(form.factors, [&](const auto& each) { return (each.second & mask) == 0; });
  return form;
}

bool solve_linear(Expressions& x, std::span<const Expr> conditions, Expr broken, Model* model, std::mt19937& random) {
  const Node node = x.node(broken);
  if (node.op != Op::equal) return false;
  // Both sides may be sums: their difference is 0.
  const auto left = linear_form(x, node.a), right = linear_form(x, node.b);
  if (!left || !right) return false;
  LinearForm form = *left;
  form.constant -= right->constant;
  for (const auto& [symbol, factor] : right->factors) form.factors[symbol] -= factor;
  if (form.factors.size() < 4) return false;
  std::vector<uint32_t> symbols;
  for (const auto& [symbol, factor] : form.factors) symbols.push_back(symbol);
  std::sort(symbols.begin(), symbols.end());
  if (model->size() <= symbols.back()) model->resize(symbols.back() + 1);
  const Model* before = &x.model();
  bool found = false;
  LinearTry attempt(x, conditions, form, 0);
  for (int i = 0; i < kTries && !found; ++i) {
    std::shuffle(symbols.begin(), symbols.end(), random);
    found = attempt.vary(symbols.data(), model);
  }
  x.set_model(before);
  return found;
}

}  // namespace friday::infer
