#include "core/study/forcing.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace friday {
namespace {

Result<MessageClass> class_of(const Naming& naming, uint32_t name) {
  const Identity& identity = naming.identities[name];
  const std::string mine = naming.roles[identity.role];
  if (identity.partner == TalkEvent::kOutside)
    return fail(ErrorCode::unsupported,
                "`{}` {} somebody who was not recorded, and is held back at its sender: record that program, too",
                identity.text, identity.sent ? "goes to" : "comes from");
  const std::string other = naming.roles[identity.partner];
  return MessageClass{identity.sent ? mine : other, identity.sent ? other : mine, identity.text};
}

bool is_named(const NamedRun& run, size_t event, uint32_t name) {
  return run.general[event] == name || std::ranges::find(run.names_of(event), name) != run.names_of(event).end();
}

// Whether in some of the runs in which the order comes true a message with this name stands before the first one of it.
bool comes_before(const Naming& naming, const Order& order, bool holds, uint32_t first, uint32_t name) {
  for (const NamedRun& run : naming.runs) {
    if (!events_of(run, order).empty() != holds) continue;
    bool before = false;
    for (size_t event = 0; event < run.size(); event++) {
      if (is_named(run, event, first)) {
        if (before) return true;
        break;
      }
      before |= is_named(run, event, name);
    }
  }
  return false;
}

// How many messages with the name y come before the first x of the run.
uint32_t count_before(const NamedRun& run, uint32_t x, uint32_t y) {
  uint32_t count = 0;
  for (size_t event = 0; event < run.size() && !is_named(run, event, x); event++) count += is_named(run, event, y);
  return count;
}

}  // namespace

Result<std::optional<ForcedOrder>> forced_order(const Naming& naming, const Order& order, bool holds, unsigned as_in) {
  if (order.has_one()) return std::nullopt;
  ForcedOrder out;
  out.one_matter = order.form == Order::Form::matter || order.form == Order::Form::intrusion;
  std::vector<MessageClass> all;
  for (size_t i = 0; i < order.count(); i++) {
    FRIDAY_TRY(message, class_of(naming, order.names[i]));
    all.push_back(std::move(message));
  }
  std::vector<size_t> steps = holds ? std::vector<size_t>{0, 1} : std::vector<size_t>{1, 0};
  if (order.has_three()) steps = holds ? std::vector<size_t>{0, 1, 2} : std::vector<size_t>{0, 2};
  if (order.has_three() && !holds) out.kept_out = {all[1]};
  for (size_t step : steps) out.steps.push_back(all[step]);
  const auto run = std::ranges::find(naming.runs, as_in, &NamedRun::number);
  if (order.form == Order::Form::pair && run != naming.runs.end() && !events_of(*run, order).empty() == holds) {
    // If x comes before y, it is the first x, behind which the next y comes. If none does, x comes behind the last y.
    const uint32_t count = count_before(*run, order.names[0], order.names[1]);
    out.before = holds ? std::vector<uint32_t>{0, count} : std::vector<uint32_t>{std::max(count, 1u) - 1, 0};
    return out;
  }
  for (size_t step : steps) {
    const bool some = step != steps[0] && comes_before(naming, order, holds, order.names[steps[0]], order.names[step]);
    out.before.push_back(some ? ForcedOrder::kAll : 0);
  }
  return out;
}

bool StepForcing::is_of_the_matter(const Message& message) const {
  return std::ranges::find_first_of(message.words, first_words_) != message.words.end();
}

bool StepForcing::fits(const Message& message, size_t step) const {
  return message.is_step[step] && (!order_.one_matter || step == 0 || is_of_the_matter(message));
}

// Whether a step of the order, or the end of it, must come before the message. Of which matter the order will be is
// known only when the first step has come.
bool StepForcing::must_wait(const Message& message) const {
  const size_t next = done_ + (watched_ ? 1 : 0);  // the first step of which nothing was sent
  if (next > 0 && message.is_kept_out && (!order_.one_matter || is_of_the_matter(message))) return true;
  for (size_t step = std::max<size_t>(next, 1); step < order_.steps.size(); step++)
    if (next == 0 ? message.is_step[step] && passed_[step] >= order_.before[step] : fits(message, step)) return true;
  return false;
}

// Whether it is one of those like a step of the order that come before the first step.
bool StepForcing::comes_before(const Message& message) const {
  if (done_ > 0 || watched_ || std::ranges::find(message.is_step, true) == message.is_step.end()) return false;
  for (size_t step = 0; step < order_.steps.size(); step++)
    if (message.is_step[step] && passed_[step] >= order_.before[step]) return false;
  return true;
}

void StepForcing::watch(const Message& message) {
  if (done_ == 0) first_words_ = message.words;
  watched_ = message.ticket;
}

Forcing::Verdict StepForcing::sent(Ticket ticket, const std::string& from, const std::string& to,
                                   std::string_view bytes, uint64_t length) {
  if (is_complete() || given_up_) return Verdict::pass;
  LookedAt looked = look_at(bytes, length);
  Message message{ticket, std::vector<bool>(order_.steps.size()), false, std::move(looked.words)};
  for (size_t step = 0; step < order_.steps.size(); step++)
    message.is_step[step] = is_of(looked, from, to, order_.steps[step]);
  for (const MessageClass& each : order_.kept_out) message.is_kept_out |= is_of(looked, from, to, each);
  if (comes_before(message)) {
    for (size_t step = 0; step < order_.steps.size(); step++) passed_[step] += message.is_step[step];
    return Verdict::pass;
  }
  if (!watched_ && fits(message, done_)) {
    watch(message);
    return Verdict::watch;
  }
  if (!must_wait(message)) return Verdict::pass;
  held_.push_back(std::move(message));
  return Verdict::hold;
}

std::vector<Forcing::Released> StepForcing::release() {
  std::vector<Released> out;
  if (!watched_ && !is_complete() && !given_up_) {
    const auto next = std::ranges::find_if(held_, [&](const Message& each) { return fits(each, done_); });
    if (next != held_.end()) {
      out.push_back({next->ticket, true});
      watch(*next);
      held_.erase(next);
    }
  }
  // One that no step waits for any more would keep its sender from what it does next.
  const bool over = is_complete() || given_up_;
  std::erase_if(held_, [&](const Message& each) {
    if (!over && must_wait(each)) return false;
    out.push_back({each.ticket, false});
    return true;
  });
  return out;
}

void StepForcing::handled(Ticket ticket) {
  if (watched_ != ticket) return;
  watched_.reset();
  done_++;
}

void StepForcing::lost(Ticket ticket) {
  if (watched_ == ticket) watched_.reset();
  std::erase_if(held_, [&](const Message& each) { return each.ticket == ticket; });
}

std::string StepForcing::waits_for() const {
  if (given_up_) return "nothing: the order was given up";
  if (is_complete()) return "nothing: the order has come true";
  const MessageClass& next = order_.steps[done_];
  return fmt::format("{} to be {}", describe(next), watched_ ? "handled" : "sent");
}

}  // namespace friday
