#include "core/record/collector.h"

#include <cpuid.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "core/base/beneath.h"
#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/processes.h"
#include "core/base/refusals.h"
#include "core/record/instrumentable.h"
#include "core/record/ticks.h"
#include "core/trace/calls.h"
#include "core/trace/record.h"

namespace friday {

using format::FileHeader;

namespace {

constexpr uint64_t kRoom = 16u << 20;            // is given to a trace at a time
constexpr int64_t kSoonUsedNs = 10'000'000'000;  // a trace that used up its room in less is one that is written fast
constexpr uint64_t kLeastRoom = 1u << 20;        // less is not worth a trace
// A forked child often ends at once: it is described when it has lived this long, or has ended. To make a file costs
// more than the fork.
constexpr int64_t kDescribeAfterNs = 50'000'000;
constexpr int64_t kLongestVforkNs = 1'000'000'000;

int64_t now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

std::unexpected<Error> cannot_write(int error, const std::string& path) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return refused(Refusal::disk, fmt::format("{}: {}", path, strerror(error)));
  return fail_errno(error, fmt::format("cannot write {}", path));
}

std::string limit_of_addresses(pid_t pid) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_AS, nullptr, &limit) != 0)
    getrlimit(RLIMIT_AS, &limit);  // it has ended: most have that of this process
  if (limit.rlim_cur == RLIM_INFINITY) return "they are taken, or the system has no memory for more";
  return fmt::format("ulimit -v is {}", limit.rlim_cur >> 10);
}

// What /proc says of a process that has just executed a program.
void describe_process(pid_t pid, NodeOrigin& origin) {
  char exe[PATH_MAX];
  ssize_t n = readlink(fmt::format("/proc/{}/exe", pid).c_str(), exe, sizeof exe);
  if (n > 0) origin.program.assign(exe, static_cast<size_t>(n));
  auto line = read_file(fmt::format("/proc/{}/cmdline", pid));
  if (!line || line->empty()) return;
  origin.arguments.clear();
  for (size_t from = 0; from < line->size();) {
    const size_t to = std::min(line->find('\0', from), line->size());
    origin.arguments.push_back(line->substr(from, to - from));
    from = to + 1;
  }
}

void wake(uint32_t* word) {
  __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

}  // namespace

struct Collector::Node {
  uint32_t id = 0;
  NodeOrigin origin;
  Beneath directory{"", ""};
  uint8_t uuid[16]{}, parent_uuid[16]{};
  UniqueFd trace, socket, peer;  // peer: the program's end until it is handed out
  FileHeader* header = nullptr;
  Packer::Trace* packed = nullptr;
  pid_t pid = 0;
  bool direct_child = false, hello = false, spawned = false, closed = false, hung_up = false;
  int64_t room_given = 0;  // when it was given last, by CLOCK_MONOTONIC
  bool waits_for_room = false, dropped = false, replaced = false;
  uint64_t events = 0, bytes = 0;  // once closed
  int64_t started_ns = 0;
  int wait_status = -1;
  int64_t ended_ns = 0;  // when its process was seen to have ended, by CLOCK_MONOTONIC
  uint32_t end_reason = 0;
  int end_detail = 0;
  std::string end_text;
  int forked_children = 0;
  // The program that it was about to execute when there were so many events, and why that cannot be recorded.
  std::string executes, execution_problem;
  std::string shim_notice, outsiders_notice, module_notice,
      children_notice;  // what readers should know, by who noticed it
  uint64_t execution_event = 0;
  // What is due, in nanoseconds of CLOCK_MONOTONIC; 0: nothing.
  int64_t describe_at = 0;  // node.json does not say all there is
  int64_t close_at = 0;     // its process has ended, and somebody still has its socket

  std::string notice() const {
    std::string text = shim_notice;
    for (const std::string& more : {outsiders_notice, module_notice, children_notice})
      text += (text.empty() || more.empty() ? "" : "; ") + more;
    return text;
  }
};

Collector::Collector(CollectorOptions options)
    : options_(std::move(options)), files_(Beneath(options_.recording, "files"), options_.tell) {
  clock_kind_ = tsc_is_the_clock() ? format::kClockTsc : format::kClockMonotonic;
  if (clock_kind_ != format::kClockTsc)
    notices_.push_back(describe_refusal(Refusal::tsc, "the kernel does not use it"));
  ticks_per_second_ = clock_kind_ == format::kClockTsc ? measure_tsc_rate() : 1000000000;
  boot_id_ = read_file("/proc/sys/kernel/random/boot_id").value_or("");
  machine_ = describe_vdso();
  for (unsigned i = 0; i < std::size(format::kCpuidLeaves); i++) {
    auto& [a, b, c, d] = machine_.cpuid[i];
    __cpuid_count(format::kCpuidLeaves[i][0], format::kCpuidLeaves[i][1], a, b, c, d);
  }
}

Collector::~Collector() { finish(); }

Result<std::unique_ptr<Collector>> Collector::create(CollectorOptions options) {
  if (mkdir(options.recording.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("cannot create the recording {}", options.recording));
  char resolved[PATH_MAX];
  if (!realpath(options.recording.c_str(), resolved))
    return fail_errno(errno, fmt::format("cannot resolve {}", options.recording));
  options.recording = resolved;
  // What is there already a stranger may have put there.
  const auto inside = [&](const char* name) { return Beneath(options.recording, name); };
  const Beneath marker = inside("recording.json");
  const auto there = open_beneath(marker);
  if (!there && there.error().code != ErrorCode::not_found) return std::unexpected(there.error());
  if (!there) {
    if (DIR* d = opendir(options.recording.c_str())) {
      // Another collector may be making the same recording right now.
      bool foreign = false;
      while (dirent* entry = readdir(d)) {
        const std::string_view name = entry->d_name;
        foreign |= name != "." && name != ".." && name != "nodes" && name != "files" && name != "cache" &&
                   name != "tokens" && !name.starts_with("recording.json");
      }
      closedir(d);
      if (foreign)
        return fail(ErrorCode::bad_input, "{} exists and is not a recording; name a new or empty directory",
                    options.recording);
    }
    nlohmann::json description = {{"format", 1}, {"created", now_ns(CLOCK_REALTIME)}};
    FRIDAY_TRY_VOID(write_beneath(marker, description.dump() + "\n"));
  }
  for (const char* part : {"nodes", "files"})
    if (auto made = make_directory_beneath(inside(part)); !made) return std::unexpected(made.error());
  std::unique_ptr<Collector> collector(new Collector(std::move(options)));
  FRIDAY_TRY_VOID(collector->open_tokens());
  if (!collector->outsiders_.start(collector->tokens_.get()))
    collector->notices_.push_back(
        "processes that write to shared memory and are not recorded go unnoticed: the system gives no thread to look "
        "for them "
        "(limits of processes or of address space)");
  return collector;
}

// The file is that of the collectors that record into this directory now. One that nobody has locked is left over;
// programs of a collector that was killed may still have it mapped, so it is replaced and not used again.
Result<void> Collector::open_tokens() {
  const Beneath file(options_.recording, "tokens");
  FRIDAY_TRY(directory, open_file(options_.recording, O_RDONLY | O_DIRECTORY));
  if (flock(directory.get(), LOCK_EX) != 0) return fail_errno(errno, fmt::format("cannot lock {}", options_.recording));
  auto opened = open_beneath(file, O_RDWR);
  if (!opened && opened.error().code == ErrorCode::bad_input) return std::unexpected(opened.error());
  if (opened) tokens_ = std::move(*opened);
  const bool in_use = tokens_ && flock(tokens_.get(), LOCK_EX | LOCK_NB) != 0;
  if (in_use) {
    FRIDAY_TRY_VOID(read_exactly(tokens_.get(), std::as_writable_bytes(std::span(&sharing_, 1)),
                                 offsetof(shim::TokenArea, session)));
  } else {
    remove_beneath(file);
    FRIDAY_TRY(made, create_beneath(file));
    tokens_ = std::move(made);
    while (sharing_ == 0)
      if (getrandom(&sharing_, sizeof sharing_, 0) != sizeof sharing_) return fail(ErrorCode::io, "getrandom failed");
    if (ftruncate(tokens_.get(), sizeof(shim::TokenArea)) != 0 ||
        pwrite(tokens_.get(), &sharing_, sizeof sharing_, offsetof(shim::TokenArea, session)) != sizeof sharing_)
      return cannot_write(errno, file.path());
    // A store to a page without a block would end a program on a full disk: what the first thousands need is there
    // ahead.
    constexpr off_t kAhead = 128 << 10;
    for (off_t array : {off_t{0}, off_t{offsetof(shim::TokenArea, group)}, off_t{offsetof(shim::TokenArea, object)},
                        off_t{offsetof(shim::TokenArea, member)}})
      if (int error = posix_fallocate(tokens_.get(), array, kAhead)) return cannot_write(error, file.path());
  }
  if (flock(tokens_.get(), LOCK_SH) != 0) return fail_errno(errno, fmt::format("cannot lock {}", file.path()));
  return {};
}

Result<Collector::Node*> Collector::create_node(const NodeOrigin& origin, const Node* parent, bool forked) {
  auto node = std::make_unique<Node>();
  node->origin = origin;
  // Several collectors may add to one recording: the directory that mkdir makes is ours. An id is never given twice,
  // also when its node came to nothing (close_node).
  for (bool made = false; !made; next_id_++) {
    node->id = next_id_;
    node->directory = Beneath(options_.recording, fmt::format("nodes/{}", node->id));
    FRIDAY_TRY(mine, make_new_directory_beneath(node->directory));
    made = mine;
  }
  if (getrandom(node->uuid, sizeof node->uuid, 0) != sizeof node->uuid) return fail(ErrorCode::io, "getrandom failed");
  if (parent) memcpy(node->parent_uuid, parent->uuid, sizeof node->parent_uuid);
  node->started_ns = now_ns(CLOCK_REALTIME);
  if (auto created = create_trace(*node, forked); !created) {
    remove_beneath(node->directory.below("trace"));
    remove_beneath(node->directory);
    return std::unexpected(created.error());
  }
  if (parent) {
    node->header->parent_pid = static_cast<uint32_t>(parent->pid);
    node->header->fork_event = parent->header->events - (forked ? 0 : 1);  // execve has its entry in the trace already
  }
  if (forked) describe_soon(*node);
  else write_description(*node);
  open_.push_back(node.get());
  nodes_.push_back(std::move(node));
  return open_.back();
}

Result<void> Collector::create_trace(Node& node, bool forked) {
  const uint64_t room = std::min(kRoom, room_left());
  if (room < kLeastRoom) return fail(ErrorCode::io, "the recording has the size that --max-size allows");
  const Beneath file = node.directory.below("trace");
  const std::string path = file.path();
  FRIDAY_TRY(trace, create_beneath(file));
  if (int error = posix_fallocate(trace.get(), 0, static_cast<off_t>(room))) return cannot_write(error, path);
  FileHeader header{};
  memcpy(header.magic, format::kMagic, sizeof header.magic);
  header.version = format::kVersion;
  header.header_size = format::kHeaderSize;
  header.features = format::kFeatureChecksums | format::kFeatureClockWords;
  header.features |= forked ? format::kFeatureForkChild : format::kFeatureImage;
  header.clock_kind = clock_kind_;
  header.abi_version = shim::kAbiVersion;
  unsigned at = 0;
  for (size_t i = 0; i + 1 < boot_id_.size() && at < 16;) {
    if (boot_id_[i] == '-') {
      i++;
      continue;
    }
    header.boot_id[at++] = static_cast<uint8_t>(std::stoi(boot_id_.substr(i, 2), nullptr, 16));
    i += 2;
  }
  memcpy(header.node_uuid, node.uuid, 16);
  memcpy(header.parent_uuid, node.parent_uuid, 16);
  header.ticks_per_second = ticks_per_second_;
  header.sharing = sharing_;
  header.committed = format::kHeaderSize;
  header.allocated = room;
  node.room_given = now_ns(CLOCK_MONOTONIC);
  header.packing = options_.compress;
  // Written, not stored through the mapping: the fault of a store reads ahead, which fills and clears up to MiBs of
  // pages that a child which soon ends never uses.
  if (pwrite(trace.get(), &header, sizeof header, 0) != sizeof header) return cannot_write(errno, path);
  void* mapped = mmap(nullptr, format::kHeaderSize, PROT_READ | PROT_WRITE, MAP_SHARED, trace.get(), 0);
  if (mapped == MAP_FAILED) return fail_errno(errno, "cannot map a trace header");
  node.header = static_cast<FileHeader*>(mapped);
  node.trace = std::move(trace);
  if (options_.compress) node.packed = packer_.add(file);
  return {};
}

Result<UniqueFd> Collector::add_node(const NodeOrigin& origin, uint32_t* id) {
  FRIDAY_TRY(node, create_node(origin));
  *id = node->id;
  return connect(*node);
}

// The end of the node's socket that its program gets.
Result<UniqueFd> Collector::connect(Node& node) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return fail_errno(errno, "socketpair failed");
  node.socket.reset(pair[0]);
  return UniqueFd(pair[1]);
}

void Collector::started(uint32_t id, pid_t pid) {
  for (Node* node : open_)
    if (node->id == id) {
      node->pid = pid;
      node->direct_child = true;
      write_description(*node);
    }
}

void Collector::ended(pid_t pid, int wait_status) {
  // Its last messages may tell of an exec: then there is another node of this pid.
  for (;;) {
    const auto found =
        std::ranges::find_if(open_, [pid](const Node* node) { return node->pid == pid && node->wait_status < 0; });
    if (found == open_.end()) return;
    Node& node = **found;
    node.wait_status = wait_status;
    if (!node.ended_ns) node.ended_ns = now_ns(CLOCK_MONOTONIC);
    const auto waiting = [&] { return recv(node.socket.get(), nullptr, 0, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC); };
    while (!node.hung_up && waiting() > 0) handle(node);
    node.hung_up |= !node.closed && waiting() == 0;
    // A child by vfork acts in its trace and may outlive it; it ends, or executes something, soon.
    node.direct_child = false;
    node.close_at = now_ns(CLOCK_MONOTONIC) + kLongestVforkNs;
    if (node.hung_up) close_node(node);
  }
}

std::vector<pid_t> Collector::live_pids() const {
  std::vector<pid_t> pids;
  for (const Node* node : open_)
    if (node->pid > 0 && node->wait_status < 0) pids.push_back(node->pid);
  return pids;
}

Result<void> Collector::serve(int timeout_ms, int extra_fd) {
  std::vector<pollfd> set;
  std::vector<Node*> owners, waiting;
  int64_t due = INT64_MAX;
  for (Node* node : open_) {
    if (!node->hung_up && node->socket) {
      set.push_back({node->socket.get(), POLLIN, 0});
      owners.push_back(node);
    }
    if (node->waits_for_room) waiting.push_back(node);
    for (const int64_t at : {node->describe_at, node->close_at})
      if (at) due = std::min(due, at);
  }
  if (extra_fd >= 0) set.push_back({extra_fd, POLLIN, 0});
  if (!waiting.empty()) set.push_back({packer_.wake_fd(), POLLIN, 0});
  set.push_back({outsiders_.wake_fd(), POLLIN, 0});
  if (due != INT64_MAX) {
    const int until = static_cast<int>(std::max<int64_t>(0, due - now_ns(CLOCK_MONOTONIC)) / 1000000) + 1;
    timeout_ms = timeout_ms < 0 ? until : std::min(timeout_ms, until);
  }
  int ready = poll(set.data(), set.size(), timeout_ms);
  if (ready < 0 && errno != EINTR) return fail_errno(errno, "poll failed");
  for (size_t i = 0; ready > 0 && i < owners.size(); i++)
    if (set[i].revents) handle(*owners[i]);
  if (!waiting.empty()) packer_.settled();
  for (Node* node : waiting)
    if (!node->closed) give_room(*node);
  if (due != INT64_MAX) do_due();
  if (ready > 0 && set.back().revents) tell_outsiders();
  return {};
}

void Collector::tell_outsiders() {
  const Outsiders::Found found = outsiders_.take();
  for (const auto& node : nodes_) {
    for (const Outsider& outsider : found.outsiders)
      if (outsider.sharers.contains(node->pid)) add_notice(*node, outsider.text);
    for (const KeptToken& kept : found.kept)
      if (kept.holder == node->pid && !node->closed && !(kept.runs && !node->shim_notice.empty())) {
        add_notice(*node, kept.text);
        news_.push_back(kept.text);
      }
  }
}

void Collector::add_notice(Node& node, const std::string& text) {
  node.outsiders_notice += (node.outsiders_notice.empty() ? "" : "; ") + text;
  if (!node.closed) describe_soon(node);
}

// What another process stored is not in the trace of the one that was written to.
void Collector::note_reached(const Node& by, pid_t pid) {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if ((*node)->pid != pid) continue;
    (*node)->outsiders_notice += fmt::format(
        "{}process {} has written into its memory (process_vm_writev): what it reads there from then on is not in the "
        "recording",
        (*node)->outsiders_notice.empty() ? "" : "; ", by.pid);
    write_description(**node);  // it may have ended already: of several sockets any is read first
    return;
  }
}

void Collector::handle(Node& node) {
  shim::Request request{};
  iovec data{&request, sizeof request};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = recvmsg(node.socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got != sizeof request) {  // the last holder of the other end is gone
    node.hung_up = true;
    if (!node.ended_ns) node.ended_ns = now_ns(CLOCK_MONOTONIC);
    if (!node.direct_child) close_node(node);
    return;
  }
  UniqueFd passed;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
      int fd;
      memcpy(&fd, CMSG_DATA(c), sizeof fd);
      passed.reset(fd);
    }
  switch (request.kind) {
    case shim::kHello: answer_hello(node, request); break;
    case shim::kModule: answer_module(node, request, passed.get()); break;
    case shim::kRoom: give_room(node); break;
    case shim::kFork: answer_fork(node); break;
    case shim::kSpawn: answer_spawn(node, request); break;
    case shim::kExecutes: note_execution(node, request); break;
    case shim::kNotExecuted: node.pid = 0; break;
    case shim::kForked:
      node.pid = request.detail;
      describe_soon(node);
      break;
    case shim::kReached: note_reached(node, request.detail); break;
    case shim::kNotice:
      node.shim_notice = bounded_text(request.text, sizeof request.text);
      news_.push_back(fmt::format("node {} {}: {}", node.id, node.origin.name, node.shim_notice));
      write_description(node);
      break;
    case shim::kEnding:
      node.end_reason = request.reason;
      node.end_detail = request.detail;
      node.end_text = bounded_text(request.text, sizeof request.text);
      if (node.end_text == shim::kNoAddresses)
        node.end_text = describe_refusal(Refusal::addresses, limit_of_addresses(node.pid ? node.pid : request.pid));
      if (options_.strict && request.reason != format::kEndExit) must_stop_ = true;
      break;
    default: break;
  }
}

namespace {
bool send_reply(int socket, const void* data, size_t size, const int* fds, unsigned fd_count) {
  iovec part{const_cast<void*>(data), size};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (fd_count) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(size);
}
}  // namespace

void Collector::answer_hello(Node& node, const shim::Request& request) {
  shim::HelloReply reply = machine_;
  Node* fresh = &node;
  if (node.hello) {
    // By the same process: another one that has got hold of this socket is none of the node's.
    fresh = node.pid == static_cast<pid_t>(request.pid) ? restart_after_exec(node) : nullptr;
    if (!fresh) {
      send_reply(node.socket.get(), &reply, sizeof reply, nullptr, 0);
      return;
    }
  }
  Node& now = *fresh;
  now.hello = true;
  now.executes.clear();
  if (now.pid == 0) now.pid = static_cast<pid_t>(request.pid);
  if (now.spawned) describe_process(now.pid, now.origin);
  now.header->pid = request.pid;
  reply.clock_kind = clock_kind_;
  reply.state_every = options_.state_every;
  if (options_.catch_all_only) reply.flags |= shim::kCatchAllOnly;
  int fds[2] = {now.trace.get(), tokens_.get()};
  send_reply(now.socket.get(), &reply, sizeof reply, fds, 2);
}

// The same process says hello again: it has executed another program. The old trace is complete; the new image is a
// node of its own, in the line of the old one. None if there is no room for its trace.
Collector::Node* Collector::restart_after_exec(Node& node) {
  NodeOrigin origin = node.origin;
  origin.name = fmt::format("{}/exec-1", node.origin.lineage.back());
  origin.lineage.push_back(origin.name);
  describe_process(node.pid, origin);
  auto fresh = create_node(origin, &node);
  if (!fresh) {
    leave_out(node, fresh.error());
    return nullptr;
  }
  (*fresh)->socket = std::move(node.socket);
  (*fresh)->pid = node.pid;
  (*fresh)->direct_child = node.direct_child;
  node.executes.clear();
  if (node.end_reason == 0) end_by_execution(node, origin.program);  // else its recording had ended before
  node.replaced = true;
  node.execution_problem
      .clear();  // it is recorded, though its file could not be looked at: a memfd, or one that was removed
  close_node(node);
  return *fresh;
}

// A program that takes a process's place is a node of its own, if the shim gets into it.
void Collector::note_execution(Node& node, const shim::Request& request) {
  node.executes.assign(request.text, strnlen(request.text, sizeof request.text));
  node.execution_event = request.offset;
  // Names are those in the process's own root.
  const std::string root = fmt::format("/proc/{}/root", node.pid);
  struct stat theirs, ours;
  const bool changed = stat(root.c_str(), &theirs) == 0 && stat("/", &ours) == 0 &&
                       (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev);
  auto possible = check_instrumentable(node.executes, {request.reason, changed ? root : "", request.detail != 0});
  node.execution_problem = possible ? "" : possible.error().message;
}

// The trace of a process that has executed another program gets its last record here: there was nobody left to write
// it.
void Collector::end_by_execution(Node& node, const std::string& text) {
  node.end_reason = format::kEndExec;
  node.end_text = text;
  const uint64_t end = node.header->committed;
  if (node.header->ended || end + sizeof(format::EndRecord) > node.header->allocated) return;
  format::EndRecord record{};
  record.header.size = sizeof record;
  record.header.type = format::kEndRecord;
  record.event = node.header->events;
  record.ticks = clock_kind_ == format::kClockTsc ? __rdtsc() : static_cast<uint64_t>(now_ns(CLOCK_MONOTONIC));
  record.reason = format::kEndExec;
  record.detail = node.end_detail;
  text.copy(record.text, sizeof record.text - 1);
  record.header.checksum = static_cast<uint32_t>(XXH3_64bits_withSeed(&record, sizeof record, end));
  if (pwrite(node.trace.get(), &record, sizeof record, static_cast<off_t>(end)) != sizeof record) return;
  __atomic_store_n(&node.header->committed, end + sizeof record, __ATOMIC_RELEASE);
  node.header->ended = 1;
}

// A process that `parent` makes gets no trace.
void Collector::leave_out(Node& parent, const Error& error) {
  if (left_out_++ == 0) left_out_because_ = error.message;
  if (!parent.children_notice.empty()) return;
  parent.children_notice = fmt::format("a process that it made is not recorded: {}", error.message);
  describe_soon(parent);
}

void Collector::answer_module(Node& node, const shim::Request& request, int fd) {
  UniqueFd opened;
  if (fd < 0) {
    std::string path(request.text, strnlen(request.text, sizeof request.text));
    opened.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st;
    // The name must still mean the file that is mapped.
    if (opened && (fstat(opened.get(), &st) != 0 || st.st_ino != request.inode)) opened.reset();
    fd = opened.get();
  }
  std::vector<char> bytes(sizeof(shim::ModuleReply));
  Result<const StoredFile*> file =
      fd >= 0 ? files_.add(fd, request.executable) : fail(ErrorCode::io, "it cannot be opened for reading");
  const std::string problem = file ? (*file)->problem : file.error().message;
  if (request.executable && !(file && (*file)->analysed) && !problem.empty() && node.module_notice.empty()) {
    node.module_notice = fmt::format("rdtsc, cpuid, rdrand and pause go unseen in {}: {}",
                                     bounded_text(request.text, sizeof request.text), problem);
    write_description(node);
  }
  if (file) {
    const auto& sites = (*file)->analysis.sites;
    const size_t count = request.executable ? sites.size() : 0;
    bytes.resize(sizeof(shim::ModuleReply) + count * sizeof(shim::Site));
    auto* reply = reinterpret_cast<shim::ModuleReply*>(bytes.data());
    memcpy(reply->file, (*file)->hash.data(), 16);
    reply->file_size = (*file)->size;
    reply->build_id_size = static_cast<uint32_t>((*file)->analysis.build_id.size());
    memcpy(reply->build_id, (*file)->analysis.build_id.data(), reply->build_id_size);
    reply->site_count = static_cast<uint32_t>(count);
    if (count) memcpy(bytes.data() + sizeof(shim::ModuleReply), sites.data(), count * sizeof(shim::Site));
  }
  send_reply(node.socket.get(), bytes.data(), bytes.size(), nullptr, 0);
}

void Collector::answer_fork(Node& node) {
  shim::ForkReply reply{};
  NodeOrigin origin = node.origin;
  origin.name = fmt::format("{}/child-{}", node.origin.lineage.back(), ++node.forked_children);
  origin.lineage.push_back(origin.name);
  auto child = create_node(origin, &node, true);
  auto theirs = child ? connect(**child) : std::unexpected(child.error());
  if (!theirs) {
    leave_out(node, theirs.error());
    send_reply(node.socket.get(), &reply, sizeof reply, nullptr, 0);
    return;
  }
  (*child)->hello = true;
  reply.ok = 1;
  memcpy(reply.node_uuid, (*child)->uuid, 16);
  int fds[2] = {(*child)->trace.get(), theirs->get()};
  send_reply(node.socket.get(), &reply, sizeof reply, fds, 2);
}

// A child by vfork, whose events are its parent's, becomes a node by the program that it executes.
void Collector::answer_spawn(Node& node, const shim::Request& request) {
  shim::ForkReply reply{};
  NodeOrigin origin = node.origin;
  origin.name = fmt::format("{}/child-{}", node.origin.lineage.back(), ++node.forked_children);
  origin.lineage.push_back(origin.name);
  origin.program.assign(request.text, strnlen(request.text, sizeof request.text));
  origin.arguments.clear();
  auto child = create_node(origin, &node);
  auto theirs = child ? connect(**child) : std::unexpected(child.error());
  if (!theirs) {
    leave_out(node, theirs.error());
    send_reply(node.socket.get(), &reply, sizeof reply, nullptr, 0);
    return;
  }
  (*child)->pid = static_cast<pid_t>(request.pid);
  (*child)->spawned = true;
  note_execution(**child, request);
  reply.ok = 1;
  memcpy(reply.node_uuid, (*child)->uuid, 16);
  int fd = theirs->get();
  send_reply(node.socket.get(), &reply, sizeof reply, &fd, 1);
}

// What --max-size still allows: bytes that the traces take on disk, room given ahead included.
uint64_t Collector::room_left() const {
  if (options_.max_size == 0) return UINT64_MAX;
  uint64_t used = 0;
  for (const auto& node : nodes_) {
    used += node->header ? node->header->allocated : node->bytes;
    if (node->packed) used += node->packed->stored - node->packed->removed;
  }
  return used < options_.max_size ? (options_.max_size - used) & ~uint64_t{4095} : 0;
}

// Writes zeros where the file has none of its pages in memory. To fill a program's page tables from such pages takes an
// eighth of the time, in which it holds its token, that the fault takes which makes them one by one. What is not
// reached in time is left to the fault.
static void fill(int file, uint64_t from, uint64_t size) {
  constexpr int64_t kLongestNs = 10'000'000;  // others wait for the collector meanwhile
  static const char zeros[1 << 18] = {};
  const int64_t begun = now_ns(CLOCK_MONOTONIC);
  for (const uint64_t end = from + size; from < end && now_ns(CLOCK_MONOTONIC) - begun < kLongestNs;) {
    const ssize_t n = pwrite(file, zeros, std::min<uint64_t>(sizeof zeros, end - from), static_cast<off_t>(from));
    if (n <= 0) return;
    from += static_cast<uint64_t>(n);
  }
}

void Collector::give_room(Node& node) {
  node.waits_for_room = false;
  if (!node.header || node.header->closed) return;
  if (node.packed)
    packer_.left(*node.packed, node.trace.get(), __atomic_load_n(&node.header->committed, __ATOMIC_ACQUIRE));
  const uint64_t now = node.header->allocated;
  const uint64_t left = room_left();
  const uint64_t more = left < kLeastRoom ? 0 : std::min(kRoom, left);
  const int error =
      more == 0 ? EFBIG : posix_fallocate(node.trace.get(), static_cast<off_t>(now), static_cast<off_t>(more));
  if (error && packer_.busy()) {  // what it takes out of the traces may do
    node.waits_for_room = true;
    return;
  }
  if (error) {
    node.header->closed = error == EFBIG                       ? format::kEndSizeLimit
                          : error == ENOSPC || error == EDQUOT ? format::kEndDiskFull
                                                               : format::kEndRefused;
  } else {
    const int64_t time = now_ns(CLOCK_MONOTONIC);
    if (time - std::exchange(node.room_given, time) < kSoonUsedNs && node.wait_status < 0)
      fill(node.trace.get(), now, more);
    __atomic_store_n(&node.header->allocated, now + more, __ATOMIC_RELEASE);
  }
  wake(&node.header->room);
}

void Collector::close_node(Node& node) {
  if (node.closed) return;
  node.closed = true;
  std::erase(open_, &node);
  if (node.header) {
    // Its last event is the entry of a successful execve, and nobody has spoken for the new program.
    const bool executed =
        !node.executes.empty() && node.pid && node.end_reason == 0 && node.header->events == node.execution_event;
    if (executed && node.execution_problem.empty())
      node.execution_problem = fmt::format("{} was executed, and did not load the shim", node.executes);
    if (executed) node.end_detail = 1, end_by_execution(node, node.executes);
    uint64_t end = node.header->committed;
    const bool nothing = node.header->events == 0 && node.pid == 0;
    // A process that still lives goes on storing: it would lose what it stores behind the end of the file, and its
    // life.
    const bool gone = node.hung_up || node.replaced || nothing;
    if (!gone) __atomic_store_n(&node.header->closed, uint32_t{format::kEndStopped}, __ATOMIC_RELEASE);
    const int own_death = static_cast<int>(node.header->dies_of);  // where only somebody else's parent is told
    if (node.hung_up && !node.header->ended && node.wait_status < 0 && own_death > 0 && own_death <= SIGRTMAX)
      node.wait_status = W_EXITCODE(0, own_death);
    node.events = node.header->events;
    node.bytes = gone ? end : node.header->allocated;
    const bool pack = gone && node.packed && end >= format::kHeaderSize + kPackBlock;
    if (gone && ftruncate(node.trace.get(), static_cast<off_t>(end)) != 0)
      node.end_text += " (the trace could not be trimmed)";
    if (gone && !(pack && packer_.ended(*node.packed, node.trace.get(), end))) {
      node.header->packing = 0;
      seal_header(std::as_writable_bytes(std::span(reinterpret_cast<char*>(node.header), format::kHeaderSize)));
    }
    munmap(node.header, format::kHeaderSize);
    node.header = nullptr;
    if (nothing) {  // a child that was announced and never forked
      for (const char* name : {"trace", "node.json"}) remove_beneath(node.directory.below(name));
      remove_beneath(node.directory);
      node.dropped = true;
      node.bytes = 0;
      return;
    }
    if (gone) node.trace.reset();
  }
  write_description(node);
  node.socket.reset();
}

void Collector::finish(bool hurry) {
  tell_outsiders();
  for (size_t i = 0; i < nodes_.size(); i++) close_node(*nodes_[i]);
  UniqueFd directory(open(options_.recording.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory && tokens_ && flock(directory.get(), LOCK_EX) == 0 && flock(tokens_.get(), LOCK_EX | LOCK_NB) == 0)
    remove_beneath({options_.recording, "tokens"});
  tokens_.reset();
  packer_.finish(hurry);
}

namespace {
nlohmann::json ending(int wait_status, bool closed, uint32_t reason, int detail) {
  if (wait_status >= 0 && WIFEXITED(wait_status)) return {{"how", "exit"}, {"detail", WEXITSTATUS(wait_status)}};
  if (wait_status >= 0 && WIFSIGNALED(wait_status)) return {{"how", "signal"}, {"detail", WTERMSIG(wait_status)}};
  if (reason == format::kEndExit) return {{"how", "exit"}, {"detail", detail & 0xff}};  // as wait(2) tells it
  if (reason == format::kEndExec) return {{"how", "exec"}, {"detail", 0}};
  return {{"how", closed ? "unknown" : "running"}, {"detail", 0}};
}
}  // namespace

void Collector::describe_soon(Node& node) {
  if (!node.describe_at) node.describe_at = now_ns(CLOCK_MONOTONIC) + kDescribeAfterNs;
}

void Collector::do_due() {
  const int64_t now = now_ns(CLOCK_MONOTONIC);
  const std::vector<Node*> open = open_;
  for (Node* node : open) {
    if (node->close_at && node->close_at <= now) close_node(*node);
    else if (node->describe_at && node->describe_at <= now) write_description(*node);
  }
}

void Collector::write_description(Node& node) {
  node.describe_at = 0;
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  nlohmann::json d = {
      {"id", node.id},
      {"name", node.origin.name},
      {"uuid", hex_of(node.uuid, 16)},
      {"parent_uuid", hex_of(node.parent_uuid, 16)},
      {"lineage", node.origin.lineage},
      {"program", node.origin.program},
      {"argv", node.origin.arguments},
      {"cwd", node.origin.cwd},
      {"host", host},
      {"boot_id", boot_id_.substr(0, boot_id_.find('\n'))},
      {"pid", node.pid},
      {"recorder", {{"pid", getpid()}, {"start", process_start(getpid())}}},
      {"started_ns", node.started_ns},
      {"ended_ns", node.ended_ns},
      {"strict", options_.strict},
      {"ended", ending(node.wait_status, node.closed, node.end_reason, node.end_detail)},
      {"recording_end",
       {{"reason", node.end_reason},
        {"detail", node.end_detail},
        {"text", node.end_reason == format::kEndExec && !node.execution_problem.empty() ? node.execution_problem
                                                                                        : node.end_text}}},
      {"instrumented", node.hello},
      {"notice", node.notice()}};
  // A description that cannot be written costs names, no events: readers derive the rest from the trace.
  (void)write_beneath(node.directory.below("node.json"),
                      d.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

std::vector<std::string> Collector::notices() const {
  std::vector<std::string> all = notices_;
  all.insert(all.end(), packer_.notices().begin(), packer_.notices().end());
  return all;
}

std::vector<NodeSummary> Collector::summaries() const {
  std::vector<NodeSummary> list;
  for (const auto& node : nodes_) {
    if (node->dropped) continue;
    NodeSummary s;
    s.id = node->id;
    s.name = node->origin.name;
    s.events = node->events;
    s.bytes = node->bytes;
    if (node->packed && node->packed->stored) s.stored = node->bytes - node->packed->removed + node->packed->stored;
    if (!node->execution_problem.empty() && node->end_reason == format::kEndExec) {
      s.ended = (node->hello ? "recording ended by execve: " : "never recorded: ") + node->execution_problem;
      s.complete = false;
    } else if (!node->hello) {
      s.ended = "never recorded: the program did not load the shim";
      s.complete = false;
    } else if (node->end_reason == format::kEndUnhandled) {
      s.ended = ended_at_call_text(static_cast<unsigned>(node->end_detail), node->end_text);
      s.complete = false;
    } else if (node->end_reason == format::kEndDiskFull) {
      s.ended = "recording ended: the disk is full; the program went on";
      s.complete = false;
    } else if (node->end_reason == format::kEndSizeLimit) {
      s.ended = fmt::format("recording ended: {}; the program went on",
                            options_.max_size ? "the recording has the size that --max-size allows"
                                              : "the file has the size that the limit of files (ulimit -f) allows");
      s.complete = false;
    } else if (node->end_reason == format::kEndRefused) {
      s.ended = "recording ended: " + node->end_text;
      s.complete = false;
    } else {
      auto how = ending(node->wait_status, node->closed, node->end_reason, node->end_detail);
      s.ended = how["how"] == "exec" ? "replaced by exec"
                                     : fmt::format("{} {}", how["how"].get<std::string>(), how["detail"].get<int>());
      // Of a forked process only its parent is told.
      if (how["how"] == "unknown") s.ended = node->hung_up ? "killed, or ended without a word" : "it still runs";
    }
    if (auto notice = node->notice(); !notice.empty()) s.ended += "; " + notice, s.complete = false;
    list.push_back(std::move(s));
  }
  return list;
}

}  // namespace friday
