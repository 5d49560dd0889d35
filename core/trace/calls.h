// Names of system calls, signals and error numbers for people to read. They come from core/shim/calls.def, so record,
// replay and display use the same names. All functions are pure and may be called from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace friday {

// For example "openat"; empty if calls.def does not list the number.
std::string_view call_name(unsigned number);

// One line of calls.def in readable form: how the call is recorded and replayed, or why it is refused.
struct CallRule {
  unsigned number;
  std::string_view name;
  unsigned arity;
  std::string_view rule;  // one of "emulated", "native", "special", "refused", "unhandled"
  // For a refused call, what the program sees and why; for all others, the operands that the kernel reads and writes.
  std::string_view detail;
};
std::span<const CallRule> call_rules();

// For example "openat", or "call 437" for a number without a name.
std::string call_text(unsigned number);

// A sentence for people, such as "recording ended at call ioctl (16), SIOCETHTOOL, command ETHTOOL_PERQUEUE, which is
// not handled; the program went on". `about` is the text that the shim stored for this end: the call's name, the codes
// among its arguments, or a reason in words.
std::string ended_at_call_text(unsigned number, std::string_view about);

// For example "SIGTERM", or "signal 99" for a number without a name.
std::string signal_text(int number);

// For example "ENOENT", or "errno 999" for a number without a name.
std::string errno_text(int number);

// The shim::CallFlag bits (core/shim/call_flags.h) that calls.def gives the call; 0 if calls.def does not list the
// number.
uint32_t call_flags(unsigned number);

// Memory that a call reads, as calls.def has it behind INS, for example BUF(1, 2): as many bytes as argument 2 says, at
// the address in argument 1. The head of calls.def says what each shape means.
struct CallInput {
  std::string_view shape;  // "BUF", "STR", ...
  std::array<unsigned, 3> operands{};
};
const std::vector<CallInput>& call_inputs(unsigned number);  // empty if calls.def does not list it

// Where a call takes the bytes from that it sends through a channel: the first of its inputs in calls.def.
struct SentFrom {
  enum class Shape {
    none,      // it sends nothing from memory
    buffer,    // `pointer` is the argument with its address, `count` the one with its size
    vector,    // `pointer` is an iovec of `count` entries
    message,   // `pointer` is a struct msghdr
    messages,  // `pointer` is an array of struct mmsghdr
  };
  Shape shape = Shape::none;
  unsigned pointer = 0, count = 0;  // numbers of arguments, from 0
};
SentFrom sent_from(unsigned number);

// True for a call that acts on the world outside its process when it is entered (send, write, close, kill, rename).
// False for a call that learns something from that world when it returns (receive, wait, read, stat).
bool has_outgoing_effect(unsigned call);

}  // namespace friday
