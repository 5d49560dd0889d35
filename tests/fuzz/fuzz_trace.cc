// A trace as a plain file.
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const friday::fuzz::Directory directory;
  directory.write("trace", data, size);
  if (auto reader = friday::TraceReader::open_file(directory.path() + "/trace", friday::NodeId{0}))
    friday::fuzz::look_at(*reader);
  return 0;
}
