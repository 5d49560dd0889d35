// The order of messages of one run, message by message: what each of them must wait for so that another run receives
// them in the same order. All messages of the run, or only some: fewer messages are a weaker order, so that the fewest
// that still make a run fail can be looked for (minimise.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/study/forcing.h"
#include "core/study/talk.h"

namespace friday {

struct ExactMessage {
  MessageClass is;      // its text is that of class_text()
  uint32_t number = 1;  // of those of its class, the one that is sent so many-th
  struct Need {
    uint32_t message;  // index of an earlier one, to the same role
    bool handled;      // it must have been handled; false: received
    bool operator==(const Need&) const = default;
  };
  // What must have happened before it is sent on.
  std::vector<Need> needs{};
};
using ExactOrder = std::vector<ExactMessage>;  // in the order in which the run received them

class RunOrder {
 public:
  // Of the messages that one recorded program sent to another. `naming`: of runs of the group, for the values that can
  // be expected to come again. Fails with unsupported if there are too many messages.
  static Result<RunOrder> of(const Talk& talk, const Naming& naming);

  size_t size() const { return messages_.size(); }
  // Those messages that come in all of these talks, too, in any order. What makes runs fail is among those that are
  // common to the failing ones, unless these fail in several ways, or at different places.
  std::vector<uint32_t> common_to(std::span<const Talk* const> talks) const;
  const KeptValues& kept_values() const { return kept_values_; }
  ExactOrder of_all() const;
  // The order of some of the messages, whose indices rise.
  ExactOrder of_these(std::span<const uint32_t> kept) const;

 private:
  struct Message {
    MessageClass is;
    uint32_t number;
    uint32_t node;          // which received it
    uint32_t turn;          // it is the turn-th event of that node
    size_t sent, received;  // events of the talk
    size_t answered;        // the first event by which its receiver has sent to its sender; `received`: it never has
    // The first event by which its receiver has got an answer to a question that it has asked because of the message;
    // `received`: there is none.
    size_t helped;
    uint32_t sent_with;  // index in clocks_
  };
  bool caused(const Message& earlier, const Message& later) const;
  bool was_handled(const Message& earlier, const Message& later) const;

  KeptValues kept_values_;
  std::vector<Message> messages_;
  // How many events of each node the sender of a message knew of when it sent it.
  std::vector<uint32_t> clocks_;
  size_t nodes_ = 0;
};

}  // namespace friday
