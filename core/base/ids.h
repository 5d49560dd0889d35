// Strong types for numbers that would otherwise all be integers. They can be compared and printed; arithmetic needs an
// explicit access to the value.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>

#include <fmt/format.h>

namespace friday {

// One recorded process. Ids are dense, in start order, and never reused within a recording.
struct NodeId {
  uint32_t value = 0;
  auto operator<=>(const NodeId&) const = default;
};

// Names a node in all recordings that it may come to be in; never reused. Zero: none.
using Uuid = std::array<uint8_t, 16>;

// The number of an event in its node's trace, from 0. An event is done when its outputs are in the program's memory.
struct EventIndex {
  uint64_t value = 0;
  auto operator<=>(const EventIndex&) const = default;
  EventIndex next() const { return {value + 1}; }
};

// An address in a node's address space.
struct Addr {
  uint64_t value = 0;
  auto operator<=>(const Addr&) const = default;
  Addr plus(int64_t bytes) const { return {value + static_cast<uint64_t>(bytes)}; }
};

// A thread of a node, by its order of creation in the recorded process, from 0.
struct ThreadId {
  uint32_t value = 0;
  auto operator<=>(const ThreadId&) const = default;
};

// A time in the total order of the group (core/trace/logical_time.h): a hybrid logical clock, with a physical part `l`
// in ns of the group's reference time line and a counter `c`. Node and event number break ties.
struct LogicalTime {
  int64_t l = 0;
  uint32_t c = 0;
  NodeId node{};
  uint64_t sequence = 0;
  auto operator<=>(const LogicalTime&) const = default;
};

}  // namespace friday

template <>
struct std::hash<friday::NodeId> {
  size_t operator()(friday::NodeId id) const noexcept { return id.value; }
};

template <>
struct fmt::formatter<friday::NodeId> : fmt::formatter<uint32_t> {
  auto format(friday::NodeId id, fmt::format_context& context) const {
    return fmt::formatter<uint32_t>::format(id.value, context);
  }
};
template <>
struct fmt::formatter<friday::Addr> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  auto format(friday::Addr address, fmt::format_context& context) const {
    return fmt::format_to(context.out(), "{:#x}", address.value);
  }
};
