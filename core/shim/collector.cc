// The requests to the collector, over the inherited socket. They are rare (at the start, for mapped files, forks and
// room in the trace) and not made for ordinary calls. The program cannot see or close the descriptor.
#include <linux/fcntl.h>
#include <linux/resource.h>

#include "core/shim/collector.h"
#include "core/shim/kernel_structs.h"
#include "core/shim/process.h"
#include "core/shim/trace.h"

namespace friday::shim {

namespace {

int collector_socket = -1;

alignas(16) char reply_buffer[sizeof(ModuleReply) + kMaxSites * sizeof(Site)];

// A control message with descriptors (cmsg(3), SCM_RIGHTS in unix(7)).
struct Rights {
  size_t length;  // of the header and the descriptors
  int level, type;
  int fds[2];
};
constexpr int kSolSocket = 1, kScmRights = 1;
constexpr size_t kRightsHeader = 16;                               // sizeof(struct cmsghdr)
constexpr uint32_t kNoSignal = 0x4000, kCloseOnExec = 0x40000000;  // MSG_NOSIGNAL, MSG_CMSG_CLOEXEC

MsgHeader message_of(const IoVec& data, Rights* rights, uint64_t count = 1) {
  MsgHeader message = {};
  message.iov = (uint64_t)&data;
  message.iov_count = count;
  message.control = (uint64_t)rights;
  message.control_length = rights ? sizeof *rights : 0;
  return message;
}

// `bytes`: what follows the request.
bool send_request(const Request& request, int fd, const char* bytes = nullptr, uint64_t size = 0) {
  const IoVec data[2] = {{(uint64_t)&request, sizeof request}, {(uint64_t)bytes, size}};
  Rights rights = {kRightsHeader + sizeof fd, kSolSocket, kScmRights, {fd, 0}};
  const MsgHeader message = message_of(data[0], fd >= 0 ? &rights : nullptr, size ? 2 : 1);
  long sent;
  do sent = native(sys::sendmsg, own_socket(), &message, kNoSignal);
  while (sent == -EINTR);
  return sent == (long)(sizeof request + size);
}

// Raises the limit of open files as long as this object exists, so that descriptors can be received although the
// program has lowered the limit or uses all descriptors. Beyond the hard limit only root can do that.
struct RoomForDescriptors {
  uint64_t limit[2] = {0, 0};
  bool raised = false;
  RoomForDescriptors() {
    constexpr uint64_t kMore = 16;
    if (failed(native(sys::getrlimit, RLIMIT_NOFILE, limit))) return;
    const uint64_t soft[2] = {min(limit[0] + kMore, limit[1]), limit[1]},
                   hard[2] = {limit[0] + kMore, limit[1] + kMore};
    raised = limit[0] < limit[1] ? !failed(native(sys::setrlimit, RLIMIT_NOFILE, soft))
                                 : !failed(native(sys::setrlimit, RLIMIT_NOFILE, hard));
  }
  ~RoomForDescriptors() {
    if (raised) native(sys::setrlimit, RLIMIT_NOFILE, limit);
  }
};

long receive(void* buffer, size_t size, int* fds) {
  const IoVec data = {(uint64_t)buffer, size};
  Rights rights = {};
  MsgHeader message = message_of(data, &rights);
  long got;
  do {
    message.control_length = sizeof rights;
    got = native(sys::recvmsg, own_socket(), &message, kCloseOnExec);
  } while (got == -EINTR);
  const bool any = message.control_length >= kRightsHeader + sizeof(int);
  const unsigned count = any ? (unsigned)((rights.length - kRightsHeader) / sizeof(int)) : 0;
  for (unsigned i = 0; i < 2; i++) {
    if (fds) fds[i] = i < count ? rights.fds[i] : -1;
    else if (i < count) native(sys::close, rights.fds[i]);
  }
  return got;
}

}  // namespace

int& own_socket() { return control.magic /* %gs is set */ && me()->borrowed ? vfork_socket(me()) : collector_socket; }

bool collector_owns(int fd) { return fd == own_socket() && fd >= 0; }

void collector_move() {
  int& socket = own_socket();
  long moved = native(sys::fcntl, socket, F_DUPFD, socket + 1);
  if (failed(moved)) moved = native(sys::fcntl, socket, F_DUPFD, 3);
  if (failed(moved)) return;
  native(sys::close, socket);
  socket = (int)moved;
}

// The socket gets the number of its parent's, which is out of the program's way, unless a limit is lower by now.
void collector_adopt(int socket) {
  if (failed(native(sys::dup2, socket, own_socket()))) {
    native(sys::close, own_socket());
    own_socket() = socket;
  } else {
    native(sys::close, socket);
  }
}

bool collector_hello(int socket, HelloReply* reply, int* trace_fd, int* tokens_fd) {
  collector_socket = socket;
  Request request = {};
  request.kind = kHello;
  memcpy(request.text, loaded_program, min(length_of(loaded_program), sizeof request.text - 1));
  request.pid = (uint32_t)native(sys::getpid);
  int fds[2];
  if (!send_request(request, -1) || receive(reply, sizeof *reply, fds) != sizeof *reply) return false;
  *trace_fd = fds[0];
  *tokens_fd = fds[1];
  return fds[0] >= 0 && fds[1] >= 0;
}

bool collector_module(const ModuleQuestion& question, ModuleReply** reply) {
  Request request = {};
  request.kind = kModule;
  request.executable = question.executable;
  request.mapped_writable = question.mapped_writable;
  request.inode = question.inode;
  memcpy(request.text, question.path, min(length_of(question.path), sizeof request.text - 1));
  if (!send_request(request, question.fd)) return false;
  long got = receive(reply_buffer, sizeof reply_buffer, nullptr);
  ModuleReply* answer = (ModuleReply*)reply_buffer;
  if (got < (long)sizeof(ModuleReply) || got < (long)(sizeof(ModuleReply) + answer->site_count * sizeof(Site)))
    return false;
  *reply = answer;
  return true;
}

bool collector_fork(ForkReply* reply, int* trace_fd, int* socket_fd) {
  RoomForDescriptors room;
  Request request = {};
  request.kind = kFork;
  int fds[2] = {-1, -1};
  if (!send_request(request, -1) || receive(reply, sizeof *reply, fds) != sizeof *reply || !reply->ok) return false;
  *trace_fd = fds[0];
  *socket_fd = fds[1];
  return fds[0] >= 0 && fds[1] >= 0;
}

void collector_image_room(uint64_t bytes) {
  Request request = {};
  request.kind = kImageRoom;
  request.events = bytes;
  send_request(request, -1);
}

bool collector_part(uint64_t image_bytes, PartFor what, int* trace_fd) {
  RoomForDescriptors room;
  Request request = {};
  request.kind = kPart;
  request.events = image_bytes;
  request.detail = (int32_t)what;
  request.pid = (uint32_t)native(sys::getpid);
  ForkReply reply = {};
  int fds[2] = {-1, -1};
  if (!send_request(request, -1) || receive(&reply, sizeof reply, fds) != sizeof reply || !reply.ok) return false;
  *trace_fd = fds[0];
  return fds[0] >= 0;
}

void collector_parted(int image_fd) {
  Request request = {};
  request.kind = kParted;
  send_request(request, image_fd);
}

bool collector_halted(CutReply* reply) {
  reply->ok = reply->count = 0;
  Request request = {};
  request.kind = kHalted;
  if (!send_request(request, -1)) return false;
  constexpr size_t kHead = __builtin_offsetof(CutReply, objects);
  const long got = receive(reply, sizeof *reply, nullptr);
  const bool whole = got >= (long)kHead && reply->count <= kMostObjectsBefore &&
                     got == (long)(kHead + reply->count * sizeof(ObjectBefore));
  if (!whole || !reply->ok) reply->ok = reply->count = 0;
  return reply->ok;
}

// Tells the user id with which the program will run, and whether its loader will ignore LD_PRELOAD (AT_SECURE,
// ld.so(8)).
static void add_executor(Request& request) {
  request.reason = (uint32_t)native(sys::geteuid);
  request.detail = native(sys::getuid) != native(sys::geteuid) || native(sys::getgid) != native(sys::getegid);
}

bool collector_spawn(const char* path, ForkReply* reply, int* socket_fd) {
  RoomForDescriptors room;
  Request request = {};
  request.kind = kSpawn;
  add_executor(request);
  request.pid = (uint32_t)native(sys::getpid);
  memcpy(request.text, path, min(length_of(path), sizeof request.text - 1));
  int fds[2] = {-1, -1};
  if (!send_request(request, -1) || receive(reply, sizeof *reply, fds) != sizeof *reply || !reply->ok) return false;
  *socket_fd = fds[0];
  return fds[0] >= 0;
}

void collector_executes(const char* path) {
  Request request = {};
  request.kind = kExecutes;
  add_executor(request);
  request.pid = (uint32_t)native(sys::getpid);
  request.events = trace_header()->events;
  memcpy(request.text, path, min(length_of(path), sizeof request.text - 1));
  send_request(request, -1);
}

bool collector_send(RequestKind kind, uint32_t reason, int detail, const char* text, uint64_t inode) {
  Request request = {};
  request.kind = kind;
  request.reason = reason;
  request.detail = detail;
  request.pid = (uint32_t)native(sys::getpid);
  request.inode = inode;
  if (text) memcpy(request.text, text, min(length_of(text), sizeof request.text - 1));
  return send_request(request, -1);
}

bool collector_hold(const HeldMessage& held) {
  Request request = {};
  request.kind = kToSend;
  request.pid = (uint32_t)native(sys::getpid);
  request.reason = held.flags;
  request.inode = held.inode;
  request.events = held.sent;
  request.length = held.length;
  request.detail = (int32_t)held.address_length;
  memcpy(request.text, held.address, held.address_length);
  return send_request(request, held.fd, held.bytes, held.size);
}

void collector_notice(const char* text, const char* about) {
  char whole[sizeof Request::text] = {};
  const size_t length = min(length_of(text), sizeof whole - 1);
  memcpy(whole, text, length);
  memcpy(whole + length, about, min(length_of(about), sizeof whole - 1 - length));
  collector_send(kNotice, 0, 0, whole);
}

}  // namespace friday::shim
