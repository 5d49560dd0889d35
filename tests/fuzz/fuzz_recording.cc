// A recording of two nodes: their facts, what is matched between them, and their order. The input is the length of the
// first trace (4 bytes), the two traces, and between them nothing.
#include <cstring>

#include "core/trace/logical_time.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 4) return 0;
  uint32_t first;
  memcpy(&first, data, 4);
  data += 4, size -= 4;
  first = std::min<uint32_t>(first, static_cast<uint32_t>(size));
  static const friday::fuzz::Directory directory;
  static const bool made = [] {
    for (const char* part : {"/nodes", "/nodes/0", "/nodes/1"})
      std::filesystem::create_directory(directory.path() + part);
    const std::string marker = "{\"format\": 1, \"created\": 1}";
    directory.write("recording.json", reinterpret_cast<const uint8_t*>(marker.data()), marker.size());
    return true;
  }();
  (void)made;
  directory.write("nodes/0/trace", data, first);
  directory.write("nodes/1/trace", data + first, size - first);
  auto recording = friday::Recording::open(directory.path());
  if (!recording) return 0;
  for (const auto& node : recording->nodes()) friday::fuzz::sink = friday::fuzz::sink + describe(node.end).size();
  if (auto schedule = friday::Schedule::compute(*recording)) {
    for (const auto& turn : schedule->turns()) friday::fuzz::sink = friday::fuzz::sink + turn.count;
    (void)schedule->traffic_between();
  }
  return 0;
}
