#include "core/study/exact_forcing.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/base/counted.h"
#include "core/study/shape.h"

namespace friday {

ExactForcing::ExactForcing(ExactOrder order, KeptValues kept)
    : order_(std::move(order)), kept_(std::move(kept)), state_(order_.size()), to_come_(order_.size()) {
  for (uint32_t i = 0; i < order_.size(); i++) {
    const MessageClass& is = order_[i].is;
    classes_[{is.from, is.text}].to[is.to].push_back(i);
  }
  for (auto& [key, receivers] : classes_)
    for (auto& [to, messages] : receivers.to)
      std::ranges::sort(messages, {}, [&](uint32_t each) { return order_[each].number; });
}

bool ExactForcing::is_met(const ExactMessage::Need& need) const {
  const Stage stage = state_[need.message].stage;
  return stage == Stage::handled || (stage == Stage::received && !need.handled);
}

bool ExactForcing::may_go(uint32_t message) const {
  return std::ranges::all_of(order_[message].needs, [&](const auto& need) { return is_met(need); });
}

Forcing::Verdict ExactForcing::sent(Ticket ticket, const std::string& from, const std::string& to,
                                    std::string_view bytes, uint64_t length) {
  if (is_complete() || given_up_) return Verdict::pass;
  const std::string text = class_text(shape_of(bytes, length), kept_);
  const auto known = classes_.find({from, text});
  if (known == classes_.end()) return Verdict::pass;
  // Who will receive it may be unknown; then it is clear only if the order has one receiver of such messages.
  auto receiver = known->second.to.find(to);
  if (to.empty() && known->second.to.size() == 1) receiver = known->second.to.begin();
  if (receiver == known->second.to.end()) return Verdict::pass;
  const uint32_t number = ++counts_[{from, receiver->first, text}];
  const auto found =
      std::ranges::lower_bound(receiver->second, number, {}, [&](uint32_t each) { return order_[each].number; });
  if (found == receiver->second.end() || order_[*found].number != number) return Verdict::pass;
  State& state = state_[*found];
  if (state.stage != Stage::unsent) return Verdict::pass;  // it was left out
  state.ticket = ticket;
  by_ticket_[ticket] = *found;
  if (!may_go(*found)) {
    state.stage = Stage::held;
    held_.insert(*found);
    return Verdict::hold;
  }
  state.stage = Stage::sent;
  to_come_--;
  return Verdict::watch;
}

std::vector<Forcing::Released> ExactForcing::release() {
  std::vector<Released> out;
  const bool over = given_up_ || is_complete();
  for (auto each = held_.begin(); each != held_.end();) {
    if (!over && !may_go(*each)) {
      ++each;
      continue;
    }
    State& state = state_[*each];
    state.stage = Stage::sent;
    to_come_--;
    out.push_back({state.ticket, !over});
    each = held_.erase(each);
  }
  return out;
}

void ExactForcing::reach(Ticket ticket, Stage stage) {
  const auto known = by_ticket_.find(ticket);
  if (known == by_ticket_.end()) return;
  State& state = state_[known->second];
  state.stage = std::max(state.stage, stage);
}

void ExactForcing::lost(Ticket ticket) {
  if (const auto known = by_ticket_.find(ticket); known != by_ticket_.end()) leave_out(known->second);
  reach(ticket, Stage::handled);
}

void ExactForcing::leave_out(uint32_t message) {
  State& state = state_[message];
  if (state.stage >= Stage::received) return;
  if (state.stage == Stage::unsent || state.stage == Stage::held) to_come_--;
  held_.erase(message);
  state.stage = Stage::handled;
  left_out_.insert(message);
}

// Calls use(message) for each message that is not held itself, and that a held one still needs.
template <typename Use>
void ExactForcing::each_missing(Use&& use) {
  for (uint32_t each : held_)
    for (const ExactMessage::Need& need : order_[each].needs)
      if (!is_met(need) && state_[need.message].stage != Stage::held) use(need.message);
}

bool ExactForcing::do_without(bool may_leave_out) {
  const size_t before = only_received_ + left_out_.size();
  each_missing([&](uint32_t message) {
    if (state_[message].stage != Stage::received) return;
    state_[message].stage = Stage::handled;
    only_received_++;
  });
  if (may_leave_out && only_received_ + left_out_.size() == before) {
    std::set<uint32_t> missing;
    each_missing([&](uint32_t message) { missing.insert(message); });
    for (uint32_t message : missing) {
      leave_out(message);
      const MessageClass& is = order_[message].is;
      if (counts_.contains({is.from, is.to, is.text})) continue;
      for (uint32_t alike : classes_[{is.from, is.text}].to[is.to]) leave_out(alike);
    }
  }
  return only_received_ + left_out_.size() > before;
}

std::string ExactForcing::waits_for() const {
  if (given_up_) return "nothing: the order was given up";
  if (is_complete()) {
    if (left_out_.empty()) return "nothing: the order has come true";
    return fmt::format("{} of {} did not come, the first of them {}", left_out_.size(),
                       counted(order_.size(), "message"), describe(order_[*left_out_.begin()].is));
  }
  // What holds the others back: the first held message waits for something that is not held.
  for (uint32_t each : held_)
    for (const ExactMessage::Need& need : order_[each].needs)
      if (!is_met(need) && state_[need.message].stage != Stage::held) {
        const ExactMessage& next = order_[need.message];
        return fmt::format("{} (number {}) to be {}, before {}", describe(next.is), next.number,
                           state_[need.message].stage == Stage::unsent ? "sent"
                           : need.handled                              ? "handled"
                                                                       : "received",
                           describe(order_[each].is));
      }
  return fmt::format("{} of {} to be sent", to_come_, counted(order_.size(), "message"));
}

}  // namespace friday
