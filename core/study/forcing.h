// Forcing an order of messages onto a running group: which message is to be handled after which, and what to do with
// each message that is about to be sent so that it comes true. Nothing here sends or waits: whoever does tells a
// Forcing what happens, and does what it says.
//
// Only the messages of the order are held back, and each at its sender, so that its receiver sees a slow network. A
// message counts as handled, not as received, when the thread that has received it sends on the same connection or
// waits for the next one: between the two, another message can still be taken up first (measured on PostgreSQL and on a
// server with threads: of pairs that were "received" in the order wanted, more than half were handled in the other
// one).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/study/message_class.h"
#include "core/study/naming.h"
#include "core/study/orders.h"

namespace friday {

struct ForcedOrder {
  // These are handled one after the other: the second only when the first was, and so on.
  std::vector<MessageClass> steps;
  // These are not let through between the first step and the end of the last one.
  std::vector<MessageClass> kept_out;
  // Whether all of them have a word in common with the first step, such as a key (Field::word).
  bool one_matter = false;
  // By step: how many messages like it come before the first step, and are let through then; kAll: all of them. Others
  // are held back until the first step was handled. The first step itself is the one behind so many like it.
  std::vector<uint32_t> before;
  static constexpr uint32_t kAll = ~uint32_t{0};
  // Which one of those like it a step is, from 1. None if it is the first one, or any.
  std::optional<uint32_t> number_of(size_t step) const {
    return before[step] && before[step] != kAll ? std::optional(before[step] + 1) : std::nullopt;
  }
};

// What makes the order of a finding hold in a run or, with `holds` false, fail to hold. None for what is no order:
// whether there is a certain message cannot be forced. How many messages like those of a pair come before it is counted
// in run number `as_in`, if the order comes true there; of other orders, whether some do is looked up in all runs in
// which it comes true. Fails with unsupported if a message of it comes from somebody, or goes to somebody, who was not
// recorded.
Result<std::optional<ForcedOrder>> forced_order(const Naming& naming, const Order& order, bool holds, unsigned as_in);

// An order that is under way in a run.
class Forcing {
 public:
  virtual ~Forcing() = default;
  using Ticket = uint64_t;
  // What is to be done with a message: send it; send it, and say when it was handled; keep it.
  enum class Verdict { pass, watch, hold };
  struct Released {
    Ticket ticket;
    bool watched;  // say when it was handled
    bool operator==(const Released&) const = default;
  };

  // A message is about to be sent. `from` and `to` are roles; `to` may be empty, if nobody knows who will receive it.
  // `bytes` are its first ones, `length` all. `ticket` names it from here on.
  virtual Verdict sent(Ticket ticket, const std::string& from, const std::string& to, std::string_view bytes,
                       uint64_t length) = 0;
  // A message that is watched was received as a whole, or was handled.
  virtual void received(Ticket ticket) = 0;
  virtual void handled(Ticket ticket) = 0;
  // A message that is watched or held will never be handled, since its connection is gone.
  virtual void lost(Ticket ticket) = 0;
  // The order is given up: whatever comes is let through.
  virtual void give_up() = 0;
  // Nothing has come for long: goes on without what is waited for, if `may_leave_out` also without messages of the
  // order that nobody has sent. False: that is not possible.
  virtual bool do_without(bool may_leave_out) = 0;
  // What was held and is to be sent now, in this order. To be asked after each of the calls above.
  virtual std::vector<Released> release() = 0;

  // Whether whatever comes now may pass, as the order is complete.
  virtual bool is_complete() const = 0;
  // Whether the order has come true, or will unless the run ends before.
  virtual bool came_true() const = 0;
  virtual bool is_given_up() const = 0;
  // What it waits for, in words.
  virtual std::string waits_for() const = 0;
};

class StepForcing : public Forcing {
 public:
  explicit StepForcing(ForcedOrder order) : order_(std::move(order)) {}

  Verdict sent(Ticket ticket, const std::string& from, const std::string& to, std::string_view bytes,
               uint64_t length) override;
  void received(Ticket) override {}
  void handled(Ticket ticket) override;
  // Of a watched message the order goes on with the next one like it.
  void lost(Ticket ticket) override;
  void give_up() override { given_up_ = true; }
  bool do_without(bool) override { return false; }
  std::vector<Released> release() override;

  // The last step was sent behind the others. Where something is kept out, it must have been handled, too.
  bool is_complete() const override { return done_ == order_.steps.size() || (came_true() && order_.kept_out.empty()); }
  bool came_true() const override {
    return done_ == order_.steps.size() || (watched_ && done_ + 1 == order_.steps.size());
  }
  bool is_given_up() const override { return given_up_; }
  std::string waits_for() const override;

 private:
  struct Message {
    Ticket ticket;
    std::vector<bool> is_step;  // which of the steps it can be
    bool is_kept_out = false;
    std::vector<uint64_t> words;
  };

  bool is_of_the_matter(const Message& message) const;
  bool fits(const Message& message, size_t step) const;
  bool comes_before(const Message& message) const;
  bool must_wait(const Message& message) const;
  void watch(const Message& message);

  ForcedOrder order_;
  std::vector<uint32_t> passed_ = std::vector<uint32_t>(order_.steps.size());  // by step: like it, before the first one
  size_t done_ = 0;                                                            // steps that were handled
  std::optional<Ticket> watched_;      // of the step under way, which is the one after those done
  std::vector<uint64_t> first_words_;  // of the first step's message
  std::vector<Message> held_;          // in the order in which they were sent
  bool given_up_ = false;
};

}  // namespace friday
