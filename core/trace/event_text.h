// Events as one line of text for people: the call with its arguments, its result, and the first bytes that it moved.
// All functions depend only on the event and may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/trace/record.h"

namespace friday {

// The first `most` bytes of a payload as text. Unprintable bytes appear as \xNN, and "..." follows if bytes were left
// out.
std::string preview(std::span<const std::byte> bytes, size_t most = 48);

// For example "read(3, 0x7ffd1000, 4096)".
std::string call_with_arguments(unsigned call, std::span<const uint64_t> arguments);

// What happened, without the result: "read(3, 0x7ffd1000, 4096)", "SIGTERM", "rdtsc". Empty for events that are
// described fully by their type.
std::string what_text(const EventView& event);

// For example " = 13" or " = -1 ENOENT"; " ..." for a release event, whose result comes with the matching return event.
// Empty for events without a result.
std::string result_text(const EventView& event);

// For example "  1763728612.000123456" for an event that read a clock; empty for others.
std::string clock_text(const EventView& event);

// The socket address that the call has written to this part, for example "127.0.0.1:80"; empty if it has written none
// there.
std::string address_text(const EventView& event, PartView part);

// What happened, its result, and a path or the first bytes that the call wrote to memory, if the event has any:
// 'openat(0xffffff9c, 0x7ffd1000, 0, 0) = 3  "/etc/hosts"'.
std::string event_text(const EventView& event);

// A whole line: 'thread 0 call openat(0xffffff9c, 0x7ffd1000, 0, 0) = 3  "/etc/hosts"'.
std::string event_line(const EventView& event);

}  // namespace friday
