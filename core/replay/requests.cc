// What a replayed process asks the kernel for and the filter (confinement.h) refuses: a file of the recording or memory
// that nodes share it gets from the core; anything else no replay asks for, and its node ends there.
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

// A string of the process's, cut off at kLongestPath.
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

// What the path stands for that the process wants to open: a copy of a file in its recording, to be read, its own
// layout, or an object that it has been offered. The path itself is never opened by its word. None: neither.
Result<std::optional<UniqueFd>> ReplaySession::wanted_file(ReplayNode& node, const std::string& path) const {
  if (path == "/proc/self/maps") {  // where the shim looks for the layout of its own process
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
      if (!copy) return fail_errno(errno, "cannot hand over shared memory");
      return std::optional(std::move(copy));
    }
  return std::optional<UniqueFd>();
}

Result<std::optional<UniqueFd>> ReplaySession::wanted_descriptor(ReplayNode& node, const siginfo_t& info,
                                                                 const user_regs_struct& r) const {
  if (!is_call_here(info, SYS_open) && !is_call_here(info, SYS_memfd_create)) return std::optional<UniqueFd>();
  if (info.si_syscall == SYS_open) return wanted_file(node, text_at(node.process(), r.rdi));
  UniqueFd memory(memfd_create("friday-shared", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "cannot make a file in memory");
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
    r.orig_rax = ~0ull;
    TracedProcess::set_registers(thread.tid, r);
    return {};
  }();
  if (!given) return fail_node(node, ThreadId{thread.number}, given.error().message);
  resume_thread(node, thread);
  return std::nullopt;
}

// `what`: completes "it ...".
std::unexpected<Error> ReplaySession::refused_to(const ReplayNode& node, const std::string& what) {
  return std::unexpected(Error{ErrorCode::component_died,
                               fmt::format("it {}, which no replay does: it was refused, and nothing outside was "
                                           "reached. The code in this recording is not what "
                                           "was recorded, or it is damaged; trust nothing it shows",
                                           what),
                               node.id().value});
}

}  // namespace friday
