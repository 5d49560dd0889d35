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
  usage,             // the request makes no sense as put
  bad_input,         // a recording, group file or script that cannot be used
  io,                // the operating system refused; the message holds strerror
  not_found,         // a node, symbol, file that does not exist
  unsupported,       // understood, but not possible here
  bad_address,       // memory of a node that cannot be read or written
  node_ended,        // the node asked has ended
  node_not_started,  // the node asked has not started yet
  component_died,    // gdb, a node's process or the collector ended by itself
  diverged,          // a divergence, where only an Error can be returned
  interrupted,       // Ctrl-C
  call_failed,       // a called function of the program did not come back
};

struct Error {
  ErrorCode code = ErrorCode::usage;
  std::string message;
  std::optional<uint32_t> node{};     // id of the node concerned
  std::optional<uint64_t> event{};    // index of the event concerned
  std::optional<uint64_t> address{};  // bad_address: where
  std::string how{};                  // call_failed: "crashed", "blocked" or "looped"
};

template <typename T>
using Result = std::expected<T, Error>;

// Builds the error arm of a Result: `return fail(ErrorCode::io, "cannot open {}: {}", path, strerror(errno));`
template <typename... Args>
std::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// The same with ": <strerror(saved_errno)>" appended; pass errno.
std::unexpected<Error> fail_errno(int saved_errno, std::string message);

const char* name_of(ErrorCode code);

// "node 4, event 1234: message" with the parts that are known, fit for a terminal (printable.h).
std::string describe(const Error& error);

// Evaluates a Result; returns its error from the enclosing function, else yields its value.
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
