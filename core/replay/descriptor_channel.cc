#include "core/replay/descriptor_channel.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>

#include "core/trace/calls.h"

namespace friday {
namespace {

// The header of a control message with one descriptor.
constexpr cmsghdr kRights{CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
constexpr size_t kNumberAt = CMSG_LEN(0), kRightsSize = CMSG_SPACE(sizeof(int));

// The arguments of the process's recvmsg(2), laid out for its memory at address `place`.
struct Message {
  msghdr header{};
  iovec data{};
  alignas(cmsghdr) char rights[kRightsSize]{};
  char byte = 0;

  explicit Message(uint64_t place) {
    auto at = [place](size_t offset) { return reinterpret_cast<void*>(place + offset); };
    data = {at(offsetof(Message, byte)), 1};
    header.msg_iov = static_cast<iovec*>(at(offsetof(Message, data)));
    header.msg_iovlen = 1;
    header.msg_control = at(offsetof(Message, rights));
    header.msg_controllen = sizeof rights;
  }
};

}  // namespace

Result<DescriptorChannel> DescriptorChannel::make() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "cannot create the socket that passes descriptors to nodes");
  DescriptorChannel channel;
  channel.outer_.reset(ends[0]);
  channel.inner_.reset(ends[1]);
  return channel;
}

Result<int> DescriptorChannel::hand_over(TracedProcess& process, pid_t tid, Receiver receiver, int fd) const {
  static_assert(sizeof(Message) <= sizeof(shim::Control::message));
  const uint64_t place = receiver.memory;
  Message message(place);
  if (!process.write(place, &message, sizeof message)) return fail(ErrorCode::component_died, "thread {} is gone", tid);

  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char rights[kRightsSize]{};
  memcpy(rights, &kRights, sizeof kRights);
  memcpy(rights + kNumberAt, &fd, sizeof fd);
  msghdr sent{nullptr, 0, &data, 1, rights, sizeof rights, 0};
  if (sendmsg(outer_.get(), &sent, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
    return fail_errno(errno, "cannot send a descriptor to a node");

  const uint64_t arguments[] = {TracedProcess::kChannelFd, place, MSG_DONTWAIT | MSG_CMSG_CLOEXEC};
  auto received = process.inject(tid, receiver.instruction, SYS_recvmsg, arguments);
  // Discard a message that the process did not receive, so that the next receiver does not get it.
  while (recv(inner_.get(), &byte, 1, MSG_DONTWAIT) >= 0) {}
  if (!received) return std::unexpected(received.error());
  if (*received != 1 || !process.read(place, &message, sizeof message) ||
      memcmp(message.rights, &kRights, sizeof kRights) != 0)
    return fail(ErrorCode::io, "a node did not receive the descriptor that it asked for: its recvmsg(2) returned {}",
                *received < 0 ? errno_text(static_cast<int>(-*received)) : std::to_string(*received));
  int number;
  memcpy(&number, message.rights + kNumberAt, sizeof number);
  return number;
}

}  // namespace friday
