// Expected failures: I/O, a bad trace, gdb's ^error, a peer that is gone. Functions that can fail this way return
// Result<T>; they never throw and never print. Divergence of a replay is not an Error (see core/replay/divergence.h),
// and a bug of Friday's own is FRIDAY_CHECK (check.h).
//
// A message says what was asked, what was found, and what to do, in this order, in one or a few sentences.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>

#include <fmt/format.h>

namespace friday {

enum class ErrorCode {
  usage,             // the request itself is invalid
  bad_input,         // a recording, group file or script is invalid
  io,                // the operating system reported an error; the message contains strerror
  not_found,         // a node, symbol or file does not exist
  unsupported,       // valid, but not possible here
  bad_address,       // memory of a node that cannot be read or written
  node_ended,        // the node has ended
  node_not_started,  // the node has not started yet
  component_died,    // gdb, a node's process or the collector died
  diverged,          // a divergence, reported by a function that can return only an Error
  interrupted,       // Ctrl-C
  call_failed,       // a function of the program that was called did not return
};

struct Error {
  ErrorCode code = ErrorCode::usage;
  std::string message;
  std::optional<uint32_t> node{};     // id of the node concerned
  std::optional<uint64_t> event{};    // event of the node concerned
  std::optional<uint64_t> address{};  // for bad_address: the address
  std::string how{};                  // for call_failed: "crashed", "blocked" or "looped"
};

template <typename T>
using Result = std::expected<T, Error>;

// Creates an error Result: `return fail(ErrorCode::io, "cannot open {}: {}", path, strerror(errno));`
template <typename... Args>
std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// The same, with ": " and strerror(saved_errno) appended; pass errno.
std::unexpected<Error> fail_errno(int saved_errno, std::string message);

const char* name_of(ErrorCode code);

// "node 4, event 1234: message", with those parts that are known; safe to print on a terminal (printable.h).
std::string describe(const Error& error);

// Evaluates a Result. Returns an error from the enclosing function; otherwise defines `var` as the value.
#define FRIDAY_TRY(var, expression)                                           \
  auto var##_result = (expression);                                           \
  if (!var##_result) return std::unexpected(std::move(var##_result).error()); \
  auto& var = *var##_result
#define FRIDAY_TRY_VOID(expression)                                                   \
  do {                                                                                \
    auto try_void_result = (expression);                                              \
    if (!try_void_result) return std::unexpected(std::move(try_void_result).error()); \
  } while (0)

}  // namespace friday
