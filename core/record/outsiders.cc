#include "core/record/outsiders.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>

#include <fmt/format.h>

#include "core/base/background.h"
#include "core/base/memory_map.h"
#include "core/record/proc_files.h"

namespace friday {

namespace {

using std::chrono::milliseconds;
// also the delay after which a newly shared object is noticed
constexpr milliseconds kTick{1000 / Standstill::kLooksPerSecond};
constexpr milliseconds kLongest{30000};  // the longest interval between two scans

// Finds the objects of a TokenArea by what /proc/PID/maps shows of them.
class Objects {
 public:
  explicit Objects(const shim::TokenArea& area) {
    const uint32_t count = __atomic_load_n(&area.objects, __ATOMIC_ACQUIRE);
    for (uint32_t n = 1; n <= count && n < shim::kMaxObjects; n++)
      if (area.object[n].inode) by_inode_.emplace(area.object[n].inode, std::pair{area.object[n].device, n});
  }

  // Returns 0 if the mapping is none of the objects. Compares paths too, since on some file systems /proc shows another
  // device than stat(2).
  uint32_t find(uint64_t device, uint64_t inode, const std::string& path) const {
    auto [from, to] = by_inode_.equal_range(inode);
    for (; from != to; ++from) {
      const auto [wanted, number] = from->second;
      if (wanted == shim::kSegmentDevice) {
        if (path.starts_with("/SYSV")) return number;
        continue;
      }
      struct stat st;
      if (wanted == device || (stat(path.c_str(), &st) == 0 && st.st_ino == inode && st.st_dev == wanted))
        return number;
    }
    return 0;
  }

 private:
  std::multimap<uint64_t, std::pair<uint64_t, uint32_t>> by_inode_;
};

// What a process has mapped.
struct Mapped {
  std::map<uint32_t, std::string> objects;  // shared writable mappings: object number and name
  // It has mapped the recording's TokenArea, so the shim records it. That also holds for a child just created by fork
  // or vfork, and for a process without /proc or in another PID namespace.
  bool tokens = false;
};

Mapped mapped_in(pid_t pid, const Objects& objects, uint64_t tokens_inode) {
  Mapped found;
  const auto maps = read_memory_map(fmt::format("/proc/{}", pid));
  if (!maps) return found;
  for (const MappedRange& map : *maps) {
    if (!(map.protection & PROT_WRITE) || !map.shared || !map.inode || map.path.empty()) continue;
    if (map.low == shim::kTokensAddress && map.inode == tokens_inode) found.tokens = true;
    else if (uint32_t object = objects.find(map.device, map.inode, map.path)) found.objects.emplace(object, map.path);
  }
  return found;
}

}  // namespace

Outsiders::~Outsiders() {
  if (thread_.joinable()) {
    {
      std::lock_guard lock(guard_);
      ends_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  if (area_) munmap(const_cast<shim::TokenArea*>(area_), sizeof *area_);
}

bool Outsiders::start(int tokens) {
  struct stat st;
  if (fstat(tokens, &st) != 0) return false;
  tokens_inode_ = st.st_ino;
  void* area = mmap(nullptr, sizeof *area_, PROT_READ, MAP_SHARED, tokens, 0);
  if (area == MAP_FAILED) return false;
  area_ = static_cast<const shim::TokenArea*>(area);
  told_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = background_thread([this] { run(); });
  return thread_.joinable();
}

Outsiders::Found Outsiders::take() {
  std::lock_guard lock(guard_);
  uint64_t times;
  (void)!::read(told_.get(), &times, sizeof times);
  return {std::exchange(found_, {}), std::exchange(kept_, {})};
}

void Outsiders::run() {
  uint32_t seen = 0;
  milliseconds wait = kTick, left{0};
  std::unique_lock lock(guard_);
  while (!wake_.wait_for(lock, kTick, [this] { return ends_; })) {
    if (auto kept = standstill_.look(*area_); !kept.empty()) {
      std::ranges::move(kept, std::back_inserter(kept_));
      tell();
    }
    const uint32_t objects = __atomic_load_n(&area_->objects, __ATOMIC_ACQUIRE);
    if (objects == 0) continue;
    if (objects != seen) wait = kTick, left = milliseconds{0};
    seen = objects;
    if ((left -= kTick) > milliseconds{0}) continue;
    lock.unlock();
    look();
    lock.lock();
    left = wait = std::min(2 * wait, kLongest);
  }
}

void Outsiders::look() {
  const Objects objects(*area_);
  std::map<uint32_t, std::set<pid_t>> sharers;
  std::map<std::pair<pid_t, uint32_t>, std::string> others;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    const Mapped mapped = mapped_in(pid, objects, tokens_inode_);
    if (mapped.objects.empty()) continue;
    const pid_t number = mapped.tokens ? own_number(pid) : 0;
    for (const auto& [object, path] : mapped.objects) {
      if (mapped.tokens) sharers[object].insert(number);
      else others.emplace(std::pair{pid, object}, path);
    }
  }
  for (const auto& [who, path] : others) {
    const auto with = sharers.find(who.second);
    if (with == sharers.end() || !known_.insert(who).second) continue;
    std::lock_guard lock(guard_);
    found_.push_back({fmt::format("process {} ({}) is not in this recording and can write to {}, which this one has "
                                  "mapped: what it stores there is "
                                  "not in the recording; record it too, in the same group",
                                  who.first, process_name(who.first), path),
                      with->second});
    tell();
  }
}

void Outsiders::tell() {
  const uint64_t once = 1;
  (void)!write(told_.get(), &once, sizeof once);
}

}  // namespace friday
