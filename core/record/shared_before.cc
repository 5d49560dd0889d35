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

constexpr std::string_view kDeleted = " (deleted)";

// Devices of the file systems that a process sees and that are in memory, from its mountinfo (proc_pid_mountinfo(5)):
// "ID PARENT MAJOR:MINOR ROOT ... - TYPE SOURCE OPTIONS".
std::set<dev_t> devices_in_memory(const std::string& process) {
  std::set<dev_t> found;
  const auto text = read_file(process + "/mountinfo");
  std::istringstream lines(text ? *text : "");
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    unsigned id, parent, major, minor;
    char colon;
    if (!(words >> id >> parent >> major >> colon >> minor)) continue;
    const size_t type = line.find(" - ");
    if (type == std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(type + 3);
    if (rest.starts_with("tmpfs ") || rest.starts_with("hugetlbfs ") || rest.starts_with("devtmpfs "))
      found.insert(makedev(major, minor));
  }
  return found;
}

bool is_nameless(const std::string& path) {
  return path.starts_with("/SYSV") || path.starts_with("/memfd:") || path.starts_with("/dev/zero") ||
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

// The size of the file with this inode, by its path or by a descriptor that the process has of it.
std::optional<uint64_t> size_of_file(const std::string& process, const MappedRange& map) {
  struct stat about;
  const auto matches = [&](const std::string& path) {
    return stat(path.c_str(), &about) == 0 && about.st_ino == map.inode && S_ISREG(about.st_mode);
  };
  if (map.path.starts_with('/') && !is_nameless(map.path) && matches(process + "/root" + map.path))
    return static_cast<uint64_t>(about.st_size);
  if (map.path.starts_with("/SYSV") || map.path.starts_with("/dev/zero")) return {};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(process + "/fd", ignored))
    if (matches(entry.path().string())) return static_cast<uint64_t>(about.st_size);
  return {};
}

}  // namespace

Result<std::vector<MappedObject>> mapped_objects(pid_t pid) {
  const std::string process = fmt::format("/proc/{}", pid);
  auto maps = read_memory_map(process);
  if (!maps && access(process.c_str(), F_OK) != 0) return fail(ErrorCode::not_found, "process {} has ended", pid);
  if (!maps) return std::unexpected(maps.error());
  std::map<std::pair<uint64_t, uint64_t>, MappedObject> found;
  std::optional<std::set<dev_t>> in_memory;
  std::optional<std::set<uint64_t>> could_be;
  for (const MappedRange& map : *maps) {
    if (!map.shared || !map.inode || (map.low >= shim::kOwnLow && map.low < shim::kOwnEnd)) continue;
    const bool writable = map.protection & PROT_WRITE;
    if (!map.path.starts_with('/') || map.path.starts_with("/[")) continue;  // of an anonymous inode, such as perf's
    struct stat about;
    if (!is_nameless(map.path) && map.path.starts_with("/dev/") &&
        stat((process + "/root" + map.path).c_str(), &about) == 0 && !S_ISREG(about.st_mode))
      return fail(ErrorCode::unsupported, "it has mapped {}, a device", map.path);
    MappedObject& each = found[{map.device, map.inode}];
    const bool first = each.object.inode == 0;
    each.object.device = map.device;
    each.object.inode = map.inode;
    if (first && !is_nameless(map.path) && !in_memory) in_memory = devices_in_memory(process);
    if (first) each.object.in_memory = is_nameless(map.path) || in_memory->contains(map.device);
    each.object.is_segment = map.path.starts_with("/SYSV");
    if (!writable && !could_be && !each.object.in_memory) could_be = could_be_writable(process);
    each.can_change |= writable || (could_be && could_be->contains(map.low));
    const auto size = first ? size_of_file(process, map) : std::nullopt;
    if (size) each.object.size = *size, each.size_known = true;
    if (!each.size_known) each.object.size = std::max(each.object.size, map.offset + (map.high - map.low));
  }
  std::vector<MappedObject> list;
  for (const auto& [key, each] : found) list.push_back(each);
  return list;
}

}  // namespace friday
