#include "core/record/held_datagrams.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/base/log.h"

namespace friday {

HeldDatagrams::~HeldDatagrams() {
  for (size_t at = 0; at < shim::kMaxAwaited; at++) release(at);
}

HeldDatagram HeldDatagrams::of(const shim::Request& request, std::span<const std::byte> bytes, UniqueFd fd) {
  HeldDatagram out{.fd = std::move(fd), .inode = request.inode, .bytes = {bytes.begin(), bytes.end()}};
  if (request.detail > 0 && static_cast<size_t>(request.detail) <= sizeof out.address) {
    out.address_length = static_cast<socklen_t>(request.detail);
    memcpy(&out.address, request.text, out.address_length);
  }
  return out;
}

bool HeldDatagram::is_for_several() const { return friday::is_for_several(place_of(address)); }

void HeldDatagrams::find_receiver(HeldDatagram& datagram) const {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  if (getsockname(datagram.fd.get(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return;
  const auto found =
      datagram_receiver(place_of(local), place_of(datagram.address), space_of(datagram.fd.get()), spaces_);
  datagram.receiver = found ? found->inode : 0;
  datagram.unread = found ? found->unread : 0;
}

// An entry that nobody has. What was sent long ago and is not waited for was lost by the network.
shim::AwaitedDatagram* HeldDatagrams::free_entry() {
  constexpr std::chrono::seconds kLongestWay(5);
  const Clock::time_point now = Clock::now();
  for (size_t at = 0; at < shim::kMaxAwaited; at++) {
    if (area_.awaited[at].inode && !entries_[at].ticket && now - entries_[at].sent > kLongestWay) release(at);
    if (!area_.awaited[at].inode) return &area_.awaited[at];
  }
  return nullptr;
}

void HeldDatagrams::release(size_t at) {
  shim::AwaitedDatagram& entry = area_.awaited[at];
  if (!entry.inode) return;
  __atomic_store_n(&entry.inode, 0, __ATOMIC_SEQ_CST);
  __atomic_sub_fetch(&area_.awaited_count, 1, __ATOMIC_SEQ_CST);
  entries_[at] = {};
}

HeldDatagrams::Sent HeldDatagrams::send(const HeldDatagram& datagram, Ticket ticket) {
  shim::AwaitedDatagram* entry = datagram.receiver ? free_entry() : nullptr;
  if (entry) {
    entry->received = 0;
    entry->order = ++order_;
    entry->length = static_cast<uint32_t>(datagram.bytes.size());
    memset(entry->bytes, 0, sizeof entry->bytes);
    memcpy(entry->bytes, datagram.bytes.data(), std::min(datagram.bytes.size(), sizeof entry->bytes));
    entries_[entry - area_.awaited] = {ticket, Clock::now()};
    __atomic_store_n(&entry->inode, datagram.receiver, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&area_.awaited_count, 1, __ATOMIC_SEQ_CST);
  }
  const auto* to = reinterpret_cast<const sockaddr*>(&datagram.address);
  constexpr int kTries = 10, kWaitMs = 1;
  for (int tries = 0; tries < kTries; tries++) {
    if (sendto(datagram.fd.get(), datagram.bytes.data(), datagram.bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL, to,
               datagram.address_length) >= 0)
      return entry || !datagram.receiver ? Sent::sent : Sent::unnoted;
    if (errno != EAGAIN && errno != ECONNREFUSED) break;  // an error of a datagram before is told once
    pollfd room{datagram.fd.get(), POLLOUT, 0};
    if (errno == EAGAIN) (void)poll(&room, 1, kWaitMs);
  }
  FRIDAY_LOG(record, info, "a datagram is lost: {}", strerror(errno));
  if (entry) release(static_cast<size_t>(entry - area_.awaited));
  return Sent::lost;
}

std::vector<HeldDatagrams::Receipt> HeldDatagrams::look() {
  std::vector<Receipt> out;
  if (!awaits()) return out;
  for (size_t at = 0; at < shim::kMaxAwaited; at++) {
    const shim::AwaitedDatagram& entry = area_.awaited[at];
    const uint64_t ordinal = entry.inode ? __atomic_load_n(&entry.received, __ATOMIC_SEQ_CST) : 0;
    if (!ordinal) continue;
    if (entries_[at].ticket) out.push_back({entries_[at].ticket, entry.inode, ordinal});
    release(at);
  }
  std::ranges::sort(out, {}, [](const Receipt& receipt) { return std::pair(receipt.inode, receipt.ordinal); });
  return out;
}

void HeldDatagrams::forget(Ticket ticket) {
  for (Entry& entry : entries_)
    if (entry.ticket == ticket) entry.ticket = 0;
}

}  // namespace friday
