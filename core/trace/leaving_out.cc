#include "core/trace/leaving_out.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

namespace friday {

namespace {

void add_run(std::vector<LeftOut>& list, uint64_t from, uint64_t to) {
  if (to - from >= kLeastRun) list.push_back({from, to - from, 0});
}

// Takes what lies in the block of these bytes, which begins at `at`, from the first of `ranges` on: puts zeros there.
std::vector<LeftOut> take_out(std::span<std::byte> block, uint64_t at, std::span<const LeftOut>& ranges) {
  std::vector<LeftOut> taken;
  const uint64_t end = at + block.size();
  for (; !ranges.empty() && ranges.front().offset < end; ranges = ranges.subspan(1)) {
    LeftOut range = ranges.front();
    if (range.offset < at) range.size -= std::exchange(range.offset, at) - ranges.front().offset;
    const bool crosses = range.end() > end;
    if (crosses) range.size = end - range.offset;
    const auto bytes = block.subspan(range.offset - at, range.size);
    range.hash = XXH3_64bits_withSeed(bytes.data(), bytes.size(), range.offset);
    std::ranges::fill(bytes, std::byte{});
    taken.push_back(range);
    if (crosses) break;
  }
  return taken;
}

}  // namespace

std::vector<LeftOut> choose_left_out(std::span<const Regenerable> regenerable) {
  std::vector<LeftOut> list;
  uint64_t from = 0, to = 0;  // the current run: what stands without gaps in the trace
  for (const Regenerable& bytes : regenerable) {
    uint64_t kept = bytes.in_message < kKeptOfMessage ? kKeptOfMessage - bytes.in_message : 0;
    if (bytes.stream && bytes.in_stream < kKeptOfStream) kept = std::max(kept, kKeptOfStream - bytes.in_stream);
    if (kept >= bytes.size) continue;
    if (kept > 0 || bytes.offset != to) {
      add_run(list, from, to);
      from = bytes.offset + kept;
    }
    to = bytes.offset + bytes.size;
  }
  add_run(list, from, to);
  return list;
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
    const auto left_out = take_out(block, at, ranges);
    FRIDAY_TRY_VOID(writer.append(block, left_out));
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
