// friday_pack_cost TRACE...: what it costs to store traces as columns, beside zstd frames of the same blocks. Prints
// JSON with sums over the traces: events, bytes of the records, bytes of both forms, and the processor time of both in
// seconds. The start images are left out.
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "core/trace/columns.h"
#include "core/trace/packed.h"
#include "core/trace/record.h"
#include "core/trace/trace_file.h"

namespace friday {
namespace {

struct Sums {
  uint64_t events = 0, raw = 0, frames = 0, columns = 0;
  double frame_seconds = 0, column_seconds = 0, back_seconds = 0;
};

template <typename Work>
double seconds_of(Work&& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

uint64_t first_event(std::span<const std::byte> trace, uint64_t at) {
  for (; at < trace.size(); at += reinterpret_cast<const format::RecordHeader*>(trace.data() + at)->size)
    if (is_event(reinterpret_cast<const format::RecordHeader*>(trace.data() + at)->type)) break;
  return at;
}

Result<void> measure(const char* path, Sums& sums) {
  FRIDAY_TRY(file, TraceFile::open(Beneath(path), NodeId{0}));
  if (auto problem = file->need(0, file->header().committed)) return fail(ErrorCode::bad_input, "{}", *problem);
  const std::span trace(file->data(), file->header().committed);
  const std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  std::vector<std::byte> frame(ZSTD_compressBound(kPackBlock)), back;
  sums.events += file->header().events;
  for (uint64_t at = first_event(trace, file->header().header_size); at < trace.size();) {
    const auto block = trace.subspan(at, whole_records(trace.subspan(at, std::min(kPackBlock, trace.size() - at))));
    if (block.empty()) return fail(ErrorCode::unsupported, "{} has a record larger than a block", path);
    size_t size = 0;
    sums.frame_seconds += seconds_of(
        [&] { size = ZSTD_compressCCtx(context.get(), frame.data(), frame.size(), block.data(), block.size(), 1); });
    std::optional<std::vector<std::byte>> columns;
    sums.column_seconds += seconds_of([&] { columns = to_columns(block, at, context.get()); });
    if (!columns) return fail(ErrorCode::bad_input, "the records of {} are not those of a recorder", path);
    back.resize(block.size());
    std::optional<std::string> problem;
    sums.back_seconds += seconds_of([&] { problem = from_columns(*columns, at, back); });
    if (problem || !std::ranges::equal(back, block)) return fail(ErrorCode::bad_input, "{} does not come back", path);
    sums.raw += block.size(), sums.frames += size, sums.columns += columns->size();
    at += block.size();
  }
  return {};
}

}  // namespace
}  // namespace friday

int main(int argc, char** argv) {
  friday::Sums sums;
  for (int n = 1; n < argc; n++)
    if (auto done = friday::measure(argv[n], sums); !done)
      return fprintf(stderr, "%s\n", friday::describe(done.error()).c_str()), 2;
  fmt::print(
      "{{\"events\": {}, \"raw\": {}, \"frames\": {}, \"columns\": {}, \"frame_seconds\": {}, \"column_seconds\": {}, "
      "\"back_seconds\": {}}}\n",
      sums.events, sums.raw, sums.frames, sums.columns, sums.frame_seconds, sums.column_seconds, sums.back_seconds);
  return 0;
}
