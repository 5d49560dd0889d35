// Events as a line of text for people: the call by name with its arguments, its result, and a glance at what it moved.
// Pure functions of the record; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/trace/record.h"

namespace friday {

// The first bytes of a payload as text, what is not printable as \xNN; "..." behind what was left out.
std::string preview(std::span<const std::byte> bytes, size_t most = 48);

// "read(3, 0x7ffd1000, 4096)".
std::string call_with_arguments(unsigned call, std::span<const uint64_t> arguments);

// What happened, without its result: a call with its arguments, "SIGTERM", "rdtsc"; empty for what has no more than its
// type.
std::string what_text(const EventView& event);

// " = 13", " = -1 ENOENT", " ..." for the entry of a call that let the token go; empty for what has no result.
std::string result_text(const EventView& event);

// "  1763728612.000123456" for a clock that was read; empty for all else.
std::string clock_text(const EventView& event);

// "thread 0 call openat(0xffffff9c, 0x7ffd1000, 0, 0) = 3 "/etc/hosts"": path or first bytes, if there are any.
std::string event_line(const EventView& event);

}  // namespace friday
