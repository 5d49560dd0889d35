// Forces an ExactOrder: each of its messages waits until those that it needs were received, or handled.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/study/exact_order.h"
#include "core/study/forcing.h"

namespace friday {

class ExactForcing : public Forcing {
 public:
  // `kept`: what the texts of the order's messages are made with.
  ExactForcing(ExactOrder order, KeptValues kept);

  Verdict sent(Ticket ticket, const std::string& from, const std::string& to, std::string_view bytes,
               uint64_t length) override;
  void received(Ticket ticket) override { reach(ticket, Stage::received); }
  void handled(Ticket ticket) override { reach(ticket, Stage::handled); }
  // Nothing waits for it any more. If it was not received, it is left out of the order.
  void lost(Ticket ticket) override;
  void give_up() override { given_up_ = true; }
  // What was received, and is not handled, as the recorded run seemed to have handled it, counts as handled. If there
  // is no such message, those are left out of the order that held messages wait for; and if nothing
  // of a class was ever sent, all of it.
  bool do_without(bool may_leave_out) override;
  std::vector<Released> release() override;

  bool is_complete() const override { return to_come_ == 0; }
  bool came_true() const override { return to_come_ == 0 && left_out_.empty() && !given_up_; }
  bool is_given_up() const override { return given_up_; }
  std::string waits_for() const override;
  // Messages of the order that were left out of it: their indices.
  const std::set<uint32_t>& left_out() const { return left_out_; }
  // How many messages counted as handled though they were only received.
  size_t only_received() const { return only_received_; }

 private:
  enum class Stage : uint8_t { unsent, held, sent, received, handled };
  struct State {
    Stage stage = Stage::unsent;
    Ticket ticket = 0;
  };
  struct Receivers {
    std::map<std::string, std::vector<uint32_t>> to;  // messages of one class, by their numbers
  };

  bool is_met(const ExactMessage::Need& need) const;
  bool may_go(uint32_t message) const;
  template <typename Use>
  void each_missing(Use&& use);
  void reach(Ticket ticket, Stage stage);
  void leave_out(uint32_t message);

  ExactOrder order_;
  KeptValues kept_;
  std::vector<State> state_;
  std::map<std::pair<std::string, std::string>, Receivers> classes_;              // by sender and text
  std::map<std::tuple<std::string, std::string, std::string>, uint32_t> counts_;  // of what was sent: from, to, text
  std::unordered_map<Ticket, uint32_t> by_ticket_;
  std::set<uint32_t> held_, left_out_;
  size_t only_received_ = 0;
  size_t to_come_ = 0;  // messages that were not sent on yet
  bool given_up_ = false;
};

}  // namespace friday
