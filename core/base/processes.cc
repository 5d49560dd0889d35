#include "core/base/processes.h"

#include <cstdio>

#include "core/base/files.h"

namespace friday {

uint64_t process_start(pid_t pid) {
  auto stat = read_file(fmt::format("/proc/{}/stat", pid));
  if (!stat) return 0;
  // The second field is the program's name in parentheses. It may contain any character, so look for the last
  // parenthesis.
  const size_t name_end = stat->rfind(')');
  char state = 0;
  unsigned long long start = 0;
  if (name_end == std::string::npos ||
      sscanf(stat->c_str() + name_end + 1,
             " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", &state, &start) != 2)
    return 0;
  return state == 'Z' || state == 'X' ? 0 : start;
}

}  // namespace friday
