// Names of system calls, signals and error numbers for people to read; from core/shim/calls.def, so record, replay and
// display agree. Pure functions over constant tables; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace friday {

// "openat"; empty for a number that calls.def does not list.
std::string_view call_name(unsigned number);

// One line of calls.def for people: how the call is recorded and replayed, and why it is refused.
struct CallRule {
  unsigned number;
  std::string_view name;
  unsigned arity;
  std::string_view rule;  // "emulated", "native", "special", "refused", "unhandled"
  std::string_view
      detail;  // what the kernel reads and writes, as calls.def says; of refused ones, what the program sees and why
};
std::span<const CallRule> call_rules();

// "openat", or "call 437" for a number without a name.
std::string call_text(unsigned number);

// "recording ended at call ioctl (16), SIOCETHTOOL, command ETHTOOL_PERQUEUE, which is not handled; the program went
// on". `about` is what the shim said of it: the call's name, codes among its arguments, or words.
std::string ended_at_call_text(unsigned number, std::string_view about);

// "SIGTERM", or "signal 99".
std::string signal_text(int number);

// "ENOENT", or "errno 999".
std::string errno_text(int number);

// What calls.def says of the call besides its operands: shim::CallFlag bits (core/shim/call_flags.h), 0 for a number
// that it does not list.
uint32_t call_flags(unsigned number);

// Whether the call's effect on the world outside its process takes place at its entry (send, write, close, kill,
// rename) rather than becoming visible to the caller at its return (receive, wait, read, stat).
bool has_outgoing_effect(unsigned call);

}  // namespace friday
