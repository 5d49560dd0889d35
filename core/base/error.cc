#include "core/base/error.h"

#include <cstring>

#include "core/base/printable.h"

namespace friday {

std::unexpected<Error> fail_errno(int saved_errno, std::string message) {
  message += ": ";
  message += strerror(saved_errno);
  return std::unexpected(Error{ErrorCode::io, std::move(message)});
}

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage: return "usage";
    case ErrorCode::bad_input: return "bad input";
    case ErrorCode::io: return "input/output";
    case ErrorCode::not_found: return "not found";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::bad_address: return "bad address";
    case ErrorCode::node_ended: return "node ended";
    case ErrorCode::node_not_started: return "node not started";
    case ErrorCode::component_died: return "component died";
    case ErrorCode::diverged: return "diverged";
    case ErrorCode::interrupted: return "interrupted";
    case ErrorCode::call_failed: return "call_failed";
  }
  return "unknown";
}

std::string describe(const Error& error) {
  std::string text;
  if (error.node) text += fmt::format("node {}", *error.node);
  if (error.event) text += fmt::format("{}event {}", text.empty() ? "" : ", ", *error.event);
  if (!text.empty()) text += ": ";
  return text + printable_lines(error.message);
}

}  // namespace friday
