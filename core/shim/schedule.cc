#include "core/shim/schedule.h"

#include <asm/socket.h>
#include <linux/fcntl.h>

#include "core/shim/trace.h"

namespace friday::shim {

using namespace format;

uint32_t keeps_schedule, first_bytes;

namespace {

constexpr uint32_t kTellsOfChannels =
    kIn | kOut | kCopies | kAccepts | kDuplicates | kOpensPair | kCloses | kClosesRange | kBinds;

bool duplicates_by_code(const uint64_t* a) { return a[1] == F_DUPFD || a[1] == F_DUPFD_CLOEXEC; }

// Calls that say what became of a connection, who may be reached by a broadcast, what a relative name of a socket
// means, and which processes there are, how they are related and how they end.
bool tells_more(uint64_t call) {
  switch (call) {
    case sys::shutdown:
    case sys::chdir:
    case sys::fchdir:
    case sys::wait4:
    case sys::waitid: return true;
    default: return false;
  }
}

bool makes_or_ends_process(uint64_t call) {
  switch (call) {
    case sys::clone:
    case sys::fork:
    case sys::vfork:
    case sys::execve:
    case sys::execveat:
    case sys::exit_group: return true;
    default: return false;
  }
}

// Calls that matter or not by a code among their arguments.
bool has_code(uint64_t call) { return call == sys::fcntl || call == sys::setsockopt || call == sys::getsockopt; }

bool code_matters(uint64_t call, const uint64_t* a) {
  if (call == sys::fcntl) return duplicates_by_code(a);
  return a[1] == SOL_SOCKET && a[2] == (call == sys::setsockopt ? SO_BROADCAST : SO_ERROR);
}

}  // namespace

void schedule_begins() {
  const FileHeader* header = trace_header();
  keeps_schedule = (header->features & kFeatureSchedule) != 0;
  first_bytes = header->first_bytes;
}

bool schedule_may_keep(uint64_t call) {
  return call_info(call).flags & kTellsOfChannels || tells_more(call) || has_code(call);
}

bool schedule_wants(const CallFrame* frame, const ThreadArea* area, const CallInfo& info) {
  if (area->borrowed) return false;  // a vfork child has descriptors of its own
  const uint64_t call = frame->rax;
  const uint64_t* a = arguments_of(frame);
  if (has_code(call)) return code_matters(call, a) && (call != sys::fcntl || channel_carries((int)a[0]));
  if (info.flags & kCopies)
    return channel_carries((int)a[copies_from(info.flags)]) || channel_carries((int)a[copies_to(info.flags)]);
  if (info.flags & (kIn | kOut)) return channel_carries((int)a[0]);
  if (info.flags & (kCloses | kDuplicates)) {
    const int closed = info.flags & kCloses ? (int)a[0] : call == sys::dup ? -1 : (int)a[1];
    if (channel_number(closed) || (info.flags & kDuplicates && channel_carries((int)a[0]))) return true;
    channel_forget(closed);
    return false;
  }
  return info.flags & kTellsOfChannels || tells_more(call);
}

bool schedule_keeps(RecordType type, uint64_t call, const uint64_t* arguments) {
  if (type == kThreadStart || type == kThreadExit) return true;
  if (type != kCall && type != kRelease && type != kReturn) return false;
  if (has_code(call)) return code_matters(call, arguments);
  return call_info(call).flags & kTellsOfChannels || tells_more(call) || makes_or_ends_process(call);
}

}  // namespace friday::shim
