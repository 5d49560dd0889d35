// require(condition, what) detects bugs of the solver itself. If the condition is false it says so on standard error
// and ends the program, so that a wrong state is never reported as a result; the core then says that friday-infer has
// ended.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace friday::infer {

inline void require(bool condition, const char* what) {
  if (condition) [[likely]]
    return;
  (void)std::fprintf(stderr, "friday-infer: a bug: %s\n", what);
  std::abort();
}

}  // namespace friday::infer
