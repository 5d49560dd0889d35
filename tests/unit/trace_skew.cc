// friday_skew REC SECONDS PPM: makes the traces of a recording say that their host's CLOCK_MONOTONIC was ahead by
// SECONDS when each began and gained PPM since. A kernel can shift this clock for a test (time namespaces) but not let
// it drift; so the drift is written into a copy of a real recording. Wall clocks stay as they are. Files are changed in
// place.
#include <cstdio>
#include <cstdlib>

#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/trace/record.h"
#include "core/trace/recording.h"

namespace friday {
namespace {

using namespace format;

struct Skew {
  double seconds, ppm;
  int64_t origin = 0;  // on CLOCK_MONOTONIC: the same for all nodes of the host
  int64_t operator()(int64_t ns) const {
    return ns + static_cast<int64_t>(seconds * 1e9) +
           static_cast<int64_t>(static_cast<double>(ns - origin) * ppm * 1e-6);
  }
};

template <typename F>
void for_each_record(std::string& trace, F f) {
  auto* header = reinterpret_cast<FileHeader*>(trace.data());
  for (uint64_t at = header->header_size; at < header->committed;) {
    auto* record = reinterpret_cast<RecordHeader*>(trace.data() + at);
    f(record, at);
    at += record->size;
  }
}

void skew_trace(std::string& trace, const Skew& skew) {
  auto* header = reinterpret_cast<FileHeader*>(trace.data());
  header->checksum = 0;
  const bool ticks_are_ns = header->clock_kind == kClockMonotonic;
  auto move = [&](uint64_t& ticks) {
    if (ticks_are_ns) ticks = static_cast<uint64_t>(skew(static_cast<int64_t>(ticks)));
  };
  if (!ticks_are_ns)
    header->ticks_per_second =
        static_cast<uint64_t>(static_cast<double>(header->ticks_per_second) / (1 + skew.ppm * 1e-6));
  for_each_record(trace, [&](RecordHeader* record, uint64_t at) {
    if (record->type == kClockRecord) {
      auto* clock = reinterpret_cast<ClockRecord*>(record);
      clock->monotonic_ns = skew(clock->monotonic_ns);
      move(clock->ticks);
    } else if (record->type == kEndRecord) {
      move(reinterpret_cast<EndRecord*>(record)->ticks);
    } else if (is_event(record->type)) {
      auto* event = reinterpret_cast<EventRecord*>(record);
      move(event->entry_ticks);
      if (!(record->flags & kFlagClock)) move(event->return_ticks);
    }
    record->checksum = record_checksum(std::as_bytes(std::span(trace).subspan(at, record->size)), at);
  });
}

Result<void> skew_recording(const char* path, Skew skew) {
  FRIDAY_TRY(recording, Recording::open(path));
  for (const NodeInfo& node : recording.nodes()) {
    FRIDAY_TRY(trace, read_file(recording.trace(node.id).path()));
    for_each_record(trace, [&](RecordHeader* record, uint64_t) {
      if (record->type == kClockRecord && skew.origin == 0)
        skew.origin = reinterpret_cast<ClockRecord*>(record)->monotonic_ns;
    });
    skew_trace(trace, skew);
    FRIDAY_TRY_VOID(write_file_atomically(recording.trace(node.id).path(), trace));
  }
  return {};
}

}  // namespace
}  // namespace friday

int main(int argc, char** argv) {
  if (argc != 4) return fprintf(stderr, "usage: friday_skew REC SECONDS PPM\n"), 2;
  auto done = friday::skew_recording(argv[1], {atof(argv[2]), atof(argv[3])});
  if (!done) return fprintf(stderr, "%s\n", friday::describe(done.error()).c_str()), 2;
  return 0;
}
