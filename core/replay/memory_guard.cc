#include "core/replay/memory_guard.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/base/background.h"
#include "core/base/files.h"

namespace friday {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(200);
constexpr unsigned kLooksForStandstill = 5;  // every fifth look also checks for a standstill
constexpr auto kBetweenLooks = std::chrono::milliseconds(20);

// The number that follows `key` in the text; `otherwise` if the key is absent.
uint64_t number_after(const std::string& text, std::string_view key, uint64_t otherwise) {
  const size_t at = text.find(key);
  return at == std::string::npos ? otherwise : strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// The contents of a file of this process's control group (version 2), or of the root group if it has none.
std::string of_control_group(const char* name) {
  auto group = read_file("/proc/self/cgroup");
  const size_t at = group ? group->find("0::") : std::string::npos;
  const std::string own = at == std::string::npos ? "" : group->substr(at + 3, group->find('\n', at) - at - 3);
  for (const std::string& place : {"/sys/fs/cgroup" + own, std::string("/sys/fs/cgroup")})
    if (auto text = read_file(fmt::format("{}/{}", place, name))) return *text;
  return {};
}

// The limit in bytes: the user's (ulimit -m, which Linux itself ignores), but at most three quarters of this machine's
// memory or of what the control group allows.
uint64_t sensible_limit() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (const uint64_t most = strtoull(of_control_group("memory.max").c_str(), nullptr, 10))
    bytes = std::min(bytes, most);  // the text "max", for no limit, is read as 0
  rlimit users{};
  const bool limited = getrlimit(RLIMIT_RSS, &users) == 0 && users.rlim_cur != RLIM_INFINITY;
  return limited ? std::min<uint64_t>(users.rlim_cur, bytes / 4 * 3) : bytes / 4 * 3;
}

// The bytes of shared memory and memfds of the control group, or of the machine if that is unknown, whether or not any
// process maps them.
uint64_t shared_memory_here() {
  const std::string group = of_control_group("memory.stat");
  if (const uint64_t bytes = number_after(group, "\nshmem ", ~0ull); bytes != ~0ull) return bytes;
  auto machine = read_file("/proc/meminfo");
  return machine ? number_after(*machine, "\nShmem:", 0) << 10 : 0;
}

// A number that grows each time a thread of the process goes to sleep; none if a thread is awake. Threads that have
// ended are ignored.
std::optional<uint64_t> sleeps_of(pid_t process) {
  uint64_t sum = 0;
  std::error_code gone;
  for (std::filesystem::directory_iterator task(fmt::format("/proc/{}/task", process), gone), end; !gone && task != end;
       task.increment(gone)) {
    constexpr std::string_view kState = "\nState:\t";
    auto text = read_file(task->path().string() + "/status");
    const size_t at = text ? text->find(kState) : std::string::npos;
    const char state = at == std::string::npos ? 'X' : (*text)[at + kState.size()];
    if (state == 'Z' || state == 'X') continue;
    if (state != 'S') return std::nullopt;
    sum += 1 + number_after(*text, "\nvoluntary_ctxt_switches:", 0) +
           number_after(*text, "\nnonvoluntary_ctxt_switches:", 0);
  }
  return sum;
}

// The sum over all processes; 0 if a thread is awake or no thread is left.
uint64_t sleeps_of_all(const std::set<pid_t>& processes) {
  uint64_t all = 0;
  for (pid_t process : processes) {
    const auto some = sleeps_of(process);
    if (!some) return 0;
    all += *some;
  }
  return all;
}

}  // namespace

MemoryGuard::MemoryGuard(std::function<void()> tell)
    : tell_(std::move(tell)),
      limit_(sensible_limit()),
      shared_before_(shared_memory_here()),
      thread_(background_thread([this] { look(); })) {}

MemoryGuard::~MemoryGuard() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void MemoryGuard::watch(pid_t process) {
  const std::lock_guard lock(mutex_);
  processes_.insert(process);
}

void MemoryGuard::forget_all() {
  const std::lock_guard lock(mutex_);
  processes_.clear();
  exceeded_ = still_ = false;
}

std::string MemoryGuard::describe() const {
  return fmt::format(
      "the replayed processes together use more than {} MiB of memory, including page tables and shared memory. That "
      "is "
      "your limit (ulimit -m) or three quarters of the memory here, so they were stopped before other programs run out "
      "of memory. Replay fewer nodes (--node), or on a larger machine",
      limit_ >> 20);
}

// The bytes that all processes use. Pages of files are left out, because the kernel can reclaim them. Shared pages are
// counted once, even if their memfd exists but no process maps it. Page tables are included: they can be larger than
// the pages of a process that reads much memory that it has never written.
uint64_t MemoryGuard::held_by_all(const std::set<pid_t>& processes) const {
  uint64_t own = 0, shared = 0;
  for (pid_t process : processes) {
    auto text = read_file(fmt::format("/proc/{}/status", process));
    if (!text) continue;
    for (const char* key : {"\nRssAnon:", "\nVmPTE:", "\nVmSwap:", "\nHugetlbPages:"})
      own += number_after(*text, key, 0) << 10;
    shared = std::max(shared, number_after(*text, "\nRssShmem:", 0) << 10);
  }
  const uint64_t now = shared_memory_here();
  return own + std::max(shared, now > shared_before_ ? now - shared_before_ : 0);
}

// If two looks see the same number of sleeps, and the owner has been in one wait meanwhile, then no thread has woken up
// between them, so all threads have been asleep at the same time.
void MemoryGuard::look_for_standstill(const std::set<pid_t>& processes) {
  const uint64_t waits = waits_;
  if (waits % 2 == 0) return;
  const uint64_t sleeps = sleeps_of_all(processes);
  if (!sleeps) return;
  std::this_thread::sleep_for(kBetweenLooks);
  if (sleeps_of_all(processes) != sleeps || waits_ != waits) return;
  still_ = true;
  tell_();
}

void MemoryGuard::look() {
  std::unique_lock lock(mutex_);
  for (unsigned n = 1; !wake_.wait_for(lock, kInterval, [this] { return stop_; }); n++) {
    if (exceeded_ || processes_.empty()) continue;
    const std::set<pid_t> processes = processes_;
    lock.unlock();
    const bool more = held_by_all(processes) > limit_;
    if (n % kLooksForStandstill == 0 && !still_) look_for_standstill(processes);
    lock.lock();
    if (!more || processes != processes_) continue;
    exceeded_ = true;
    tell_();
  }
}

}  // namespace friday
