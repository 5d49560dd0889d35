#include "core/record/judge_link.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

namespace friday {

using nlohmann::json;

Result<JudgePlace> read_judge_place(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    return fail(ErrorCode::usage, "\"{}\" is no HOST:PORT, as 10.0.0.1:7700 or [fd00::1]:7700", text);
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    return fail(ErrorCode::usage, "\"{}\": an IPv6 address stands in brackets, as [fd00::1]:7700", text);
  return JudgePlace{std::move(host), text.substr(colon + 1)};
}

std::string describe(const JudgePlace& place) {
  return place.host.find(':') == std::string::npos ? fmt::format("{}:{}", place.host, place.port)
                                                   : fmt::format("[{}]:{}", place.host, place.port);
}

Result<SocketAddress> look_up(const JudgePlace& place, bool listens) {
  addrinfo wanted{};
  wanted.ai_flags = AI_NUMERICSERV | (listens ? AI_PASSIVE : 0);
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(place.host.c_str(), place.port.c_str(), &wanted, &found))
    return fail(ErrorCode::not_found, "{}: {}", describe(place), gai_strerror(error));
  SocketAddress out{.address = {}, .size = found->ai_addrlen};
  memcpy(&out.address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return out;
}

Result<JudgePlace> without_name(const JudgePlace& place) {
  FRIDAY_TRY(at, look_up(place, false));
  char host[NI_MAXHOST];
  if (getnameinfo(at.get(), at.size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return place;
  return JudgePlace{host, place.port};
}

JudgeLink::JudgeLink(UniqueFd socket) : socket_(std::move(socket)) {
  const int fd = socket_.get(), on = 1, idle_s = 2, between_s = 1, times = 4;
  const unsigned unanswered_ms = 6000;
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

Result<JudgeLink> JudgeLink::connect(const JudgePlace& place) {
  FRIDAY_TRY(to, look_up(place, false));
  UniqueFd socket(::socket(to.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno(errno, "cannot make a socket");
  JudgeLink link(std::move(socket));
  if (::connect(link.fd(), to.get(), to.size) != 0 && errno != EINPROGRESS)
    return fail_errno(errno, fmt::format("cannot connect to {}", describe(place)));
  return link;
}

short JudgeLink::events() const { return static_cast<short>(all_is_sent() ? POLLIN : POLLIN | POLLOUT); }

void JudgeLink::send(const json& message) {
  if (is_gone()) return;
  unsent_ += message.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  flush();
}

void JudgeLink::flush() {
  while (!is_gone() && !all_is_sent()) {
    const ssize_t sent = ::send(fd(), unsent_.data() + sent_, unsent_.size() - sent_, MSG_NOSIGNAL);
    if (sent > 0) sent_ += static_cast<size_t>(sent);
    else if (errno == EAGAIN || errno == ENOTCONN) break;
    else if (errno != EINTR) fail_with(strerror(errno));
  }
  if (all_is_sent() || sent_ > kMostOfStranger) unsent_.erase(0, std::exchange(sent_, 0));
  if (unsent_.size() > kMostUnsent) fail_with("it takes nothing any more");
}

bool JudgeLink::flush_all(int timeout_ms) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  for (flush(); !all_is_sent() && !is_gone() && std::chrono::steady_clock::now() < end; flush()) {
    constexpr int kLookAgainMs = 10;
    pollfd room{fd(), POLLOUT, 0};
    (void)poll(&room, 1, kLookAgainMs);
  }
  return all_is_sent();
}

void JudgeLink::say_no_more() { shutdown(fd(), SHUT_WR); }

void JudgeLink::receive() {
  came_.erase(0, std::exchange(taken_, 0));
  constexpr size_t kMostAtOnce = 4 << 20;
  char bytes[16384];
  for (size_t sum = 0; !is_gone() && sum < kMostAtOnce;) {
    const ssize_t got = recv(fd(), bytes, sizeof bytes, 0);
    if (got > 0) came_.append(bytes, static_cast<size_t>(got)), sum += static_cast<size_t>(got);
    else if (got == 0) why_ = "the connection was closed";
    else if (errno == EAGAIN || errno == ENOTCONN) break;
    else if (errno != EINTR) why_ = strerror(errno);
    if (came_.size() - (came_.rfind('\n') + 1) > most_) why_ = "what it says is too long";
  }
}

// What has come before an error is not lost.
void JudgeLink::fail_with(const std::string& why) {
  receive();
  why_ = why;
}

std::optional<json> JudgeLink::next() {
  const size_t end = came_.find('\n', taken_);
  if (end == std::string::npos) return std::nullopt;
  const std::string_view line = std::string_view(came_).substr(taken_, end - taken_);
  json message = json::parse(line, nullptr, false);
  taken_ = end + 1;
  if (message.is_object()) return message;
  taken_ = came_.size();
  why_ = "what it says is not understood";
  return std::nullopt;
}

json as_json(const SocketPlace& place) {
  return {place.family, place.port, place.words[0], place.words[1], place.words[2], place.words[3]};
}

std::optional<SocketPlace> socket_place(const json& json) {
  constexpr size_t kBefore = 2, kWords = 4;
  if (!json.is_array() || json.size() != kBefore + kWords) return std::nullopt;
  for (const auto& each : json)
    if (!each.is_number_unsigned()) return std::nullopt;
  SocketPlace out{json[0].get<int>(), json[1].get<uint16_t>(), {}};
  for (size_t i = 0; i < kWords; i++) out.words[i] = json[kBefore + i].get<uint32_t>();
  return out;
}

std::string text_of(const json& message, const char* name) {
  const auto member = message.find(name);
  return member != message.end() && member->is_string() ? member->get<std::string>() : "";
}

uint64_t number_of(const json& message, const char* name) {
  const auto member = message.find(name);
  return member != message.end() && member->is_number_unsigned() ? member->get<uint64_t>() : 0;
}

bool flag_of(const json& message, const char* name) {
  const auto member = message.find(name);
  return member != message.end() && member->is_boolean() && member->get<bool>();
}

}  // namespace friday
