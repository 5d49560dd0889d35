// The few requests to the kernel with which a network of namespaces is made: pairs of virtual Ethernet devices
// (veth(4)), their addresses, and sockets that read and write their frames. Each acts in the network namespace of the
// calling thread, and needs CAP_NET_ADMIN and CAP_NET_RAW there. Errors name the request that the kernel refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

// Makes the device `name` here, and its other end, `peer`, in the network namespace that the descriptor names. Both
// have the same hardware address.
Result<void> make_veth(const std::string& name, const std::string& peer, int peer_namespace);

// Switches a device on. It then neither asks for hardware addresses (ARP) nor answers, and never uses IPv6.
Result<void> bring_up(const std::string& name);
Result<void> bring_up_loopback();

// Gives a device an IPv4 address (in host byte order), and with it the route to its subnet.
Result<void> set_address(const std::string& name, uint32_t address, unsigned prefix);
// Sends multicast by this device, unless a program names another.
Result<void> route_multicast(const std::string& name);

// Has the kernel pass packets on as they would be on a wire: at most as long as the MTU, and with their checksums.
Result<void> switch_offloads_off(const std::string& name);

// All frames that arrive at one device, through a ring that the kernel fills, and a way to send frames by it.
class FrameSocket {
 public:
  // `frames`: how many can wait in the ring; what arrives when it is full is lost. At least 32.
  static Result<FrameSocket> open(const std::string& device, size_t frames);
  FrameSocket(FrameSocket&& other) noexcept;
  FrameSocket& operator=(FrameSocket&&) = delete;
  ~FrameSocket();

  int fd() const { return socket_.get(); }  // readable while a frame waits
  // Calls `take` for frames that wait, at most `most` of them. A frame's bytes are valid during the call.
  void receive(size_t most, const std::function<void(std::span<const std::byte>)>& take);
  // False if the kernel had no room for the frame, which is lost then.
  bool send(std::span<const std::byte> frame) const;
  // How many frames the ring had no room for since the last question.
  uint64_t take_overflows() const;

 private:
  FrameSocket() = default;
  UniqueFd socket_;
  std::byte* ring_ = nullptr;
  size_t frames_ = 0, next_ = 0;
};

}  // namespace friday
