#include "core/infer/solver_link.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/poll_set.h"

extern char** environ;

namespace friday::infer {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kSoon{10'000};  // for what needs no search
constexpr std::chrono::milliseconds kSlack{2'000};  // behind the solver's own limit, before it is killed
constexpr int kSolverSocket = 3;                    // the solver's descriptor of its end

void append(std::vector<std::byte>& to, const auto& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Error out_of_protocol(std::string_view what) {
  return {ErrorCode::component_died, fmt::format("friday-infer does not keep to its protocol: {}. Is it of another "
                                                 "version?",
                                                 what)};
}

// Takes a T off the front. False if there are fewer bytes.
template <typename T>
bool take(std::span<const std::byte>& from, T& value) {
  if (from.size() < sizeof value) return false;
  memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return true;
}

template <typename T>
Result<std::vector<T>> array_of(std::span<const std::byte> bytes) {
  if (bytes.size() % sizeof(T)) return std::unexpected(out_of_protocol("an array is cut off"));
  std::vector<T> all(bytes.size() / sizeof(T));
  if (!all.empty()) memcpy(all.data(), bytes.data(), bytes.size());
  return all;
}

Result<RunEnd> end_of(std::span<const std::byte> bytes) {
  RunEnd end{};
  if (!take(bytes, end.done)) return std::unexpected(out_of_protocol("the end of a run is cut off"));
  for (uint32_t i = 0; i < end.done.patches; i++) {
    Patch patch;
    if (!take(bytes, patch) || patch.length > bytes.size() ||
        (patch.of == Of::general_register && (patch.length > 8 || patch.number >= 16)))
      return std::unexpected(out_of_protocol("a patch is cut off"));
    end.patches.push_back({patch.of, patch.number, patch.address, {bytes.begin(), bytes.begin() + patch.length}});
    bytes = bytes.subspan(patch.length);
  }
  return end;
}

}  // namespace

Result<SolverLink> SolverLink::start(const std::string& program, int memory, const SolverLimits& limits) {
  if (::access(program.c_str(), X_OK) != 0)
    return fail(ErrorCode::not_found,
                "{} is not there, which infers what nobody has recorded. It is an optional part: install its packages "
                "with `bash console/setup.sh --infer` and build again",
                program);
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail_errno(errno, "cannot make a socket");
  UniqueFd own(ends[0]), its(ends[1]);
  const std::string path = program;
  char* arguments[] = {const_cast<char*>(path.c_str()), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, its.get(), kSolverSocket);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // what the terminal sends is not for it
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, path.c_str(), &files, &attributes, arguments, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error) return fail_errno(error, fmt::format("cannot start {}", path));
  SolverLink link(pid, std::move(own), limits);
  const rlimit most = {limits.memory, limits.memory};
  (void)::prlimit(pid, RLIMIT_AS, &most, nullptr);
  const Begin begin{kProtocolVersion,    static_cast<uint32_t>(limits.run.count()),
                    limits.instructions, limits.memory,
                    limits.paths,        limits.largest_table};
  FRIDAY_TRY_VOID(link.send(Kind::begin, std::as_bytes(std::span(&begin, 1)), memory));
  FRIDAY_TRY(answer, link.receive(kSoon));
  std::span<const std::byte> bytes = answer.bytes;
  Ready ready;
  if (answer.kind != Kind::ready || !take(bytes, ready) || ready.version != kProtocolVersion)
    return std::unexpected(out_of_protocol("it does not say that it is ready"));
  return link;
}

SolverLink::SolverLink(SolverLink&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)), limits_(other.limits_) {}

SolverLink::~SolverLink() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

Error SolverLink::died() {
  int status = 0;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
  return {ErrorCode::component_died,
          fmt::format("friday-infer has ended by itself ({}); it may use {} MiB of memory and {} s for one stretch of "
                      "code",
                      WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit", limits_.memory >> 20,
                      limits_.run.count() / 1000)};
}

Result<void> SolverLink::send(Kind kind, std::span<const std::byte> bytes, int descriptor) {
  if (pid_ <= 0) return fail(ErrorCode::component_died, "friday-infer has ended");
  Header header{kind, static_cast<uint32_t>(bytes.size())};
  iovec parts[] = {{&header, sizeof header}, {const_cast<std::byte*>(bytes.data()), bytes.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts, message.msg_iovlen = 2;
  if (descriptor >= 0) {
    message.msg_control = control, message.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  while (parts[0].iov_len + parts[1].iov_len > 0) {
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return std::unexpected(died());
    message.msg_control = nullptr, message.msg_controllen = 0;
    auto left = static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t n = std::min(left, part.iov_len);
      part.iov_base = static_cast<char*>(part.iov_base) + n, part.iov_len -= n, left -= n;
    }
  }
  return {};
}

Result<void> SolverLink::send_of(Kind kind, const auto& value, std::span<const std::byte> behind) {
  std::vector<std::byte> bytes;
  append(bytes, value);
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return send(kind, bytes);
}

Result<SolverLink::Message> SolverLink::receive(std::chrono::milliseconds time) {
  const auto until = Clock::now() + time;
  Header header{};
  Message message{};
  size_t have = 0;
  const auto read_into = [&](std::byte* to, size_t size) -> Result<void> {
    for (have = 0; have < size;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      pollfd wait{socket_.get(), POLLIN, 0};
      const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return std::unexpected(died());
      const ssize_t n = ::recv(socket_.get(), to + have, size - have, 0);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return std::unexpected(died());
      have += static_cast<size_t>(n);
    }
    return {};
  };
  FRIDAY_TRY_VOID(read_into(reinterpret_cast<std::byte*>(&header), sizeof header));
  if (header.size > kLargestMessage) return std::unexpected(out_of_protocol("a message is too long"));
  message.kind = header.kind;
  message.bytes.resize(header.size);
  FRIDAY_TRY_VOID(read_into(message.bytes.data(), message.bytes.size()));
  return message;
}

Result<void> SolverLink::original(uint64_t address, std::span<const std::byte> code) {
  return send_of(Kind::original, Range{address, code.size()}, code);
}

Result<void> SolverLink::summary(uint64_t address, Function function) {
  return send_of(Kind::summary, Summary{address, function, 0});
}

Result<void> SolverLink::unknown(uint64_t address, uint64_t length, uint64_t first) {
  return send_of(Kind::unknown, Unknown{address, length, first});
}

Result<void> SolverLink::known(uint64_t address, uint64_t length) {
  return send_of(Kind::known, Range{address, length});
}

Result<std::expected<RunEnd, RunFailure>> SolverLink::run(uint32_t thread, const Registers& registers,
                                                          std::span<const Value> demands, const Judge& judge) {
  std::vector<std::byte> bytes;
  append(bytes, Run{thread, static_cast<uint32_t>(demands.size()), 1, 0, registers});
  for (const Value& each : demands) {
    append(bytes, Demand{each.of, each.number, each.address, each.bytes.size()});
    bytes.insert(bytes.end(), each.bytes.begin(), each.bytes.end());
  }
  FRIDAY_TRY_VOID(send(Kind::run, bytes));
  const auto until = Clock::now() + limits_.run + kSlack;
  const auto left = [&] { return std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()); };
  FRIDAY_TRY(answer, receive(left()));
  while (answer.kind == Kind::arrived) {
    std::span<const std::byte> where = answer.bytes;
    Arrived arrived;
    if (!take(where, arrived)) return std::unexpected(out_of_protocol("a question is cut off"));
    FRIDAY_TRY(right, judge(arrived.end));
    FRIDAY_TRY_VOID(send_of(Kind::judgement, Judgement{right, 0}));
    FRIDAY_TRY(next, receive(left()));
    answer = std::move(next);
  }
  std::span<const std::byte> rest = answer.bytes;
  if (answer.kind == Kind::failed) {
    Failed failed;
    if (!take(rest, failed)) return std::unexpected(out_of_protocol("a failure is cut off"));
    return std::expected<RunEnd, RunFailure>(std::unexpect, failed.why, failed.address,
                                             std::string(reinterpret_cast<const char*>(rest.data()), rest.size()));
  }
  if (answer.kind != Kind::done) return std::unexpected(out_of_protocol("a run has no end"));
  FRIDAY_TRY(end, end_of(rest));
  return std::expected<RunEnd, RunFailure>(std::move(end));
}

Result<void> SolverLink::adopt() { return send(Kind::adopt, {}); }

Result<Look> SolverLink::look(uint64_t address, uint64_t length) {
  FRIDAY_TRY_VOID(send_of(Kind::look, Range{address, length}));
  FRIDAY_TRY(answer, receive(kSoon));
  std::span<const std::byte> rest = answer.bytes;
  Looked looked;
  if (answer.kind != Kind::looked || !take(rest, looked) || (looked.exists && rest.size() != length))
    return std::unexpected(out_of_protocol("it does not say what memory has"));
  return Look{looked.exists != 0, looked.depends != 0, {rest.begin(), rest.end()}};
}

Result<std::vector<ShadowChange>> SolverLink::shadow() {
  FRIDAY_TRY_VOID(send(Kind::shadow, {}));
  FRIDAY_TRY(answer, receive(kSoon));
  if (answer.kind != Kind::shadowed) return std::unexpected(out_of_protocol("it does not say what depends on symbols"));
  return array_of<ShadowChange>(answer.bytes);
}

Result<std::vector<Symbol>> SolverLink::values(uint64_t first, uint64_t count, std::chrono::milliseconds time) {
  FRIDAY_TRY_VOID(send_of(Kind::values, Values{first, count, static_cast<uint32_t>(time.count()), 0}));
  FRIDAY_TRY(answer, receive(time + kSoon));
  if (answer.kind != Kind::symbols) return std::unexpected(out_of_protocol("it does not say what symbols are"));
  FRIDAY_TRY(symbols, array_of<Symbol>(answer.bytes));
  if (symbols.size() != count) return std::unexpected(out_of_protocol("it knows other symbols"));
  return symbols;
}

}  // namespace friday::infer
