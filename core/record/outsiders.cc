#include "core/record/outsiders.h"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "core/base/background.h"
#include "core/base/files.h"

namespace friday {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kTick{250};      // to see that something new is shared
constexpr milliseconds kLongest{30000};  // between two looks

// The objects of a TokenArea by what /proc/PID/maps says of them.
class Objects {
 public:
  explicit Objects(const shim::TokenArea& area) {
    const uint32_t count = __atomic_load_n(&area.objects, __ATOMIC_ACQUIRE);
    for (uint32_t n = 1; n <= count && n < shim::kMaxObjects; n++)
      if (area.object[n].inode) by_inode_.emplace(area.object[n].inode, std::pair{area.object[n].device, n});
  }

  // 0: the mapping is none of them. Some file systems show another device in /proc than stat(2) does.
  uint32_t find(uint64_t device, uint64_t inode, const std::string& path) const {
    auto [from, to] = by_inode_.equal_range(inode);
    for (; from != to; ++from) {
      const auto [wanted, number] = from->second;
      if (wanted == shim::kSegmentDevice) {
        if (path.starts_with("/SYSV")) return number;
        continue;
      }
      struct stat st;
      if (wanted == device || (stat(path.c_str(), &st) == 0 && st.st_ino == inode && st.st_dev == wanted)) return number;
    }
    return 0;
  }

 private:
  std::multimap<uint64_t, std::pair<uint64_t, uint32_t>> by_inode_;
};

// What a process has mapped shared and for writing, of the objects: number and name.
std::map<uint32_t, std::string> writable_in(pid_t pid, const Objects& objects) {
  std::map<uint32_t, std::string> found;
  FILE* maps = fopen(fmt::format("/proc/{}/maps", pid).c_str(), "re");
  if (!maps) return found;
  char* line = nullptr;
  size_t room = 0;
  for (ssize_t length; (length = getline(&line, &room, maps)) > 0;) {
    char rights[5];
    unsigned major, minor;
    unsigned long inode;
    int path = 0;
    line[length - 1] = 0;
    if (sscanf(line, "%*x-%*x %4s %*x %x:%x %lu %n", rights, &major, &minor, &inode, &path) != 4 || !path) continue;
    if (rights[1] != 'w' || rights[3] != 's' || !inode) continue;
    if (uint32_t object = objects.find(makedev(major, minor), inode, line + path)) found.emplace(object, line + path);
  }
  free(line);
  fclose(maps);
  return found;
}

// As TokenMember has it: the pid that the process itself sees, and its pid namespace.
std::pair<uint64_t, uint32_t> own_name(pid_t pid) {
  struct stat space;
  if (stat(fmt::format("/proc/{}/ns/pid", pid).c_str(), &space) != 0) return {0, 0};
  const std::string status = read_file(fmt::format("/proc/{}/status", pid)).value_or("");
  const size_t line = status.find("\nNSpid:"), end = status.find('\n', line + 1);
  if (line == std::string::npos || end == std::string::npos) return {space.st_ino, static_cast<uint32_t>(pid)};
  const size_t last = status.find_last_of(" \t", end);
  return {space.st_ino, static_cast<uint32_t>(strtoul(status.c_str() + last, nullptr, 10))};
}

std::set<std::pair<uint64_t, uint32_t>> members_of(const shim::TokenArea& area) {
  std::set<std::pair<uint64_t, uint32_t>> members;
  const uint32_t count = __atomic_load_n(&area.members, __ATOMIC_ACQUIRE);
  for (uint32_t n = 1; n <= count && n < shim::kMaxMembers; n++) members.insert({area.member[n].pid_namespace, area.member[n].pid});
  return members;
}

std::string name_of(pid_t pid) {
  std::string name = read_file(fmt::format("/proc/{}/comm", pid)).value_or("?");
  if (name.ends_with('\n')) name.pop_back();
  return name;
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
  void* area = mmap(nullptr, sizeof *area_, PROT_READ, MAP_SHARED, tokens, 0);
  if (area == MAP_FAILED) return false;
  area_ = static_cast<const shim::TokenArea*>(area);
  told_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = background_thread([this] { run(); });
  return thread_.joinable();
}

std::vector<Outsider> Outsiders::take() {
  std::lock_guard lock(guard_);
  uint64_t times;
  (void)!::read(told_.get(), &times, sizeof times);
  return std::exchange(found_, {});
}

void Outsiders::run() {
  uint32_t seen = 0;
  milliseconds wait = kTick, left{0};
  std::unique_lock lock(guard_);
  while (!wake_.wait_for(lock, kTick, [this] { return ends_; })) {
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
  const auto members = members_of(*area_);
  std::map<uint32_t, std::set<pid_t>> sharers;
  std::map<std::pair<pid_t, uint32_t>, std::string> others;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == getpid()) continue;
    const auto shared = writable_in(pid, objects);
    if (shared.empty()) continue;
    const bool recorded = members.contains(own_name(pid));
    for (const auto& [object, path] : shared) {
      if (recorded) sharers[object].insert(pid);
      else others.emplace(std::pair{pid, object}, path);
    }
  }
  for (const auto& [who, path] : others) {
    const auto with = sharers.find(who.second);
    if (with == sharers.end() || !known_.insert(who).second) continue;
    std::lock_guard lock(guard_);
    found_.push_back({fmt::format("process {} ({}) is not recorded and can write to {}, which this one has mapped: what it stores there is "
                                  "not in the recording; record it too", who.first, name_of(who.first), path), with->second});
    const uint64_t once = 1;
    (void)!write(told_.get(), &once, sizeof once);
  }
}

}  // namespace friday
