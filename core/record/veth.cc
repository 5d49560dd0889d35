#include "core/record/veth.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <linux/veth.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <net/route.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

namespace friday {
namespace {

// Without ARP the kernel writes its own hardware address into frames as that of the receiver, so all devices have this
// one (locally administered).
constexpr std::array<uint8_t, 6> kHardwareAddress = {0x02, 0, 0, 0, 0, 1};

constexpr size_t kFrameSize = 2048;  // of the ring; holds a frame of the default MTU, 1500, and what the kernel adds

// A message of rtnetlink(7) that grows: headers, attributes, and attributes that hold others.
class NetlinkMessage {
 public:
  NetlinkMessage(uint16_t type, uint16_t flags) {
    const nlmsghdr header{0, type, static_cast<uint16_t>(flags | NLM_F_REQUEST | NLM_F_ACK), 1, 0};
    add(&header, sizeof header);
  }
  void add(const void* data, size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }
  void add_attribute(uint16_t type, const void* data, size_t size) {
    const rtattr header{static_cast<uint16_t>(RTA_LENGTH(size)), type};
    add(&header, sizeof header);
    add(data, size);
  }
  void add_text(uint16_t type, const std::string& text) { add_attribute(type, text.c_str(), text.size() + 1); }
  // Attributes that are added until the matching end() are inside this one.
  size_t begin(uint16_t type) {
    add_attribute(type, nullptr, 0);
    return bytes_.size() - sizeof(rtattr);
  }
  void end(size_t begun) {
    reinterpret_cast<rtattr*>(bytes_.data() + begun)->rta_len = static_cast<uint16_t>(bytes_.size() - begun);
  }
  // Sends the message and waits for the kernel's answer, which is 0 or an errno.
  int ask() {
    reinterpret_cast<nlmsghdr*>(bytes_.data())->nlmsg_len = static_cast<uint32_t>(bytes_.size());
    const UniqueFd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!netlink || ::send(netlink.get(), bytes_.data(), bytes_.size(), 0) < 0) return errno;
    alignas(nlmsghdr) std::array<std::byte, 4096> answer;
    const ssize_t got = recv(netlink.get(), answer.data(), answer.size(), 0);
    if (got < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) return got < 0 ? errno : EPROTO;
    return -static_cast<const nlmsgerr*>(NLMSG_DATA(answer.data()))->error;
  }

 private:
  std::vector<std::byte> bytes_;
};

ifreq request_for(const std::string& name) {
  ifreq request{};
  strncpy(request.ifr_name, name.c_str(), IFNAMSIZ - 1);
  return request;
}

// One of the requests of netdevice(7).
Result<void> ask_device(unsigned long number, void* request, const std::string& what) {
  const UniqueFd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any || ioctl(any.get(), number, request) != 0) return fail_errno(errno, what);
  return {};
}

sockaddr internet(uint32_t address) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(address);
  sockaddr plain;
  memcpy(&plain, &in, sizeof plain);
  return plain;
}

Result<void> add_flags(const std::string& name, int flags) {
  ifreq request = request_for(name);
  FRIDAY_TRY_VOID(ask_device(SIOCGIFFLAGS, &request, "reading the flags of " + name));
  request.ifr_flags = static_cast<short>(request.ifr_flags | flags);
  return ask_device(SIOCSIFFLAGS, &request, "switching " + name + " on");
}

}  // namespace

Result<void> make_veth(const std::string& name, const std::string& peer, int peer_namespace) {
  const ifinfomsg any{};
  NetlinkMessage message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
  message.add(&any, sizeof any);
  message.add_text(IFLA_IFNAME, name);
  message.add_attribute(IFLA_ADDRESS, kHardwareAddress.data(), kHardwareAddress.size());
  const size_t info = message.begin(IFLA_LINKINFO);
  message.add_text(IFLA_INFO_KIND, "veth");
  const size_t data = message.begin(IFLA_INFO_DATA), other = message.begin(VETH_INFO_PEER);
  message.add(&any, sizeof any);
  message.add_text(IFLA_IFNAME, peer);
  message.add_attribute(IFLA_ADDRESS, kHardwareAddress.data(), kHardwareAddress.size());
  message.add_attribute(IFLA_NET_NS_FD, &peer_namespace, sizeof peer_namespace);
  for (size_t begun : {other, data, info}) message.end(begun);
  if (const int error = message.ask()) return fail_errno(error, "making a pair of veth devices");
  return {};
}

Result<void> bring_up(const std::string& name) {
  // Fails where the kernel has no IPv6, or /proc/sys is read-only; then the relay passes no IPv6 on all the same.
  const UniqueFd file(open(("/proc/sys/net/ipv6/conf/" + name + "/disable_ipv6").c_str(), O_WRONLY | O_CLOEXEC));
  if (file) (void)!write(file.get(), "1", 1);
  return add_flags(name, IFF_UP | IFF_NOARP);
}

Result<void> bring_up_loopback() { return add_flags("lo", IFF_UP); }

Result<void> set_address(const std::string& name, uint32_t address, unsigned prefix) {
  ifreq request = request_for(name);
  request.ifr_addr = internet(address);
  FRIDAY_TRY_VOID(ask_device(SIOCSIFADDR, &request, "giving " + name + " an address"));
  request.ifr_netmask = internet(~0u << (32 - prefix));
  return ask_device(SIOCSIFNETMASK, &request, "giving " + name + " a netmask");
}

Result<void> route_multicast(const std::string& name) {
  std::string device = name;
  rtentry route{};
  route.rt_dst = internet(0xe0000000);
  route.rt_genmask = internet(0xf0000000);
  route.rt_gateway = internet(0);
  route.rt_flags = RTF_UP;
  route.rt_dev = device.data();
  return ask_device(SIOCADDRT, &route, "routing multicast to " + name);
}

Result<void> switch_offloads_off(const std::string& name) {
  for (const uint32_t command : {ETHTOOL_STSO, ETHTOOL_SGSO, ETHTOOL_STXCSUM}) {
    ethtool_value off{command, 0};
    ifreq request = request_for(name);
    request.ifr_data = reinterpret_cast<char*>(&off);
    FRIDAY_TRY_VOID(ask_device(SIOCETHTOOL, &request, "switching off the offloads of " + name));
  }
  return {};
}

Result<FrameSocket> FrameSocket::open(const std::string& device, size_t frames) {
  FrameSocket made;
  // Nothing arrives until the socket is bound below: the protocol is 0 here.
  made.socket_.reset(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  const int fd = made.socket_.get();
  if (fd < 0) return fail_errno(errno, "opening a packet socket");
  const int version = TPACKET_V2, on = 1;
  constexpr size_t kBlock = 32 * kFrameSize;
  const size_t blocks = frames / 32;
  const tpacket_req ring{kBlock, static_cast<unsigned>(blocks), kFrameSize, static_cast<unsigned>(blocks * 32)};
  if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0 ||
      setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring) != 0)
    return fail_errno(errno, "making the ring of a packet socket");
  void* mapped = mmap(nullptr, blocks * kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "mapping the ring of a packet socket");
  made.ring_ = static_cast<std::byte*>(mapped);
  made.frames_ = blocks * 32;
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return fail_errno(errno, "binding a packet socket to " + device);
  return made;
}

FrameSocket::FrameSocket(FrameSocket&& other) noexcept
    : socket_(std::move(other.socket_)),
      ring_(std::exchange(other.ring_, nullptr)),
      frames_(other.frames_),
      next_(other.next_) {}

FrameSocket::~FrameSocket() {
  if (ring_) munmap(ring_, frames_ * kFrameSize);
}

void FrameSocket::receive(size_t most, const std::function<void(std::span<const std::byte>)>& take) {
  for (; most > 0; most--) {
    auto* header = reinterpret_cast<tpacket2_hdr*>(ring_ + next_ * kFrameSize);
    std::atomic_ref<uint32_t> status(header->tp_status);
    if (!(status.load(std::memory_order_acquire) & TP_STATUS_USER)) return;
    const auto* bytes = reinterpret_cast<const std::byte*>(header) + header->tp_mac;
    if (header->tp_snaplen == header->tp_len) take({bytes, header->tp_snaplen});
    status.store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = (next_ + 1) % frames_;
  }
}

bool FrameSocket::send(std::span<const std::byte> frame) const {
  return ::send(socket_.get(), frame.data(), frame.size(), MSG_DONTWAIT) == static_cast<ssize_t>(frame.size());
}

uint64_t FrameSocket::take_overflows() const {
  tpacket_stats stats{};
  socklen_t size = sizeof stats;
  return getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0 ? stats.tp_drops : 0;
}

}  // namespace friday
