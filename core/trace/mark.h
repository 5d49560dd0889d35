// A position of a replayed group as a value that means the same in every session, on every machine: where one node
// stands. The others stand where the order of the recording has them then.
//
//   3#1234              node 3 has completed 1,234 events, and waits before the next one or has ended
//
//   3#1234:0x401136*5   then it comes by the instruction at this address for the fifth time; it has not executed it yet
//
//   3#1234:0x7f5010+8*2 then the 8 bytes at this address have changed for the second time
//
//   start               nothing has run yet
//
// The code between two events is deterministic, so the forms with an address name one moment exactly.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

// More bytes are not watched on the way to a mark, which may come from anywhere.
inline constexpr uint64_t kMostMarkBytes = 1 << 20;

// One of the times that a node comes by an instruction, or changes some bytes, between two of its events.
struct Passage {
  Addr at{};
  uint64_t nth = 1;   // from 1
  uint64_t size = 0;  // of the bytes, at most kMostMarkBytes; 0 for an instruction
  bool operator==(const Passage&) const = default;
};

struct Mark {
  NodeId node{};
  EventIndex event{};  // the number of events that the node has completed, so the index of its next one
  std::optional<Passage> passage{};
  bool operator==(const Mark&) const = default;
};

// Where the group stands; none is the start.
using Position = std::optional<Mark>;

std::string text_of(const Position& position);
// Reads what text_of() has written. Fails with usage.
Result<Position> parse_position(std::string_view text);

}  // namespace friday
