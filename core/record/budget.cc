#include "core/record/budget.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/trace/leaving_out.h"

namespace friday {

Budget::Budget(const LeanOptions& options, uint64_t ticks_per_second, NamesOf names)
    : options_(options),
      ticks_per_second_(ticks_per_second),
      names_(std::move(names)),
      tokens_(static_cast<double>(options.budget) * kBurstSeconds),
      control_tokens_(tokens_ * kControlShare),
      most_of_control_(static_cast<double>(options.budget) * kControlShare) {}

Budget::Flow& Budget::flow(uint64_t channel) {
  const auto [found, is_new] = flows_.try_emplace(channel);
  if (!is_new) return found->second;
  Flow& flow = found->second;
  flow.rule = Rule::by_budget;
  flow.ticks = now_.value_or(0);
  if (options_.keep.empty() && options_.drop.empty() && options_.let_go.empty()) return flow;
  const Names names = names_(channel);
  if (is_named(options_.keep, names)) flow.rule = Rule::keep;
  else if (is_named(options_.drop, names)) flow.rule = Rule::drop;
  flow.may_go = is_named(options_.let_go, names);
  return flow;
}

// Time goes on to `ticks`, and the budget grows.
void Budget::advance(uint64_t ticks) {
  const uint64_t before = now_.value_or(ticks);
  now_ = std::max(before, ticks);
  const auto budget = static_cast<double>(options_.budget);
  tokens_ = std::min(tokens_ + budget * seconds(*now_ - before), budget * kBurstSeconds);
  control_tokens_ = std::min(control_tokens_ + budget * kControlShare * seconds(*now_ - before),
                             budget * kControlShare * kBurstSeconds);
  if (seconds(*now_ - classified_) >= kClassifySeconds) classify();
}

void Budget::decay(Flow& flow) const {
  if (flow.ticks < *now_) flow.rate *= std::exp(-seconds(*now_ - flow.ticks) / kAverageSeconds);
  flow.ticks = *now_;
}

// Up to which rate a channel is one of control: those of the lowest rates are, as many as their share of the budget
// carries; and one of them may grow into what is left of the share.
void Budget::classify() {
  classified_ = *now_;
  std::vector<double> rates;
  for (auto& [channel, flow] : flows_) {
    decay(flow);
    rates.push_back(flow.rate);
  }
  std::ranges::sort(rates);
  const double share = static_cast<double>(options_.budget) * kControlShare;
  double sum = 0, last = 0;
  for (const double rate : rates) {
    if (sum + rate > share) break;
    sum += rate;
    last = rate;
  }
  most_of_control_ = std::max(last, share - sum);
  if (flows_.size() > kMostFlows) std::erase_if(flows_, [](const auto& each) { return each.second.rate < 1; });
}

bool Budget::keeps(Flow& flow, const Regenerable& bytes) {
  const auto size = static_cast<double>(bytes.size);
  decay(flow);
  flow.rate += size / kAverageSeconds;
  flow.control = flow.rate <= most_of_control_ * (flow.control ? kHysteresis : 1);
  if (flow.rule == Rule::drop) return false;
  if (flow.rule == Rule::keep) return true;
  // What they may take does not depend on what else is stored: the events alone may exceed the budget.
  if (flow.control && control_tokens_ >= size) {
    control_tokens_ -= size;
    return true;
  }
  return tokens_ >= size + static_cast<double>(options_.budget) * kReserveSeconds;
}

std::vector<LeftOut> Budget::choose(std::span<const Regenerable> regenerable, std::span<const Regenerable> foreign) {
  std::vector<Regenerable> all, out;
  std::ranges::merge(regenerable, foreign, std::back_inserter(all), {}, &Regenerable::offset, &Regenerable::offset);
  for (const Regenerable& bytes : all) {
    advance(bytes.ticks);
    Flow& from = flow(bytes.channel);
    if (bytes.is_let_go() && !from.may_go) continue;  // its bytes are stored in any case
    if (!keeps(from, bytes)) {
      out.push_back(bytes);
      continue;
    }
    tokens_ -= static_cast<double>(bytes.size);
    kept_ += bytes.size;
  }
  const uint64_t heads = options_.budget && tokens_ < 0 ? 0 : kKeptOfMessage;
  return choose_left_out(out, heads);
}

void Budget::stored(uint64_t bytes) {
  const double least = -static_cast<double>(options_.budget) * kBurstSeconds;
  tokens_ = std::max(least, tokens_ - static_cast<double>(bytes - std::min(bytes, std::exchange(kept_, 0))));
}

}  // namespace friday
