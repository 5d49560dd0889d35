#include "core/replay/memory_guard.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "core/base/background.h"
#include "core/base/files.h"

namespace friday {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(200);

// The number behind `key`, or `otherwise`.
uint64_t number_after(const std::string& text, std::string_view key, uint64_t otherwise) {
  const size_t at = text.find(key);
  return at == std::string::npos ? otherwise : strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// Three quarters of what this machine has, or of what its control group allows; or what the user does (ulimit -m), which Linux leaves to
// whoever wants to look.
uint64_t sensible_limit() {
  uint64_t bytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  auto group = read_file("/proc/self/cgroup");
  const size_t at = group ? group->find("0::") : std::string::npos;
  const std::string own = at == std::string::npos ? "" : group->substr(at + 3, group->find('\n', at) - at - 3);
  for (const std::string& place : {"/sys/fs/cgroup" + own, std::string("/sys/fs/cgroup")})
    if (auto text = read_file(place + "/memory.max"))
      if (const uint64_t most = strtoull(text->c_str(), nullptr, 10)) bytes = std::min(bytes, most);  // "max": 0
  rlimit users{};
  const bool limited = getrlimit(RLIMIT_RSS, &users) == 0 && users.rlim_cur != RLIM_INFINITY;
  return limited ? std::min<uint64_t>(users.rlim_cur, bytes / 4 * 3) : bytes / 4 * 3;
}

// Pages in memory, files' included.
uint64_t resident(pid_t process) {
  unsigned long size = 0, pages = 0;
  auto text = read_file(fmt::format("/proc/{}/statm", process));
  return text && sscanf(text->c_str(), "%lu %lu", &size, &pages) == 2 ? pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

MemoryGuard::MemoryGuard(std::function<void()> exceeded)
    : tell_(std::move(exceeded)), limit_(sensible_limit()), thread_(background_thread([this] { look(); })) {}

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
  exceeded_ = false;
}

std::string MemoryGuard::describe() const {
  return fmt::format("the replayed processes together hold more than {} MiB of memory: they were stopped before others lack it. That is three quarters of "
                     "what there is here, or your limit (ulimit -m). Replay fewer nodes (--node), or on a larger machine",
                     limit_ >> 20);
}

// What is in files' pages the kernel can take back, and pages that are shared are counted once.
uint64_t MemoryGuard::held_by_all(const std::set<pid_t>& processes) const {
  uint64_t rough = 0, own = 0, shared = 0;
  for (pid_t process : processes) rough += resident(process);
  if (rough <= limit_) return rough;
  for (pid_t process : processes) {
    auto text = read_file(fmt::format("/proc/{}/status", process));
    if (!text) continue;
    own += number_after(*text, "RssAnon:", 0) << 10;
    shared = std::max(shared, number_after(*text, "RssShmem:", 0) << 10);
  }
  return own + shared;
}

void MemoryGuard::look() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kInterval, [this] { return stop_; })) {
    if (exceeded_ || processes_.empty()) continue;
    const std::set<pid_t> processes = processes_;
    lock.unlock();
    const bool more = held_by_all(processes) > limit_;
    lock.lock();
    if (!more || processes != processes_) continue;
    exceeded_ = true;
    tell_();
  }
}

}  // namespace friday
