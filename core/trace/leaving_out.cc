#include "core/trace/leaving_out.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>

#include "core/base/printable.h"
#include "core/trace/columns.h"

namespace friday {

static_assert(kPackBlock / kLeastPiece <= kMostLeftOut, "a block can have so many ranges");

namespace {

// Removes the last run, which is list[first] and what follows, if it is too short.
void end_run(std::vector<LeftOut>& list, size_t first) {
  if (first < list.size() && list.back().end() - list[first].offset < kLeastRun) list.resize(first);
}

// Those of `ranges`, from the first one on, that lie in the block of these bytes, which begins at `at`. None of them
// are in a block that is a part of a record.
std::span<const LeftOut> take(std::span<const std::byte> block, uint64_t at, std::span<const LeftOut>& ranges) {
  size_t count = 0;
  while (count < ranges.size() && ranges[count].offset < at + block.size()) count++;
  const auto taken = ranges.first(count);
  ranges = ranges.subspan(count);
  return whole_records(block) == block.size() ? taken : taken.first(0);
}

}  // namespace

std::vector<LeftOut> choose_left_out(std::span<const Regenerable> regenerable, uint64_t heads) {
  std::vector<LeftOut> list;
  size_t first = 0;  // of the current run: what stands without gaps in the trace
  for (const Regenerable& bytes : regenerable) {
    uint64_t kept = heads - std::min(heads, bytes.in_message);
    if (bytes.stream && bytes.in_stream < kKeptOfStream) kept = std::max(kept, kKeptOfStream - bytes.in_stream);
    if (kept + kLeastPiece > bytes.size) continue;
    LeftOut range = bytes;
    range.offset += kept;
    range.size -= kept;
    range.source.from += kept;
    if (!list.empty() && list.back().end() != range.offset) {
      end_run(list, first);
      first = list.size();
    }
    list.push_back(range);
  }
  end_run(list, first);
  return list;
}

void for_each_foreign(std::span<const Regenerable> known, uint64_t from, uint64_t to,
                      const std::function<void(uint64_t from, uint64_t to)>& add) {
  for (auto next = std::ranges::upper_bound(known, from, {}, &LeftOut::end); from < to; ++next) {
    const uint64_t until = next == known.end() ? to : std::clamp(next->offset, from, to);
    if (until > from) add(from, until);
    if (next == known.end()) return;
    from = next->end();
  }
}

bool is_named(std::span<const std::string> patterns, std::span<const std::string> names) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
  });
}

Result<void> check_ended(const NodeInfo& node) {
  if (node.problem) return std::unexpected(*node.problem);
  if (node.end.how == NodeEnd::How::running && (program_lives(node) || recorder_lives(node)))
    return fail(ErrorCode::unsupported, "node {} ({}) is still being recorded; wait for its end", node.id,
                printable(node.name));
  return {};
}

uint64_t stored_bytes(const Beneath& trace) {
  std::error_code none;
  uint64_t bytes = 0;
  for (const std::string& form : {trace.path(), packed(trace).path()})
    if (const auto size = std::filesystem::file_size(form, none); !none) bytes += size;
  return bytes;
}

Result<void> write_without(const TraceReader& trace, std::span<const LeftOut> ranges, const Beneath& file) {
  FRIDAY_TRY(fd, trace.descriptor());
  FRIDAY_TRY(writer, PackedWriter::create(file));
  BlockCutter cutter;
  std::vector<std::byte> bytes;
  for (uint64_t at = writer.end(); at < trace.end_offset(); at = writer.end()) {
    bytes.resize(std::min(kPackBlock, trace.end_offset() - at));
    FRIDAY_TRY_VOID(read_exactly(fd.get(), bytes, at));
    const auto block = std::span(bytes).first(cutter.cut(bytes));
    const auto left_out = take(block, at, ranges);
    const uint64_t payload = take_out(block, at, left_out);
    FRIDAY_TRY_VOID(writer.append(block, {left_out, payload}));
  }
  std::vector<std::byte> page(format::kHeaderSize);
  FRIDAY_TRY_VOID(read_exactly(fd.get(), page, 0));
  auto* header = reinterpret_cast<format::FileHeader*>(page.data());
  header->allocated = header->committed = trace.end_offset();
  header->packing = 0;
  seal_header(page);
  return writer.finish(page);
}

}  // namespace friday
