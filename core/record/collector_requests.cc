// Serves the requests that the shims of recorded processes send over their sockets (Request in shim_abi.h): the hello
// of a program that starts, the analysis of a mapped file's code, a trace for a child, an announced execve, more room.
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/record/collector_node.h"
#include "core/record/instrumentable.h"
#include "core/shim/chaos_draw.h"

namespace friday {

namespace {

std::string limit_of_addresses(pid_t pid) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_AS, nullptr, &limit) != 0)
    getrlimit(RLIMIT_AS, &limit);  // the process has ended; most processes have the same limit as this one
  if (limit.rlim_cur == RLIM_INFINITY) return "they are taken, or the system has no memory for more";
  return fmt::format("ulimit -v is {}", limit.rlim_cur >> 10);
}

// Describes a process that has just executed a program, from /proc and its hello.
void describe_process(const shim::Request& hello, pid_t pid, NodeOrigin& origin) {
  char exe[PATH_MAX];
  ssize_t n = readlink(fmt::format("/proc/{}/exe", pid).c_str(), exe, sizeof exe);
  if (n > 0) origin.program.assign(exe, static_cast<size_t>(n));
  if (hello.text[0]) origin.program = bounded_text(hello.text, sizeof hello.text);
  auto line = read_file(fmt::format("/proc/{}/cmdline", pid));
  if (!line || line->empty()) return;
  origin.arguments.clear();
  for (size_t from = 0; from < line->size();) {
    const size_t to = std::min(line->find('\0', from), line->size());
    origin.arguments.push_back(line->substr(from, to - from));
    from = to + 1;
  }
}

}  // namespace

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

// Notes that `by` has written into the memory of process `pid`: the written process's trace does not contain those
// bytes.
void Collector::note_reached(const Node& by, pid_t pid) {
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if ((*node)->pid != pid) continue;
    (*node)->outsiders_notice += fmt::format(
        "{}process {} has written into its memory (process_vm_writev): what it reads there from then on is not in the "
        "recording",
        (*node)->outsiders_notice.empty() ? "" : "; ", by.pid);
    write_description(**node);  // at once, because the node may be closed soon: sockets are read in any order
    return;
  }
}

static const char* name_of_request(uint32_t kind) {
  switch (kind) {
    case shim::kHello: return "hello";
    case shim::kModule: return "module";
    case shim::kRoom: return "room";
    case shim::kFork: return "fork";
    case shim::kForked: return "forked";
    case shim::kEnding: return "ending";
    case shim::kSpawn: return "spawn";
    case shim::kExecutes: return "executes";
    case shim::kNotExecuted: return "not executed";
    case shim::kReached: return "reached";
    case shim::kNotice: return "notice";
    case shim::kPart: return "part";
    case shim::kParted: return "parted";
    case shim::kImageRoom: return "room for an image";
    case shim::kShares: return "shares";
    case shim::kHalted: return "halted";
    case shim::kToSend: return "to send";
    case shim::kHandled: return "handled";
    case shim::kLetGo: return "let go";
    default: return "unknown";
  }
}

void Collector::handle(Node& node) {
  shim::Request request{};
  held_bytes_.resize(shaper_ || options_.live_order ? shim::kMostHeldBytes : 0);
  iovec data[] = {{&request, sizeof request}, {held_bytes_.data(), held_bytes_.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = data;
  message.msg_iovlen = 2;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t got = recvmsg(node.socket.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < static_cast<ssize_t>(sizeof request)) {  // the last holder of the other end is gone
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
  FRIDAY_LOG(record, debug, "node {} asks: {}", node.id, name_of_request(request.kind));
  switch (request.kind) {
    case shim::kHello: answer_hello(node, request); break;
    case shim::kModule: answer_module(node, request, passed.get()); break;
    case shim::kRoom: give_room(node); break;
    case shim::kFork: answer_fork(node); break;
    case shim::kSpawn: answer_spawn(node, request); break;
    case shim::kExecutes: note_execution(node, request); break;
    case shim::kNotExecuted: node.pid = 0; break;
    case shim::kPart: answer_part(node, request); break;
    case shim::kParted: go_on_in_part(node, std::move(passed)); break;
    case shim::kImageRoom: make_room_ahead(node, request.events); break;
    case shim::kShares: note_shares(node); break;
    case shim::kHalted: note_halted(node); break;
    case shim::kToSend:
      if (shaper_)
        shaper_->take(node.origin.name, request,
                      std::span(held_bytes_).first(static_cast<size_t>(got) - sizeof request), std::move(passed));
      break;
    case shim::kHandled:
      if (shaper_) shaper_->told(request.inode);
      break;
    case shim::kLetGo:
      if (shaper_) shaper_->let_go(node.origin.name, request);
      break;
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

void Collector::answer_hello(Node& node, const shim::Request& request) {
  shim::HelloReply reply = machine_;
  Node* fresh = &node;
  if (node.hello) {
    // Accept this only from the same process; another process that has obtained this socket is not part of the node.
    fresh = node.pid == static_cast<pid_t>(request.pid) ? restart_after_exec(node, request) : nullptr;
    if (!fresh) {
      send_reply(node.socket.get(), &reply, sizeof reply, nullptr, 0);
      return;
    }
  }
  Node& now = *fresh;
  now.hello = true;
  now.executes.clear();
  if (now.pid == 0) now.pid = static_cast<pid_t>(request.pid);
  if (now.spawned) describe_process(request, now.pid, now.origin);
  now.header->pid = request.pid;
  reply.clock_kind = clock_kind_;
  reply.state_every = options_.state_every;
  constexpr uint64_t kMiB = 1 << 20;
  constexpr int64_t kMs = 1'000'000, kOften = 250 * kMs, kRarely = 60'000 * kMs, kUsual = 2'000 * kMs;
  const int64_t look = options_.keep_ns ? std::clamp(options_.keep_ns / 8, kOften, kRarely) : kUsual;
  if (keeps_last()) reply.look_for_part_ms = static_cast<uint32_t>(look / kMs);
  if (options_.standby) reply.look_for_part_ms = static_cast<uint32_t>(kOften / kMs);
  reply.output_mib = static_cast<uint32_t>(std::min<uint64_t>((options_.output + kMiB - 1) / kMiB, UINT32_MAX));
  reply.chaos_key = chaos_key_of(now);
  if (options_.catch_all_only) reply.flags |= shim::kCatchAllOnly;
  int fds[2] = {now.trace.get(), tokens_.get()};
  if (options_.standby) tell_wanted(now);
  send_reply(now.socket.get(), &reply, sizeof reply, fds, 2);
}

// The process has executed another program and says hello again. The old trace is complete; the new program becomes a
// node of its own, with the old one as its ancestor. Returns null if there is no room for its trace.
Collector::Node* Collector::restart_after_exec(Node& node, const shim::Request& hello) {
  NodeOrigin origin = node.origin;
  origin.name = fmt::format("{}/exec-1", node.origin.lineage.back());
  origin.lineage.push_back(origin.name);
  describe_process(hello, node.pid, origin);
  auto fresh = create_program(origin, &node);
  if (!fresh) {
    leave_out(node, fresh.error());
    return nullptr;
  }
  (*fresh)->socket = std::move(node.socket);
  (*fresh)->pid = node.pid;
  (*fresh)->direct_child = node.direct_child;
  node.executes.clear();
  if (node.end_reason == 0) end_by_execution(node, origin.program);  // otherwise its recording had ended before
  node.replaced = true;
  if (!node.ended_ns) node.ended_ns = now_ns(CLOCK_MONOTONIC);
  node.execution_problem
      .clear();  // it is recorded, though its file could not be looked at: a memfd, or one that was removed
  close_node(node);
  remove_from_standby(node);
  return *fresh;
}

// The process announces an execve. The new program becomes a node of its own if the shim can be loaded into it.
void Collector::note_execution(Node& node, const shim::Request& request) {
  node.executes.assign(request.text, strnlen(request.text, sizeof request.text));
  node.execution_event = request.events;
  // The path is relative to the process's own root directory.
  const std::string root = fmt::format("/proc/{}/root", node.pid);
  struct stat theirs, ours;
  const bool changed = stat(root.c_str(), &theirs) == 0 && stat("/", &ours) == 0 &&
                       (theirs.st_ino != ours.st_ino || theirs.st_dev != ours.st_dev);
  auto possible = check_instrumentable(node.executes, {request.reason, changed ? root : "", request.detail != 0});
  node.execution_problem = possible ? "" : possible.error().message;
}

// Notes that a process created by `parent` gets no trace.
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
    // Check that the path still leads to the file that is mapped.
    if (opened && (fstat(opened.get(), &st) != 0 || st.st_ino != request.inode)) opened.reset();
    fd = opened.get();
  }
  std::vector<char> bytes(sizeof(shim::ModuleReply));
  Result<const StoredFile*> file = fd >= 0 ? files_.add(fd, request.executable, request.mapped_writable)
                                           : fail(ErrorCode::io, "it cannot be opened for reading");
  const std::string problem = file ? (*file)->problem : file.error().message;
  if (request.executable && !(file && (*file)->analysed) && !problem.empty() && node.module_notice.empty()) {
    node.module_notice = fmt::format("rdtsc, cpuid, rdrand and pause are not recorded in {}: {}",
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
    reply->settled = (*file)->settled;
    reply->build_id_size = static_cast<uint32_t>((*file)->analysis.build_id.size());
    memcpy(reply->build_id, (*file)->analysis.build_id.data(), reply->build_id_size);
    reply->site_count = static_cast<uint32_t>(count);
    if (count) memcpy(bytes.data() + sizeof(shim::ModuleReply), sites.data(), count * sizeof(shim::Site));
  }
  send_reply(node.socket.get(), bytes.data(), bytes.size(), nullptr, 0);
}

// The key with which the shim draws what it does to the node's calls; 0: nothing. It depends on names only, because ids
// and process ids differ from run to run.
uint64_t Collector::chaos_key_of(const Node& node) const {
  if (!options_.chaos) return 0;
  std::string names;
  for (const std::string& name : node.origin.lineage) names += name + '\n';
  return shim::chaos_key_of(*options_.chaos, names.data(), names.size());
}

void Collector::answer_fork(Node& node) {
  shim::ForkReply reply{};
  NodeOrigin origin = node.origin;
  origin.name = fmt::format("{}/child-{}", node.origin.lineage.back(), ++node.forked_children);
  origin.lineage.push_back(origin.name);
  auto child = node.on_standby ? create_node(origin, nullptr, Begins::on_standby, false)
                               : create_node(origin, &node, Begins::forked, node.schedule);
  if (child && options_.standby) tell_wanted(**child);
  auto theirs = child ? connect(**child) : std::unexpected(child.error());
  if (!theirs) {
    leave_out(node, theirs.error());
    send_reply(node.socket.get(), &reply, sizeof reply, nullptr, 0);
    return;
  }
  (*child)->hello = true;
  reply.ok = 1;
  reply.chaos_key = chaos_key_of(**child);
  memcpy(reply.node_uuid, (*child)->uuid, 16);
  int fds[2] = {(*child)->trace.get(), theirs->get()};
  send_reply(node.socket.get(), &reply, sizeof reply, fds, 2);
}

void Collector::answer_part(Node& node, const shim::Request& request) {
  shim::ForkReply reply{};
  const auto next = next_part(node, request);
  if (!next && node.ended_in_cut) {
    note_left_behind(node);
    node.ended_in_cut = 0;
    tell_wanted(node);
  }
  if (!next) leave_out(node, next.error());
  else memcpy(reply.node_uuid, (*next)->uuid, 16);
  reply.ok = next.has_value();
  const int fd = next ? (*next)->trace.get() : -1;
  send_reply(node.socket.get(), &reply, sizeof reply, &fd, next ? 1 : 0);
}

// A vfork child, whose events belong to its parent's trace, becomes a node when it executes a program.
void Collector::answer_spawn(Node& node, const shim::Request& request) {
  shim::ForkReply reply{};
  NodeOrigin origin = node.origin;
  origin.name = fmt::format("{}/child-{}", node.origin.lineage.back(), ++node.forked_children);
  origin.lineage.push_back(origin.name);
  origin.program.assign(request.text, strnlen(request.text, sizeof request.text));
  origin.arguments.clear();
  auto child = create_program(origin, &node);
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

}  // namespace friday
