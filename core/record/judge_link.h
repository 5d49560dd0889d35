// A connection between a recorder and the judge of several recorders (judge_server.h): lines of JSON over TCP. What the
// other end does not take is kept until it does. An end that has vanished without a word, as a host that lost its
// power, is noticed within some seconds.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/poll_set.h"
#include "core/record/sock_peers.h"

namespace friday {

// HOST:PORT, or [HOST]:PORT for a host's IPv6 address.
struct JudgePlace {
  std::string host;
  std::string port;
};
Result<JudgePlace> read_judge_place(const std::string& text);
std::string describe(const JudgePlace& place);

struct SocketAddress {
  sockaddr_storage address;
  socklen_t size;
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&address); }
};
// Looking a name up may take a while. `listens`: for bind(2).
Result<SocketAddress> look_up(const JudgePlace& place, bool listens);
// The same place with the address in the place of a name.
Result<JudgePlace> without_name(const JudgePlace& place);

class JudgeLink {
 public:
  // A connection that is made, or is being made.
  explicit JudgeLink(UniqueFd socket);
  // Begins to connect.
  static Result<JudgeLink> connect(const JudgePlace& place);

  int fd() const { return socket_.get(); }
  short events() const;  // that are waited for (poll(2))
  // Receives nothing, unless the link breaks, so that nothing waits unseen in next().
  void send(const nlohmann::json& message);
  void receive();                  // what has come, at most some MiB: next() gives it
  void flush();                    // sends what the other end takes
  bool flush_all(int timeout_ms);  // the same, and waits for it; false: not all could be sent
  void say_no_more();              // the other end finds the end of what is said
  void close(const std::string& why) { why_ = why; }
  // The next message that has come. None: there is none yet, or none will come (is_gone()).
  std::optional<nlohmann::json> next();
  bool is_gone() const { return !why_.empty(); }
  const std::string& why() const { return why_; }
  bool all_is_sent() const { return sent_ == unsent_.size(); }
  // Bytes of one message that are taken at most. A stranger's may be short ones only.
  void trust() { most_ = kMostTrusted; }

 private:
  void fail_with(const std::string& why);

  static constexpr size_t kMostTrusted = 64 << 20, kMostOfStranger = 1 << 18, kMostUnsent = 256 << 20;

  UniqueFd socket_;
  std::string came_, unsent_;
  size_t taken_ = 0, sent_ = 0;  // bytes of them
  size_t most_ = kMostOfStranger;
  std::string why_;  // why it is gone
};

// The addresses of an end in messages, and back; none if it is damaged.
nlohmann::json as_json(const SocketPlace& place);
std::optional<SocketPlace> socket_place(const nlohmann::json& json);

// A member of a message, or what stands for one that is missing or of another type.
std::string text_of(const nlohmann::json& message, const char* name);
uint64_t number_of(const nlohmann::json& message, const char* name);
bool flag_of(const nlohmann::json& message, const char* name);

}  // namespace friday
