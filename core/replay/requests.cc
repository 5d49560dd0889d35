// Answers system calls that the filter (confinement.h) refuses. A replayed process gets files of the recording and
// shared memory from the core, as descriptors. The shim makes no other refused call at replay, so after any other one
// the node fails.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "core/base/memory_map.h"
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

Result<UniqueFd> duplicate_of(const UniqueFd& object) {
  UniqueFd copy(fcntl(object.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return fail_errno(errno, "cannot duplicate the descriptor of a shared object");
  return copy;
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
  for (const auto& [key, object] : shared_.named)
    if (path == path_of_object(*object)) {
      FRIDAY_TRY(copy, duplicate_of(*object));
      return std::optional(std::move(copy));
    }
  return std::optional<UniqueFd>();
}

Result<std::optional<UniqueFd>> ReplaySession::wanted_descriptor(ReplayNode& node, const siginfo_t& info,
                                                                 const user_regs_struct& r) {
  if (!is_call_here(info, SYS_open) && !is_call_here(info, SYS_memfd_create)) return std::optional<UniqueFd>();
  if (info.si_syscall == SYS_open) return wanted_file(node, text_at(node.process(), r.rdi));
  UniqueFd memory(memfd_create("friday-shared", MFD_CLOEXEC));
  if (!memory) return fail_errno(errno, "cannot create a memfd for a shared object");
  FRIDAY_TRY(copy, duplicate_of(memory));
  shared_.inherited.push_back(std::make_shared<const UniqueFd>(std::move(memory)));
  if (shared_.inherited.size() > most_inherited_) forget_unmapped();
  return std::optional(std::move(copy));
}

// Forgets the objects that no process maps any more. A program may map and unmap such memory without end, and each
// takes a descriptor. The newest ones may be on their way to a mapping.
void ReplaySession::forget_unmapped() {
  constexpr ptrdiff_t kNewest = 8;
  std::set<uint64_t> mapped;
  for (const auto& [id, node] : nodes_) {
    auto maps =
        node->has_process() ? read_memory_map(memory_directory(node->process().pid())) : std::vector<MappedRange>();
    if (!maps) return;
    for (const MappedRange& map : *maps)
      if (map.shared) mapped.insert(map.inode);
  }
  auto& objects = shared_.inherited;
  const auto gone = std::remove_if(objects.begin(), objects.end() - kNewest, [&](const SharedObjects::Object& object) {
    struct stat st {};
    return fstat(object->get(), &st) == 0 && !mapped.contains(st.st_ino);
  });
  objects.erase(gone, objects.end() - kNewest);
  most_inherited_ = 2 * objects.size() + kFewInherited;
}

// The result of a call that the core makes in place of the kernel, or an error if no replay makes it.
Result<int64_t> ReplaySession::answer_to(ReplayNode& node, const ReplayNode::Thread& thread, const siginfo_t& info,
                                         const user_regs_struct& r) {
  // The shims of recordings until November 2026, of hosts whose clock is not the time-stamp counter, read the time at
  // replay too, and do nothing with it.
  const timespec none{};
  if (is_call_here(info, SYS_clock_gettime) && node.in_shim(r.rip) && node.process().write(r.rsi, &none, sizeof none))
    return 0;
  FRIDAY_TRY(file, wanted_descriptor(node, info, r));
  if (!file) return refused_to(node, "made " + describe_refused_call(info, r));
  return node.receive(thread.tid, file->get());
}

std::optional<Stop> ReplaySession::answer_refused_call(ReplayNode& node, ReplayNode::Thread& thread,
                                                       const siginfo_t& info) {
  user_regs_struct r;
  if (!TracedProcess::registers(thread.tid, r)) return std::nullopt;
  auto given = [&]() -> Result<void> {
    FRIDAY_TRY(result, answer_to(node, thread, info, r));
    r.rax = static_cast<uint64_t>(result);
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
