// FRIDAY_CHECK(condition) << "context": a bug of Friday's own. On in release builds. Prints the condition, the place
// and the context to standard error, then aborts, so that a wrong state can never be reported as a result.
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
