// Strong types for what would otherwise all be integers. They compare and print; arithmetic is by name only.
#pragma once

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

// Position of an event in its node's trace, counted from 0. Event n is "done" when its outputs are in memory.
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

// A thread of a node: its virtual thread number (order of creation in the recorded process, from 0).
struct ThreadId {
  uint32_t value = 0;
  auto operator<=>(const ThreadId&) const = default;
};

// A point in the group's total order: hybrid logical clock (physical nanoseconds l, counter c) made total by node and
// sequence, as DESIGN decision 9 has it. l is on the group's reference time line, in ns.
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
