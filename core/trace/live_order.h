// An order of messages that is forced onto programs on standby (`friday force --live`). The command writes it into a
// file of the recording; the recorder of the programs follows it (core/record/shaper.h), and says in another file how
// far it is. If the command removes the order, everything that is held back is sent.
#pragma once

#include <string>

#include "core/base/error.h"

namespace friday {

struct LiveOrder {
  std::string id;     // differs from that of each order before
  std::string order;  // in the form that `friday force --order` takes
};

struct LiveOrderState {
  enum class Stage {
    prepared,  // programs that begin to be recorded now take part; nothing is held back yet
    forcing,
    over,
  };
  std::string id;
  Stage stage = Stage::prepared;
  bool came_true = false;  // when it is over
  std::string why{};       // if it has not come true: the reason
  bool operator==(const LiveOrderState&) const = default;
};

// They fail with not_found if there is none, and with bad_input if it is damaged.
Result<LiveOrder> read_live_order(const std::string& recording);
Result<LiveOrderState> read_live_order_state(const std::string& recording);
Result<void> write_live_order(const std::string& recording, const LiveOrder& order);
Result<void> write_live_order_state(const std::string& recording, const LiveOrderState& state);
void remove_live_order(const std::string& recording);
void remove_live_order_state(const std::string& recording);

}  // namespace friday
