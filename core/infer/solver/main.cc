// friday-infer: answers the core's messages (protocol.h) over the socket that it is given as descriptor 3, until that
// is closed. It is not meant to be started by people.
#include <sys/resource.h>
#include <sys/socket.h>
#include <z3.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/infer/solver/confinement.h"
#include "core/infer/solver/session.h"

namespace friday::infer {
namespace {

constexpr int kCoreSocket = 3;
constexpr uint64_t kMegabyte = 1 << 20;

struct Incoming {
  Kind kind{};
  std::vector<uint8_t> bytes;
  int descriptor = -1;
};

// A T off the front of a message. Messages that are cut off end the program: then core and solver are of different
// versions.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}
  template <typename T>
  T take() {
    T value;
    const auto bytes = take(sizeof(T));
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::span<const uint8_t> take(uint64_t size) {
    if (size > left_.size()) {
      (void)std::fprintf(stderr, "friday-infer: a message is cut off\n");
      std::exit(1);
    }
    const auto taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

 private:
  std::span<const uint8_t> left_;
};

class Core {
 public:
  // False if the core has closed its end.
  bool receive(Incoming* message) {
    Header header{};
    if (!receive_into(&header, sizeof(header), &message->descriptor) || header.size > kLargestMessage) return false;
    message->kind = header.kind;
    message->bytes.resize(header.size);
    return receive_into(message->bytes.data(), header.size, nullptr);
  }
  void send(Kind kind, std::span<const uint8_t> bytes) {
    const Header header{kind, static_cast<uint32_t>(bytes.size())};
    send_all(&header, sizeof(header));
    send_all(bytes.data(), bytes.size());
  }
  template <typename T>
  void send_of(Kind kind, const T& value, std::string_view behind = {}) {
    std::vector<uint8_t> bytes(sizeof(T));
    std::memcpy(bytes.data(), &value, sizeof(T));
    bytes.insert(bytes.end(), behind.begin(), behind.end());
    send(kind, bytes);
  }
  template <typename T>
  void send_array(Kind kind, const std::vector<T>& values) {
    send(kind, {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)});
  }

 private:
  bool receive_into(void* to, size_t size, int* descriptor) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    for (size_t done = 0; done < size;) {
      iovec part{static_cast<char*>(to) + done, size - done};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      const ssize_t got = recvmsg(kCoreSocket, &message, MSG_CMSG_CLOEXEC);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      const cmsghdr* rights = CMSG_FIRSTHDR(&message);
      if (descriptor != nullptr && rights != nullptr && rights->cmsg_type == SCM_RIGHTS)
        std::memcpy(descriptor, CMSG_DATA(rights), sizeof(int));
      done += static_cast<size_t>(got);
    }
    return true;
  }
  void send_all(const void* from, size_t size) {
    for (size_t done = 0; done < size;) {
      const ssize_t sent = ::send(kCoreSocket, static_cast<const char*>(from) + done, size - done, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) std::exit(1);  // the core has gone
      done += static_cast<size_t>(sent);
    }
  }
};

// Asks the core, and lets it look at memory meanwhile.
bool judged_right(Core& core, Session& session, const PathEnd& end) {
  core.send_of(Kind::arrived, Arrived{end.end, 0});
  Incoming message;
  while (core.receive(&message)) {
    Reader bytes(message.bytes);
    if (message.kind == Kind::judgement) return bytes.take<Judgement>().right != 0;
    if (message.kind != Kind::look) break;
    const auto range = bytes.take<Range>();
    if (range.length > kLargestMessage / 2) break;
    const Session::Look look = session.look(range.address, range.length);
    core.send_of(Kind::looked, Looked{look.exists, look.depends},
                 {reinterpret_cast<const char*>(look.bytes.data()), look.bytes.size()});
  }
  std::exit(1);  // the core has gone, or does not keep to the protocol
}

void answer_run(Core& core, Session& session, Reader message) {
  const auto run = message.take<Run>();
  std::vector<DemandedValue> demands;
  for (uint32_t i = 0; i < run.demands; ++i) {
    const auto demand = message.take<Demand>();
    const auto bytes = message.take(demand.length);
    if (demand.of == Of::general_register && (demand.length > 8 || demand.number > 15)) {
      return core.send_of(Kind::failed, Failed{Why::protocol, 0, 0}, "there is no such register");
    }
    demands.push_back({demand.of, demand.number, demand.address, {bytes.begin(), bytes.end()}});
  }
  std::function<bool(const PathEnd&)> accepts;
  if (run.asks) accepts = [&](const PathEnd& end) { return judged_right(core, session, end); };
  const Session::RunResult result = session.run(run.thread, run.registers, demands, accepts);
  if (result.end.failed)
    return core.send_of(Kind::failed, Failed{result.end.why, 0, result.end.address}, result.end.text);
  std::string patches;
  for (const auto& [patch, bytes] : result.patches) {
    patches.append(reinterpret_cast<const char*>(&patch), sizeof(patch));
    patches.append(bytes.begin(), bytes.end());
  }
  core.send_of(Kind::done, result.done, patches);
}

void answer(Core& core, Session& session, const Incoming& message) {
  Reader bytes(message.bytes);
  switch (message.kind) {
    case Kind::original: {
      const auto range = bytes.take<Range>();
      return session.original(range.address, bytes.take(range.length));
    }
    case Kind::summary: {
      const auto summary = bytes.take<Summary>();
      return session.summary(summary.address, summary.function);
    }
    case Kind::unknown: return session.unknown(bytes.take<Unknown>());
    case Kind::known: {
      const auto range = bytes.take<Range>();
      return session.known(range.address, range.length);
    }
    case Kind::run: return answer_run(core, session, bytes);
    case Kind::adopt: return session.adopt();
    case Kind::forget: return session.forget();
    case Kind::shadow: return core.send_array(Kind::shadowed, session.shadow());
    case Kind::values: return core.send_array(Kind::symbols, session.values(bytes.take<Values>()));
    default: (void)std::fprintf(stderr, "friday-infer: an unknown message\n"); std::exit(1);
  }
}

int serve() {
  Core core;
  Incoming message;
  if (!core.receive(&message) || message.kind != Kind::begin) {
    (void)std::fprintf(stderr, "friday-infer is a part of friday, which starts it by itself.\n");
    return 2;
  }
  const auto begin = Reader(message.bytes).take<Begin>();
  if (begin.version != kProtocolVersion || message.descriptor < 0) {
    core.send_of(Kind::failed, Failed{Why::protocol, 0, 0}, "friday and friday-infer are of different versions");
    return 1;
  }
  const rlimit none{0, 0};
  (void)setrlimit(RLIMIT_CORE, &none);
  // Z3 gives up before memory is exhausted; a quarter is left for expressions and pages.
  Z3_global_param_set("memory_max_size",
                      std::to_string(std::max<uint64_t>(begin.memory / kMegabyte * 3 / 4, 1)).c_str());
  prepare_vex();
  if (!confine(kCoreSocket, message.descriptor)) {
    core.send_of(Kind::failed, Failed{Why::protocol, 0, 0}, "the kernel refuses to confine friday-infer");
    return 1;
  }
  Session session(begin, message.descriptor);
  core.send_of(Kind::ready, Ready{kProtocolVersion, 0});
  while (core.receive(&message)) answer(core, session, message);
  return 0;
}

}  // namespace
}  // namespace friday::infer

int main() { return friday::infer::serve(); }
