#include "core/record/network.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace friday {
namespace {

constexpr int kControl = 3;  // the relay's end of the socket to the recorder
constexpr std::chrono::seconds kLongestKill{5};

// What the relay's process says before it carries packets: a descriptor of its user namespace, one of each host's
// network namespace and a socket that its sockets are asked for with, and that it is ready; or why it cannot.
enum class Saying : char { user = 'u', net = 'n', sockets = 's', ready = 'r', failed = 'f' };

void say(int control, Saying saying, int descriptor, const std::string& text = "") {
  std::string words = static_cast<char>(saying) + text;
  iovec part{words.data(), words.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> passed{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = passed.data();
    message.msg_controllen = passed.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  }
  (void)!sendmsg(control, &message, MSG_NOSIGNAL);
}

Result<void> write_setting(const char* path, const std::string& text) {
  const UniqueFd file(open(path, O_WRONLY | O_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) < 0)
    return fail_errno(errno, fmt::format("writing {}", path));
  return {};
}

// Makes a user namespace in which the caller's user and group have the numbers that they have outside, and all others
// have none.
Result<void> make_user_namespace() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(CLONE_NEWUSER) != 0) return fail_errno(errno, "making a user namespace");
  FRIDAY_TRY_VOID(write_setting("/proc/self/setgroups", "deny"));
  FRIDAY_TRY_VOID(write_setting("/proc/self/uid_map", fmt::format("{0} {0} 1", user)));
  return write_setting("/proc/self/gid_map", fmt::format("{0} {0} 1", group));
}

Result<UniqueFd> make_net_namespace() {
  if (unshare(CLONE_NEWNET) != 0) return fail_errno(errno, "making a network namespace");
  return open_file("/proc/self/ns/net", O_RDONLY);
}

// Kills all processes on the hosts until there are none. A process may make others meanwhile.
void kill_inhabitants(const std::vector<UniqueFd>& net_namespaces) {
  namespace fs = std::filesystem;
  std::vector<ino_t> ours;  // all of them are in the same file system
  for (const UniqueFd& each : net_namespaces) {
    struct stat st {};
    if (fstat(each.get(), &st) == 0) ours.push_back(st.st_ino);
  }
  const auto until = std::chrono::steady_clock::now() + kLongestKill;
  for (bool found = true; found && std::chrono::steady_clock::now() < until;) {
    found = false;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator("/proc", error)) {
      const pid_t pid = atoi(entry.path().filename().c_str());
      struct stat st {};
      if (pid <= 0 || stat((entry.path() / "ns/net").c_str(), &st) != 0 || !std::ranges::count(ours, st.st_ino))
        continue;
      found |= kill(pid, SIGKILL) == 0;
    }
    if (found) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The relay's process: makes the namespaces and carries packets.
class RelayProcess {
 public:
  explicit RelayProcess(const NetworkSpec& spec) : spec_(spec) {}

  void live() {
    leave_recorder();
    auto relay = make_hosts();
    if (!relay) return say(kControl, Saying::failed, -1, relay.error().message);
    say(kControl, Saying::ready, -1);
    const bool asked = relay->run(kControl);
    kill_inhabitants(hosts_);
    if (asked) relay->answer(kControl);
  }

  // Closes what was inherited, so that nobody waits for the relay to close it, and leaves the recorder's terminal.
  static void keep_only(int control) {
    dup2(control, kControl);
    close_range(kControl + 1, ~0u, 0);
    const int none = open("/dev/null", O_RDWR);
    for (int standard : {0, 1, 2}) dup2(none, standard);
    if (none > kControl) close(none);
  }

 private:
  static void leave_recorder() {
    setsid();
    prctl(PR_SET_NAME, "friday-relay");
  }

  Result<Relay> make_hosts() {
    if (unshare(CLONE_NEWNET) != 0) {
      FRIDAY_TRY_VOID(make_user_namespace());
      FRIDAY_TRY(user, open_file("/proc/self/ns/user", O_RDONLY));
      say(kControl, Saying::user, user.get());
    }
    FRIDAY_TRY(hub, make_net_namespace());  // the relay's own, into which the other ends of all devices go
    for (size_t i = 0; i < spec_.hosts.size(); i++) FRIDAY_TRY_VOID(make_host(i, hub.get()));
    if (setns(hub.get(), CLONE_NEWNET) != 0) return fail_errno(errno, "entering a network namespace");
    const size_t frames = std::clamp<size_t>(kAllFrames / spec_.hosts.size(), 128, 4096);
    std::vector<FrameSocket> sockets;
    for (size_t i = 0; i < spec_.hosts.size(); i++) {
      const std::string device = fmt::format("host{}", i);
      FRIDAY_TRY_VOID(bring_up(device));
      FRIDAY_TRY(socket, FrameSocket::open(device, frames));
      sockets.push_back(std::move(socket));
    }
    return Relay(std::move(sockets), Links(spec_.hosts.size(), spec_.links, spec_.seed), spec_.first_address,
                 spec_.broadcast());
  }

  Result<void> make_host(size_t number, int hub) {
    FRIDAY_TRY(host, make_net_namespace());
    FRIDAY_TRY_VOID(bring_up_loopback());
    FRIDAY_TRY_VOID(make_veth("eth0", fmt::format("host{}", number), hub));
    FRIDAY_TRY_VOID(switch_offloads_off("eth0"));
    FRIDAY_TRY_VOID(set_address("eth0", spec_.first_address + static_cast<uint32_t>(number), spec_.prefix));
    FRIDAY_TRY_VOID(bring_up("eth0"));
    FRIDAY_TRY_VOID(route_multicast("eth0"));
    const UniqueFd sockets(open_socket_space());
    if (!sockets) return fail_errno(errno, "asking for the sockets of a network namespace");
    say(kControl, Saying::net, host.get());
    say(kControl, Saying::sockets, sockets.get());
    hosts_.push_back(std::move(host));
    return {};
  }

  static constexpr size_t kAllFrames = 32768;  // of 2 KiB, in the rings of all hosts
  const NetworkSpec& spec_;
  std::vector<UniqueFd> hosts_;
};

}  // namespace

int enter(const HostPlace& place) {
  if (place.user_namespace >= 0 && setns(place.user_namespace, CLONE_NEWUSER) != 0) return errno;
  return setns(place.net_namespace, CLONE_NEWNET) == 0 ? 0 : errno;
}

Result<std::unique_ptr<Network>> Network::make(const NetworkSpec& spec) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return fail_errno(errno, "socketpair failed");
  std::unique_ptr<Network> network(new Network);
  network->control_.reset(ends[0]);
  UniqueFd theirs(ends[1]);
  network->hosts_ = spec.hosts;
  network->relay_ = fork();
  if (network->relay_ < 0) return fail_errno(errno, "fork failed");
  if (network->relay_ == 0) {
    RelayProcess::keep_only(theirs.get());
    RelayProcess(spec).live();
    _exit(0);
  }
  theirs.reset();
  FRIDAY_TRY_VOID(network->receive_places());
  return network;
}

Result<void> Network::receive_places() {
  while (true) {
    std::array<char, 512> words;
    iovec part{words.data(), words.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> passed{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = passed.data();
    message.msg_controllen = passed.size();
    const ssize_t got = recvmsg(control_.get(), &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(ErrorCode::component_died, "the process that makes the network ended");
    UniqueFd descriptor;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header && header->cmsg_type == SCM_RIGHTS) {
      int number = -1;
      memcpy(&number, CMSG_DATA(header), sizeof number);
      descriptor.reset(number);
    }
    switch (static_cast<Saying>(words[0])) {
      case Saying::user: user_namespace_ = std::move(descriptor); break;
      case Saying::net: net_namespaces_.push_back(std::move(descriptor)); break;
      case Saying::sockets: socket_spaces_.push_back(std::move(descriptor)); break;
      case Saying::ready: return {};
      case Saying::failed:
        return fail(ErrorCode::unsupported, "{}", std::string(words.data() + 1, static_cast<size_t>(got) - 1));
    }
  }
}

Network::~Network() { end(); }

HostPlace Network::place_of(const std::string& host) const {
  const auto at = std::ranges::find(hosts_, host) - hosts_.begin();
  return {user_namespace_.get(), net_namespaces_[static_cast<size_t>(at)].get()};
}

std::vector<SocketSpace> Network::socket_spaces() const {
  std::vector<SocketSpace> spaces;
  for (size_t i = 0; i < net_namespaces_.size(); i++) {
    struct stat status {};
    if (fstat(net_namespaces_[i].get(), &status) == 0) spaces.push_back({socket_spaces_[i].get(), status.st_ino});
  }
  return spaces;
}

Result<void> Network::apply(std::span<const LinkChange> changes) {
  for (size_t done = 0; done < changes.size(); done += kMostChanges) {
    const auto some = changes.subspan(done, std::min(kMostChanges, changes.size() - done));
    FRIDAY_TRY(counts, ask(some.data(), some.size_bytes()));
    counts_ = counts;
  }
  return {};
}

Result<RelayCounts> Network::ask(const void* message, size_t size) {
  RelayCounts counts;
  ssize_t got = -1;
  if (send(control_.get(), message, size, MSG_NOSIGNAL) == static_cast<ssize_t>(size)) do
      got = recv(control_.get(), &counts, sizeof counts, 0);
    while (got < 0 && errno == EINTR);
  if (got != sizeof counts) return fail(ErrorCode::component_died, "the relay of the group's network has ended");
  return counts;
}

void Network::ended(pid_t pid) {
  if (pid != relay_) return;
  relay_ = 0;
  lost_ = true;
}

RelayCounts Network::end() {
  if (relay_ > 0) {
    if (const auto counts = ask(&kEndRelay, sizeof kEndRelay)) counts_ = *counts;
    control_.reset();
    while (waitpid(relay_, nullptr, 0) < 0 && errno == EINTR) {}
    relay_ = 0;
  }
  return counts_;
}

}  // namespace friday
