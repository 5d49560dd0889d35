#include "core/replay/memory_regions.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <string>
#include <string_view>

#include "core/base/files.h"
#include "core/base/numbers.h"
#include "core/trace/record.h"

namespace friday {
namespace {

// Whether every process of a replay has this memory, with the same contents.
bool is_given(const MappedRange& map) {
  const auto in = [&](uint64_t low, uint64_t size) { return map.low >= low && map.low < low + size; };
  return in(format::kWindowAddress, format::kWindowSize) || in(shim::kStubAddress, shim::kStubSize) ||
         in(shim::kScheduleAddress, shim::kWorkspaceAddress - shim::kScheduleAddress) ||
         map.low >= uint64_t{1} << 47;  // the kernel's vsyscall page
}

// Begins like "7f12...-7f13... rw-p", unlike the lines about a mapping, which begin with a name and a colon.
bool begins_mapping(std::string_view line) {
  const size_t dash = line.find_first_not_of("0123456789abcdef");
  return dash != 0 && dash != std::string_view::npos && line[dash] == '-';
}

// The number in a line like "Swap:    12 kB".
uint64_t number_in(std::string_view line) {
  const size_t from = line.find_first_of("0123456789"), end = line.find_first_not_of("0123456789", from);
  return from == std::string_view::npos ? 0 : canonical_number(line.substr(from, end - from)).value_or(0);
}

}  // namespace

// From /proc/PID/smaps, which has the lines of /proc/PID/maps and behind each what the kernel knows of it, proc(5).
Result<std::vector<MemoryRegion>> read_regions(ReplayNode& node) {
  FRIDAY_TRY(text, read_file(fmt::format("/proc/{}/smaps", node.process().pid())));
  std::string maps;
  struct About {
    bool grows_down = false, has_private = false;
  };
  std::vector<About> about;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (begins_mapping(line)) {
      maps.append(line).append("\n");
      about.emplace_back();
    } else if (!about.empty() && (line.starts_with("Anonymous:") || line.starts_with("Swap:"))) {
      about.back().has_private |= number_in(line) > 0;
    } else if (!about.empty() && line.starts_with("VmFlags:")) {
      about.back().grows_down = line.find(" gd") != std::string_view::npos;
    }
  }
  FRIDAY_TRY(parsed, parse_memory_map(maps));
  std::vector<MemoryRegion> regions;
  for (size_t i = 0; i < parsed.size() && i < about.size(); i++)
    if (!is_given(parsed[i])) regions.push_back({std::move(parsed[i]), about[i].grows_down, about[i].has_private});
  return regions;
}

// From /proc/PID/pagemap: bit 63 says that a page is present, 62 that it is swapped out, and 61 that it is one of a
// file or of shared memory (Documentation/admin-guide/mm/pagemap.rst).
Result<std::vector<uint64_t>> own_pages(ReplayNode& node, uint64_t low, uint64_t high) {
  const UniqueFd map(open(fmt::format("/proc/{}/pagemap", node.process().pid()).c_str(), O_RDONLY | O_CLOEXEC));
  if (!map) return fail_errno(errno, fmt::format("the pages of node {}", node.id()));
  constexpr uint64_t kThere = uint64_t{1} << 63 | uint64_t{1} << 62, kOfFile = uint64_t{1} << 61;
  std::vector<uint64_t> pages, words(4096);
  for (uint64_t at = low; at < high; at += words.size() * kPageBytes) {
    words.resize(std::min<uint64_t>(words.size(), (high - at) / kPageBytes));
    FRIDAY_TRY_VOID(read_exactly(map.get(), std::as_writable_bytes(std::span(words)), at / kPageBytes * 8));
    for (size_t i = 0; i < words.size(); i++)
      if ((words[i] & kThere) && !(words[i] & kOfFile)) pages.push_back(at + i * kPageBytes);
  }
  return pages;
}

}  // namespace friday
