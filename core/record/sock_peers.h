// The other end of a connection within this network namespace, as the kernel knows it (sock_diag(7)).
#pragma once

#include <cstdint>
#include <optional>

namespace friday {

// The inode of the socket at the other end of the stream socket `fd`; for a pipe the pipe's own. None if there is no
// such end here, or if nobody has accepted the connection yet.
std::optional<uint64_t> peer_inode(int fd);

}  // namespace friday
