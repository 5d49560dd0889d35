// In a process that the loader has started (loader.cc), /proc/self/exe is the shim. So a call that names this file is
// made with the name of a descriptor of the program instead, which is such a link too: it can be read, followed and
// executed.
#include <linux/fcntl.h>

#include "core/shim/calls.h"
#include "core/shim/collector.h"
#include "core/shim/process.h"
#include "core/shim/signals.h"

namespace friday::shim {

namespace {

// Moves `path` behind `start` and returns true, or returns false if the path does not start so.
bool skip(const char*& path, const char* start) {
  size_t n = 0;
  for (; start[n]; n++)
    if (path[n] != start[n]) return false;
  path += n;
  return true;
}

bool is_own_link(const char* path) {
  const bool self = skip(path, "/proc/self") || skip(path, "/proc/thread-self");
  const uint64_t pid = self ? 0 : process_in(path);
  return equal(path, "/exe") && (self || (pid && is_own(pid)));
}

}  // namespace

uint64_t process_in(const char*& path) {
  uint64_t pid = 0;
  if (skip(path, "/proc/"))
    for (; *path >= '0' && *path <= '9'; path++) pid = pid * 10 + (uint64_t)(*path - '0');
  return pid;
}

OwnProgram::OwnProgram(const char* path) {
  bool names = false;
  if (!loaded_program[0] || !probed([&] { names = is_own_link(path); }) || !names) return;
  const long low = native(sys::open, loaded_program, O_PATH | O_CLOEXEC, 0);
  if (failed(low)) return;
  // A number that the program does not get otherwise, because the call may open a file.
  const long high = native(sys::fcntl, low, F_DUPFD_CLOEXEC, own_socket() + 1);
  if (!failed(high)) native(sys::close, low);
  fd_ = (int)(failed(high) ? low : high);
  link_ = DescriptorLink(fd_);
}

OwnProgram::~OwnProgram() {
  if (fd_ >= 0) native(sys::close, fd_);
}

long call_with_path(ThreadArea* area, CallFrame* frame, const CallInfo& info) {
  if (!loaded_program[0]) return interruptible_call(area, frame);
  const unsigned which = info.inputs[0].argument;
  const OwnProgram program((const char*)arguments_of(frame)[which]);
  if (!program.path()) return interruptible_call(area, frame);
  uint64_t a[6];
  memcpy(a, arguments_of(frame), sizeof a);
  a[which] = (uint64_t)program.path();
  return unless_poked(area, [&](bool) { return friday_interruptible(area, (long)frame->rax, a); });
}

}  // namespace friday::shim
