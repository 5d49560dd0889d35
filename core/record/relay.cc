#include "core/record/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <optional>
#include <utility>

namespace friday {
namespace {

constexpr size_t kMostAtOnce = 64;             // frames of one host, before it is the turn of the next
constexpr size_t kMostWaiting = 256ull << 20;  // bytes of delayed frames
constexpr int64_t kSecond = 1'000'000'000;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

}  // namespace

Relay::Relay(std::vector<FrameSocket> sockets, Links links, uint32_t first_address, uint32_t broadcast)
    : sockets_(std::move(sockets)), links_(std::move(links)), first_address_(first_address), broadcast_(broadcast) {}

bool Relay::run(int control) {
  std::vector<pollfd> polled{{control, POLLIN, 0}};
  for (const FrameSocket& socket : sockets_) polled.push_back({socket.fd(), POLLIN, 0});
  while (true) {
    now_ns_ = now_ns();
    deliver_due();
    timespec timeout{};
    if (!waiting_.empty()) {
      const int64_t left = std::max<int64_t>(0, waiting_.top().due_ns - now_ns_);
      timeout = {left / kSecond, left % kSecond};
    }
    const int ready = ppoll(polled.data(), polled.size(), waiting_.empty() ? nullptr : &timeout, nullptr);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    now_ns_ = now_ns();
    if (polled[0].revents) {
      const Heard heard = hear(control);
      if (heard != Heard::change) return heard == Heard::end;
    }
    for (uint32_t host = 0; host < sockets_.size(); host++)
      if (polled[host + 1].revents)
        sockets_[host].receive(kMostAtOnce, [this, host](std::span<const std::byte> frame) { take(host, frame); });
  }
}

void Relay::answer(int control) {
  for (const FrameSocket& socket : sockets_) counts_.overflowed += socket.take_overflows();
  (void)!send(control, &counts_, sizeof counts_, MSG_NOSIGNAL);
}

Relay::Heard Relay::hear(int control) {
  std::array<LinkChange, kMostChanges> changes;
  const ssize_t got = recv(control, changes.data(), sizeof changes, 0);
  if (got <= 0) return got < 0 && errno == EINTR ? Heard::change : Heard::gone;
  if (got == sizeof kEndRelay) return Heard::end;
  for (const LinkChange& change : std::span(changes).first(static_cast<size_t>(got) / sizeof(LinkChange)))
    links_.apply(change);
  answer(control);
  return Heard::change;
}

void Relay::take(uint32_t from, std::span<const std::byte> frame) {
  const auto to = destination_of(frame, first_address_, sockets_.size(), broadcast_);
  if (!to) return;
  if (*to != kEveryHost) return pass(from, *to, frame);
  for (uint32_t each = 0; each < sockets_.size(); each++)
    if (each != from) pass(from, each, frame);
}

void Relay::pass(uint32_t from, uint32_t to, std::span<const std::byte> frame) {
  const auto due_ns = links_.due(from, to, now_ns_);
  if (!due_ns) {
    counts_.lost++;
  } else if (*due_ns <= now_ns_) {
    deliver(from, to, frame);
  } else if (waiting_bytes_ + frame.size() > kMostWaiting) {
    counts_.overflowed++;
  } else {
    waiting_bytes_ += frame.size();
    waiting_.push({*due_ns, next_number_++, from, to, {frame.begin(), frame.end()}});
  }
}

// A packet that was under way when its link was cut does not arrive either.
void Relay::deliver(uint32_t from, uint32_t to, std::span<const std::byte> frame) {
  if (links_.is_cut(from, to)) counts_.lost++;
  else if (sockets_[to].send(frame)) counts_.delivered++;
  else counts_.overflowed++;
}

void Relay::deliver_due() {
  for (; !waiting_.empty() && waiting_.top().due_ns <= now_ns_; waiting_.pop()) {
    const Waiting& first = waiting_.top();
    waiting_bytes_ -= first.frame.size();
    deliver(first.from, first.to, first.frame);
  }
}

}  // namespace friday
