#include "core/replay/memory_copy.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/base/fd.h"
#include "core/base/memory_map.h"
#include "core/shim/trace_format.h"

namespace friday {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMost = 512ull << 20;  // limit for the bytes that are copied for one call

bool is_ours(uint64_t low) {
  using namespace shim;
  return (low >= format::kWindowAddress && low < format::kWindowAddress + format::kWindowSize) ||
         (low >= kStubAddress && low < kStubAddress + kStubSize) ||
         (low >= kScheduleAddress && low < kWorkspaceAddress) || low >= 0x800000000000;
}

// Calls `use(from, to)` for runs of pages in [low, high) that are in memory or swapped out.
template <typename Use>
Result<void> each_present(int pagemap, uint64_t low, uint64_t high, Use use) {
  std::vector<uint64_t> entries;
  constexpr uint64_t kSome = 64 << 10;
  for (uint64_t at = low; at < high;) {
    const uint64_t count = std::min((high - at) / kPage, kSome);
    entries.resize(count);
    const ssize_t got = pread(pagemap, entries.data(), count * 8, static_cast<off_t>(at / kPage * 8));
    if (got != static_cast<ssize_t>(count * 8))
      return fail(ErrorCode::io, "cannot read which pages a node's process has (/proc/PID/pagemap)");
    for (uint64_t i = 0; i < count;) {
      uint64_t end = i;
      while (end < count && entries[end] >> 62) end++;
      if (end > i) FRIDAY_TRY_VOID(use(at + i * kPage, at + end * kPage));
      i = std::max(end, i + 1);
    }
    at += count * kPage;
  }
  return {};
}

}  // namespace

std::optional<DeadStack> DeadStack::below(uint64_t live, ReplayNode& node) {
  for (const uint64_t size : {kDeadStack, kDeadStack / 8}) {
    DeadStack dead{Addr{live - size}, std::vector<std::byte>(size)};
    if (node.read(dead.low, dead.bytes)) return dead;
  }
  return std::nullopt;
}

Result<std::vector<MemoryCopy::Range>> MemoryCopy::ranges_of(ReplayNode& node) {
  FRIDAY_TRY(maps, read_memory_map(memory_directory(node.process().pid())));
  std::vector<Range> ranges;
  for (const MappedRange& map : maps) {
    if (is_ours(map.low)) continue;
    bool writable = map.protection & PROT_WRITE;
    if (auto programs = node.watches().program_protection(Addr{map.low})) writable |= (*programs & PROT_WRITE) != 0;
    ranges.push_back({map.low, map.high, map.protection, writable, map.inode == 0 && !map.shared});
  }
  return ranges;
}

Result<MemoryCopy> MemoryCopy::take(ReplayNode& node) {
  MemoryCopy copy;
  FRIDAY_TRY(ranges, ranges_of(node));
  copy.ranges_ = std::move(ranges);
  UniqueFd pagemap(open((memory_directory(node.process().pid()) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) return fail(ErrorCode::component_died, "node {}: its process is gone", node.id());
  uint64_t total = 0;
  auto keep = [&](uint64_t low, uint64_t high) -> Result<void> {
    if ((total += high - low) > kMost)
      return fail(
          ErrorCode::unsupported,
          "node {} has more than {} MiB of memory that a called function could change, too much to undo the call",
          node.id(), kMost >> 20);
    Run run{low, std::vector<std::byte>(high - low)};
    if (!node.process().read(low, run.bytes.data(), run.bytes.size()))
      return fail(ErrorCode::io, "node {}: cannot copy its memory at {:#x}", node.id(), low);
    copy.runs_.push_back(std::move(run));
    return {};
  };
  for (const Range& range : copy.ranges_) {
    if (!range.writable) continue;
    if (range.sparse) FRIDAY_TRY_VOID(each_present(pagemap.get(), range.low, range.high, keep));
    else FRIDAY_TRY_VOID(keep(range.low, range.high));
  }
  return copy;
}

// Removes what the call has mapped, and maps what it has unmapped; restore() then fills that with its contents.
Result<void> MemoryCopy::restore_mappings(ReplayNode& node) const {
  FRIDAY_TRY(now, ranges_of(node));
  std::vector<uint64_t> bounds;
  for (const std::vector<Range>* list : {&ranges_, &std::as_const(now)})
    for (const Range& range : *list) bounds.insert(bounds.end(), {range.low, range.high});
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  auto at = [](const std::vector<Range>& list, uint64_t address) -> const Range* {
    auto it = std::upper_bound(list.begin(), list.end(), address, [](uint64_t a, const Range& r) { return a < r.low; });
    return it == list.begin() || address >= (--it)->high ? nullptr : &*it;
  };
  for (size_t i = 0; i + 1 < bounds.size(); i++) {
    const uint64_t low = bounds[i], size = bounds[i + 1] - low;
    const Range *before = at(ranges_, low), *after = at(now, low);
    Result<int64_t> done = 0;
    if (after && !before) {
      const uint64_t arguments[] = {low, size};
      done = node.inject(SYS_munmap, arguments);
    } else if (before && !after) {
      const uint64_t arguments[] = {low, size, before->protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, ~0ull, 0};
      done = node.inject(SYS_mmap, arguments);
    } else if (before && before->protection != after->protection) {
      const uint64_t arguments[] = {low, size, before->protection};
      done = node.inject(SYS_mprotect, arguments);
    }
    if (!done) return std::unexpected(done.error());
    if (*done < 0 && *done > -4096)
      return fail(ErrorCode::io, "node {}: cannot restore the mapping at {:#x}: {}", node.id(), low,
                  strerror(static_cast<int>(-*done)));
  }
  return {};
}

template <typename Use>
Result<void> MemoryCopy::each_changed(ReplayNode& node, Use use) const {
  constexpr size_t kSome = 64 * kPage;
  std::vector<std::byte> now(kSome);
  bool more = true;
  auto compare = [&](uint64_t address, const std::byte* then, size_t size = kPage) -> Result<void> {
    if (!node.process().read(address, now.data(), size))
      return fail(ErrorCode::io, "node {}: cannot read its memory at {:#x}", node.id(), address);
    for (size_t i = 0; more && i < size; i += kPage) {
      if (memcmp(&now[i], then + i, kPage) == 0) continue;
      FRIDAY_TRY(go_on, use(address + i, &now[i], then + i));
      more = go_on;
    }
    return {};
  };
  for (const Run& run : runs_)
    for (size_t i = 0; more && i < run.bytes.size(); i += kSome)
      FRIDAY_TRY_VOID(compare(run.low + i, &run.bytes[i], std::min(kSome, run.bytes.size() - i)));
  // A page of a sparse range that was not there before the call contained zeros.
  UniqueFd pagemap(open((memory_directory(node.process().pid()) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  if (!pagemap) return fail(ErrorCode::component_died, "node {}: its process is gone", node.id());
  const std::vector<std::byte> zeros(kPage);
  auto known = runs_.begin();
  for (const Range& range : ranges_) {
    if (!range.writable || !range.sparse || !more) continue;
    FRIDAY_TRY_VOID(
        each_present(pagemap.get(), range.low, range.high, [&](uint64_t low, uint64_t high) -> Result<void> {
          for (; more && low < high; low += kPage) {
            while (known != runs_.end() && known->low + known->bytes.size() <= low) ++known;
            if (known == runs_.end() || low < known->low) FRIDAY_TRY_VOID(compare(low, zeros.data()));
          }
          return {};
        }));
  }
  return {};
}

Result<size_t> MemoryCopy::restore(ReplayNode& node) const {
  FRIDAY_TRY_VOID(restore_mappings(node));
  size_t restored = 0;
  FRIDAY_TRY_VOID(each_changed(node, [&](uint64_t address, const std::byte*, const std::byte* then) -> Result<bool> {
    if (!node.write_raw(Addr{address}, std::span(then, kPage)))  // a page may be mapped twice, for a watch
      return fail(ErrorCode::io, "node {}: cannot restore its memory at {:#x}", node.id(), address);
    restored++;
    if (node.watches().size()) (void)node.watches().note_write(Addr{address}, kPage);
    return true;
  }));
  return restored;
}

Result<bool> MemoryCopy::unchanged(ReplayNode& node, uint64_t stack_pointer) const {
  FRIDAY_TRY(now, ranges_of(node));
  if (now != ranges_) return false;
  bool same = true;
  FRIDAY_TRY_VOID(each_changed(node, [&](uint64_t address, const std::byte* is, const std::byte* was) -> Result<bool> {
    // What the shim keeps of the program, such as its handlers of signals, is in the shim's own data.
    const bool own = (address >= format::kWindowAddress && address < shim::kOwnEnd) || node.in_own_area(address);
    const uint64_t live = stack_pointer - kRedZone;
    const size_t dead = address < live && address + kDeadStack >= live ? std::min(kPage, live - address) : 0;
    return same = own || memcmp(is + dead, was + dead, kPage - dead) == 0;
  }));
  return same;
}

}  // namespace friday
