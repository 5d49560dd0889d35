#include "core/debug/client.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/base/fd.h"

namespace friday {

void Client::tell(const std::string& what) {
  if (!endpoint_.has_client() || endpoint_.client_waits()) return;  // one that waits will be told where the node stops
  const UniqueFd pipe(open(moves.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));  // fails if nobody reads it
  const std::string line = what + "\n";
  if (pipe && write(pipe.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size())) return;
  endpoint_.refuse_client(
      "The group has been moved by others, so what this gdb knows of the node is old. Continue, or connect again. A "
      "gdb "
      "started as `info endpoints` says follows by itself.");
}

}  // namespace friday
