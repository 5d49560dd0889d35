#include "core/record/shared_before.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/base/files.h"
#include "core/base/memory_map.h"

namespace friday {

namespace {

// The device of the kernel's own tmpfs, which has anonymous shared memory, memfds and segments, except huge pages.
dev_t kernels_tmpfs() {
  static const dev_t device = [] {
    void* const page = mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    dev_t found = 0;
    if (const auto maps = read_memory_map("/proc/self"))
      for (const MappedRange& map : *maps)
        if (map.low == reinterpret_cast<uint64_t>(page)) found = map.device;
    if (page != MAP_FAILED) munmap(page, 4096);
    return found;
  }();
  return device;
}

// Whether pages of a tmpfs may be in swap space, where mincore(2) does not see them.
bool swaps() {
  const auto text = read_file("/proc/swaps");
  return !text || std::ranges::count(*text, '\n') > 1;  // the first line is a heading
}

// The devices of the file systems in memory that a process sees.
struct InMemory {
  std::set<dev_t> tmpfs, huge;
  bool swaps = true;
};

// From its mountinfo (proc_pid_mountinfo(5)): "ID PARENT MAJOR:MINOR ROOT ... - TYPE SOURCE OPTIONS".
InMemory file_systems_in_memory(const std::string& process) {
  InMemory found{.tmpfs = {}, .huge = {}, .swaps = swaps()};
  const auto text = read_file(process + "/mountinfo");
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    unsigned id, parent, major, minor;
    char colon;
    const size_t type = line.find(" - ");
    if (!(words >> id >> parent >> major >> colon >> minor) || type == std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(type + 3);
    if (rest.starts_with("tmpfs ")) found.tmpfs.insert(makedev(major, minor));
    if (rest.starts_with("hugetlbfs ")) found.huge.insert(makedev(major, minor));
  }
  return found;
}

bool is_segment(const std::string& path) { return path.starts_with("/SYSV"); }

bool is_nameless(const std::string& path) {
  return is_segment(path) || path.starts_with("/memfd:") || path.starts_with("/dev/zero") ||
         path.starts_with("/anon_hugepage");
}

// The addresses of shared mappings that cannot be written to now, but could be (mprotect(2)): "mw" among the VmFlags of
// proc_pid_smaps(5).
std::set<uint64_t> could_be_writable(const std::string& process) {
  std::set<uint64_t> found;
  const auto text = read_file(process + "/smaps");
  std::istringstream lines(text ? *text : "");
  uint64_t low = 0;
  for (std::string line; std::getline(lines, line);) {
    uint64_t address = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
    if (error == std::errc() && end != line.data() + line.size() && *end == '-') low = address;
    else if (line.starts_with("VmFlags:") && line.find(" mw") != std::string::npos) found.insert(low);
  }
  return found;
}

// stat(2) of the file with this inode, by its path or by a descriptor that the process has of it.
std::optional<struct stat> stat_of(const std::string& process, const MappedRange& map) {
  struct stat about;
  const auto matches = [&](const std::string& path) {
    return stat(path.c_str(), &about) == 0 && about.st_ino == map.inode && S_ISREG(about.st_mode);
  };
  if (!is_nameless(map.path) && matches(process + "/root" + map.path)) return about;
  if (is_segment(map.path) || map.path.starts_with("/dev/zero")) return {};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", ignored))
    if (matches(entry.path().string()) && about.st_dev == map.device) return about;
  return {};
}

// Describes the object that a mapping shows, when it is met for the first time.
MappedObject describe(const std::string& process, const MappedRange& map, const InMemory& in_memory) {
  MappedObject each;
  shim::ObjectBefore& o = each.object;
  o.device = o.file_device = map.device;
  o.inode = map.inode;
  o.is_segment = is_segment(map.path);
  o.is_nameless = is_nameless(map.path);
  const bool is_tmpfs = o.is_nameless ? map.device == kernels_tmpfs() : in_memory.tmpfs.contains(map.device);
  o.in_memory = is_tmpfs && !in_memory.swaps;
  each.can_change = o.is_nameless || is_tmpfs || in_memory.huge.contains(map.device);
  if (const auto about = stat_of(process, map)) {
    o.size = static_cast<uint64_t>(about->st_size);
    o.file_device = about->st_dev;
    each.size_known = true;
  }
  return each;
}

bool is_device(const std::string& process, const std::string& path) {
  struct stat about;
  return path.starts_with("/dev/") && stat((process + "/root" + path).c_str(), &about) == 0 && !S_ISREG(about.st_mode);
}

}  // namespace

Result<Mapped> mapped_shared(pid_t pid) {
  const std::string process = fmt::format("/proc/{}", pid);
  auto maps = read_memory_map(process);
  if (!maps && access(process.c_str(), F_OK) != 0) return fail(ErrorCode::not_found, "process {} has ended", pid);
  if (!maps) return std::unexpected(maps.error());
  Mapped mapped;
  std::map<std::tuple<uint32_t, uint64_t, uint64_t>, MappedObject> found;
  std::optional<InMemory> file_systems;
  std::optional<std::set<uint64_t>> could_be;
  for (const MappedRange& map : *maps) {
    if (!map.shared || (map.low >= shim::kOwnLow && map.low < shim::kOwnEnd)) continue;
    if (!map.path.starts_with('/') || map.path.starts_with("/[")) continue;  // of an anonymous inode, such as perf's
    if (!is_nameless(map.path) && is_device(process, map.path)) {
      mapped.device = map.path;
      continue;
    }
    if (!file_systems) file_systems = file_systems_in_memory(process);
    const std::tuple key{uint32_t{is_segment(map.path)}, uint64_t{map.device}, map.inode};
    auto known = found.find(key);
    if (known == found.end()) known = found.emplace(key, describe(process, map, *file_systems)).first;
    MappedObject& each = known->second;
    if (!each.size_known) each.object.size = std::max(each.object.size, map.offset + (map.high - map.low));
    if (each.can_change) continue;
    if (!(map.protection & PROT_WRITE) && !could_be) could_be = could_be_writable(process);
    each.can_change = map.protection & PROT_WRITE || could_be->contains(map.low);
  }
  for (const auto& [key, each] : found) mapped.objects.push_back(each);
  return mapped;
}

}  // namespace friday
