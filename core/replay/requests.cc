// Answers system calls that the filter (confinement.h) refuses. A replayed process gets files of the recording and
// shared memory from the core, as descriptors. The shim makes no other refused call at replay, so after any other one
// the node fails.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>

#include "core/replay/confinement.h"
#include "core/replay/session.h"

namespace friday {
namespace {

constexpr size_t kLongestPath = sizeof(shim::Control::files) + 40;

// Reads a string from the process's memory, at most kLongestPath bytes.
std::string text_at(const TracedProcess& process, uint64_t address) {
  std::string text(kLongestPath, '\0');
  size_t got = process.read_some(address, text.data(), text.size());
  if (!got) got = process.read_some(address, text.data(), std::min(text.size(), kPageBytes - address % kPageBytes));
  text.resize(got);
  return text.substr(0, text.find('\0'));
}

bool is_file_name(std::string_view name) {
  return name.size() == 32 &&
         std::ranges::all_of(name, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace

// Opens what the process wants to open: its own /proc/self/maps, a file copy of its recording (for reading only), or a
// shared object. Returns none for any other path. The path comes from code that is not trusted, so it is compared with
// these and never opened itself.
Result<std::optional<UniqueFd>> ReplaySession::wanted_file(ReplayNode& node, const std::string& path) const {
  if (path == "/proc/self/maps") {
    FRIDAY_TRY(maps, open_file(fmt::format("/proc/{}/maps", node.process().pid()), O_RDONLY));
    return std::optional(std::move(maps));
  }
  const std::string directory = recording_.files_directory() + "/";
  if (path.starts_with(directory) && is_file_name(std::string_view(path).substr(directory.size()))) {
    FRIDAY_TRY(file, open_beneath(recording_.inside("files/" + path.substr(directory.size()))));
    return std::optional(std::move(file));
  }
  for (const auto& [object, fd] : shared_)
    if (path == path_of_object(fd)) {
      UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
      if (!copy) return fail_errno(errno, "cannot duplicate the descriptor of a shared object");
      return std::optional(std::move(copy));
    }
  return std::optional<UniqueFd>();
}

Result<std::optional<UniqueFd>> ReplaySession::wanted_descriptor(ReplayNode& node, const siginfo_t& info,
                                                                 const user_regs_struct& r) const {
  if (!is_call_here(info, SYS_open) && !is_call_here(info, SYS_memfd_create)) return std::optional<UniqueFd>();
  if (info.si_syscall == SYS_open) return wanted_file(node, text_at(node.process(), r.rdi));
  UniqueFd memory(memfd_create("friday-shared", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "cannot create a memfd for a shared object");
  return std::optional(std::move(memory));
}

std::optional<Stop> ReplaySession::answer_refused_call(ReplayNode& node, ReplayNode::Thread& thread,
                                                       const siginfo_t& info) {
  user_regs_struct r;
  if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
  auto given = [&]() -> Result<void> {
    FRIDAY_TRY(file, wanted_descriptor(node, info, r));
    if (!file) return refused_to(node, "made " + describe_refused_call(info, r));
    FRIDAY_TRY(number, node.receive(thread.tid, file->get()));
    r.rax = static_cast<uint64_t>(number);
    r.orig_rax = kNoCall;
    TracedProcess::set_registers(thread.tid, r);
    return {};
  }();
  if (!given) return fail_node(node, ThreadId{thread.number}, given.error().message);
  resume_thread(node, thread);
  return std::nullopt;
}

// The error for something that only damaged or malicious code does. `what` completes the sentence "it ...".
std::unexpected<Error> ReplaySession::refused_to(const ReplayNode& node, const std::string& what) {
  return std::unexpected(Error{ErrorCode::component_died,
                               fmt::format("it {}, which no replay does. That was refused and had no effect outside. "
                                           "The recording is damaged, or its code is not what was recorded; trust "
                                           "nothing that it shows",
                                           what),
                               node.id().value});
}

}  // namespace friday
