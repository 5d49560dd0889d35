// FRIDAY_CHECK(condition) << "context" detects bugs of Friday itself; it is active in release builds. If the condition
// is false it prints the condition, the source location and the context to standard error and aborts, so that a wrong
// state is never reported as a result.
#pragma once

#include <sstream>

namespace friday {

class CheckFailure {
 public:
  CheckFailure(const char* condition, const char* file, int line);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return stream_; }

 private:
  std::ostringstream stream_;
};

struct CheckVoidify {
  void operator&(std::ostream&) const {}
};

#define FRIDAY_CHECK(condition) \
  (condition) ? (void)0 : ::friday::CheckVoidify() & ::friday::CheckFailure(#condition, __FILE__, __LINE__).stream()

}  // namespace friday
