#include "core/base/check.h"

#include <cstdio>
#include <cstdlib>

namespace friday {

CheckFailure::CheckFailure(const char* condition, const char* file, int line) {
  stream_ << "friday: internal error at " << file << ":" << line << ": " << condition << " does not hold. ";
}

CheckFailure::~CheckFailure() {
  stream_ << "\nThis is a bug of Friday's own; please report it with the recording.\n";
  std::fputs(stream_.str().c_str(), stderr);
  std::abort();
}

}  // namespace friday
