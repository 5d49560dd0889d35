// execve(2). The new program must load the shim, whatever environment it is given, and the collector must know what
// became of the process if it does not.
//
// The call's entry is an event of its own, because nothing can be written after a successful call. The next event is
// the call's return, if it has failed; the parent's return from vfork(2), if a vfork child has made the call; otherwise
// there is none.
#include <linux/fcntl.h>
#include <linux/ptrace.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/loader.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"
#include "core/shim/replay.h"
#include "core/shim/signals.h"
#include "core/shim/token.h"
#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

namespace {

char* socket_entry;            // "FRIDAY_SOCKET=..." in the environment with which this program was executed
char inherited_preload[1024];  // "LD_PRELOAD=.../friday-shim.so:..." in that environment

// The entries of the new program's environment that Friday adds or changes.
struct Entries {
  char preload[4096], tunables[1024], socket[80], program[4200];
};

bool names(const char* entry, const char* name) {
  const size_t n = length_of(name);
  for (size_t i = 0; i < n; i++)
    if (entry[i] != name[i]) return false;
  return entry[n] == '=';
}

bool contains(const char* text, const char* part) {
  const size_t n = length_of(part);
  for (; *text; text++) {
    size_t i = 0;
    while (i < n && text[i] == part[i]) i++;
    if (i == n) return true;
  }
  return false;
}

// Appends text to a buffer, as long as there is room.
struct Text {
  char* out;
  size_t room;
  bool fits = true;
  Text& add(const char* text, size_t n) {
    if (n >= room) {
      fits = false;
      return *this;
    }
    memcpy(out, text, n);
    out += n, room -= n;
    *out = 0;
    return *this;
  }
  Text& add(const char* text) { return add(text, length_of(text)); }
  Text& add(uint64_t number) {
    char digits[20];
    unsigned at = sizeof digits;
    do digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    return add(digits + at, sizeof digits - at);
  }
};

// Keeps glibc from using rseq(2), with which the kernel writes to the program's memory at moments that no call shows.
constexpr const char kTunable[] = "glibc.pthread.rseq=0";

// Makes the entries. `preload`, `tunables`: those of the environment that the program passes, null if it has none;
// `limit`: from limits_asked(), or null. False: they do not fit.
bool make_entries(Entries& entries, const char* preload, const char* tunables, const uint64_t* limit) {
  // The shim is the first library of the inherited list.
  size_t shim = 0;
  while (inherited_preload[shim] && inherited_preload[shim] != ':') shim++;
  Text first{entries.preload, sizeof entries.preload};
  if (!preload) first.add(inherited_preload);
  else if (contains(preload, "/friday-shim.so")) first.add(preload);
  else first.add(inherited_preload, shim).add(preload[11] ? ":" : "").add(preload + 11 /* LD_PRELOAD= */);
  Text second{entries.tunables, sizeof entries.tunables};
  second.add(tunables ? tunables : "GLIBC_TUNABLES=");
  if (!contains(entries.tunables, kTunable)) second.add(entries.tunables[15] ? ":" : "").add(kTunable);
  Text third{entries.socket, sizeof entries.socket};
  third.add(kSocketVariable).add("=").add((unsigned)own_socket());
  if (limit) third.add(",").add(limit[0]).add(",").add(limit[1]);
  return first.fits && second.fits && third.fits;
}

// The path of the shim. Empty: it cannot be executed here, because the process has another root directory for instance.
void find_shim(char* out, size_t size) {
  constexpr long kExecutable = 1;  // X_OK
  constexpr size_t kName = sizeof "LD_PRELOAD=" - 1;
  size_t end = kName;
  while (inherited_preload[end] && inherited_preload[end] != ':') end++;
  Text text{out, size};
  text.add(inherited_preload + kName, end - kName);
  if (failed(native(sys::faccessat, AT_FDCWD, out, kExecutable))) out[0] = 0;
}

// Makes the variable that tells the loader what to load. False: it does not fit.
bool describe_program(Entries& entries, long call, const uint64_t* a, int fd) {
  Text text{entries.program, sizeof entries.program};
  text.add(kProgramVariable).add("=").add((unsigned)fd).add(":");
  const char* path = (const char*)(call == sys::execve ? a[0] : a[1]);
  if (call == sys::execveat && !path[0]) text.add("/dev/fd/").add((unsigned)a[0]);
  else text.add(path);
  return text.fits;
}

// Executes the program or, if it is statically linked, the shim, which then loads it. `environment` is the one of the
// arguments `a`, with room for another entry; `count`: of the words, which can be read.
long exec_program(long call, const uint64_t* a, Entries& entries, char** environment, unsigned count) {
  const char* path = (const char*)(call == sys::execve ? a[0] : a[1]);
  const Executable program(call, a);
  char shim[sizeof inherited_preload];
  if (program.fd() >= 0) find_shim(shim, sizeof shim);
  if (program.fd() < 0 || !shim[0] || !describe_program(entries, call, a, program.fd())) {
    const OwnProgram own(path);
    uint64_t changed[6];
    memcpy(changed, a, sizeof changed);
    if (own.path()) changed[call == sys::execve ? 0 : 1] = (uint64_t)own.path();
    return exec_call(me(), call, changed);
  }
  char** arguments = (char**)(call == sys::execve ? a[1] : a[2]);
  char* list[count + program.leading() + 1];
  unsigned n = 0;
  for (; n < program.leading(); n++) list[n] = (char*)program.word(n);
  for (unsigned i = n ? 1 : 0; i < count; i++) list[n++] = arguments[i];
  list[n] = nullptr;
  while (*environment) environment++;
  environment[0] = entries.program;
  environment[1] = nullptr;
  native(sys::fcntl, program.fd(), F_SETFD, 0);
  const uint64_t changed[6] = {(uint64_t)shim, (uint64_t)list, call == sys::execve ? a[2] : a[3]};
  return exec_call(me(), sys::execve, changed);
}

// The number of entries of an array of pointers that ends with a null pointer. False: it cannot be read.
bool count_entries(char** list, unsigned* count) {
  *count = 0;
  return probed([&] {
    while (list && list[*count]) ++*count;
  });
}

// Makes the execve(2) or execveat(2) with an environment by which the new program loads the shim. `executable`: not
// only to see the call fail.
long exec_with_shim(long call, const uint64_t* a, bool executable) {
  char **words = (char**)(call == sys::execve ? a[1] : a[2]), **given = (char**)(call == sys::execve ? a[2] : a[3]);
  unsigned count, word_count;
  if (!inherited_preload[0] || !count_entries(given, &count) || !count_entries(words, &word_count) || count > 8000)
    return exec_call(me(), call, a);
  char* list[count + 5];
  const char *preload = nullptr, *tunables = nullptr;
  unsigned kept = 0;
  Entries entries;
  bool made = false;
  uint64_t limit[2];
  const bool limited = limits_asked(limit);
  const bool readable = probed([&] {
    for (unsigned i = 0; i < count; i++) {
      char* entry = given[i];
      if (names(entry, "LD_PRELOAD")) preload = entry;
      else if (names(entry, "GLIBC_TUNABLES")) tunables = entry;
      else if (!names(entry, kSocketVariable) && !names(entry, kProgramVariable)) list[kept++] = entry;
    }
    made = make_entries(entries, preload, tunables, limited ? limit : nullptr);
  });
  if (!readable) return -EFAULT;
  if (!made) return exec_call(me(), call, a);
  list[kept++] = entries.preload;
  list[kept++] = entries.socket;
  list[kept++] = entries.tunables;
  list[kept] = nullptr;
  uint64_t changed[6];
  memcpy(changed, a, sizeof changed);
  changed[call == sys::execve ? 2 : 3] = (uint64_t)list;
  if (limited) limits_before_exec();
  const long result =
      executable ? exec_program(call, changed, entries, list, word_count) : exec_call(me(), call, changed);
  if (limited) limits_after_exec(limit);
  return result;
}

// Makes the execve(2) or execveat(2) of a vfork child that has asked to be traced: its program is not recorded. Only
// here it becomes traced. A signal of the shim's would have stopped it before, and with it the parent, which waits for
// the child and could not let it go on.
long exec_traced(long call, const uint64_t* a, const char* path) {
  unsigned count;
  char** given = (char**)(call == sys::execve ? a[2] : a[3]);
  if (!count_entries(given, &count) || count > 8000) return exec_call(me(), call, a);
  char* list[count + 1];
  unsigned kept = 0;
  const bool readable = probed([&] {
    for (unsigned i = 0; i < count; i++)
      if (!names(given[i], kSocketVariable) && !names(given[i], kProgramVariable)) list[kept++] = given[i];
  });
  if (!readable) return -EFAULT;
  list[kept] = nullptr;
  uint64_t changed[6];
  memcpy(changed, a, sizeof changed);
  changed[call == sys::execve ? 2 : 3] = (uint64_t)list;
  collector_notice("a program that it traces (ptrace) is not recorded: ", path);
  native(sys::fcntl, own_socket(), F_SETFD, FD_CLOEXEC);
  native(sys::ptrace, PTRACE_TRACEME, 0, 0, 0);
  const long result = exec_call(me(), call, changed);
  native(sys::fcntl, own_socket(), F_SETFD, 0);
  return result;
}

// Stores the full path of the program that the call would execute. False: it cannot be executed, so the call will fail.
bool program_named(long call, const uint64_t* a, char* out, size_t size) {
  constexpr long kExecutable = 1;  // X_OK
  const long directory = call == sys::execve ? AT_FDCWD : (long)(int)a[0];
  const char* path = (const char*)(call == sys::execve ? a[0] : a[1]);
  const long flags = call == sys::execve ? 0 : (long)(a[4] & (AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
  size_t length = 0;
  if (!probed([&] { length = length_of(path); })) return false;
  const OwnProgram own(path);
  if (own.path()) path = own.path();
  const bool by_descriptor = length == 0 && (flags & AT_EMPTY_PATH);
  if (!by_descriptor && failed(native(sys::faccessat, directory, path, kExecutable))) return false;
  const long fd = by_descriptor ? directory : native(sys::openat, directory, path, O_PATH | O_CLOEXEC, 0);
  out[0] = 0;
  if (!failed(fd)) path_of_descriptor((int)fd, out, size);
  if (!by_descriptor && !failed(fd)) native(sys::close, fd);
  if (!out[0]) memcpy(out, path, min(length + 1, size - 1));
  return true;
}

// A vfork child that executes a program becomes a node, for which it needs a socket of its own.
struct OwnNode {
  const int before = own_socket();
  OwnNode(ThreadArea* area, const char* path) {
    ForkReply reply = {};
    int socket = -1;
    if (!collector_spawn(path, &reply, &socket)) {
      native(sys::fcntl, before, F_SETFD, FD_CLOEXEC);  // the new program must not use its parent's socket
      return;
    }
    const long high = native(sys::fcntl, socket, F_DUPFD, before + 1);
    if (!failed(high)) native(sys::close, socket);
    own_socket() = failed(high) ? socket : (int)high;
    native(sys::fcntl, before, F_SETFD, FD_CLOEXEC);
    memcpy(vfork_node(area), reply.node_uuid, sizeof reply.node_uuid);
  }
  // Undoes that after the call has failed.
  void give_up(ThreadArea* area) {
    native(sys::fcntl, before, F_SETFD, 0);
    if (own_socket() == before) return;
    collector_send(kNotExecuted, 0, 0, nullptr);
    native(sys::close, own_socket());
    own_socket() = before;
    memset(vfork_node(area), 0, 16);
  }
};

long execute(long call, const uint64_t* a, ThreadArea* area, const char* path) {
  if (!area->borrowed) {
    collector_executes(path);
    return exec_with_shim(call, a, true);
  }
  if (vfork_traced(area)) return exec_traced(call, a, path);
  OwnNode node(area, path);
  const long result = exec_with_shim(call, a, true);
  node.give_up(area);
  return result;
}

}  // namespace

void exec_remember(char** environment) {
  for (; *environment; environment++) {
    if (names(*environment, kSocketVariable)) socket_entry = *environment;
    if (names(*environment, "LD_PRELOAD") && length_of(*environment) < sizeof inherited_preload)
      memcpy(inherited_preload, *environment, length_of(*environment) + 1);
  }
}

void exec_forget() {
  probed([] {
    if (socket_entry && names(socket_entry, kSocketVariable)) *socket_entry = '_';
  });
}

long exec_call(ThreadArea* area, long call, const uint64_t* arguments) {
  signals_before_exec(area);
  // Not made while a signal is pending, because the signals that are blocked meanwhile would stay blocked in the new
  // program.
  const long result = friday_interruptible(area, call, arguments);
  signals_after_exec(area);
  return result;
}

// Returns true if the call must be made again, because a signal interrupted it that turned out to have no handler.
static bool try_exec(CallFrame* frame, ThreadArea* area) {
  const uint64_t* a = arguments_of(frame);
  const uint16_t call = (uint16_t)frame->rax;
  const unsigned arity = call_info(call).arity;
  const uint64_t entry = ticks_now(), hash = input_hash(call_info(call), frame);
  char path[kPathBytes] = "";
  const bool executable = program_named(call, a, path, sizeof path);
  if (executable) {
    EventWriter writer(kRelease, area, call, a, arity);
    writer.part(kPath, path, length_of(path));
    writer.commit(0, hash, entry, entry);
    group_lend(nullptr, false);
  }
  token_spare(area, true);
  const long result = executable ? execute(call, a, area, path) : exec_with_shim(call, a, false);
  token_spare(area, false);
  if (executable) group_enter(area, nullptr);
  const bool not_made = result == kNotMade;
  EventWriter writer(executable ? kReturn : kCall, area, call, a, arity);
  if (not_made) writer.event->header.flags |= kFlagRestarted;
  writer.commit(not_made ? -EINTR : result, hash, entry, ticks_now());
  if (not_made) return !signals_deliver(frame, area, Moment::before_call);
  frame->rax = (uint64_t)result;
  return false;
}

void do_exec(CallFrame* frame, ThreadArea* area) {
  if (control.mode == kModeReplay) replay_call(frame, area, call_info(frame->rax));
  else
    while (try_exec(frame, area)) {}
}

}  // namespace friday::shim
