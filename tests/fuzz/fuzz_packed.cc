// A compressed trace: alone, and beside what is left of the plain one. The first byte says which.
#include <cstring>

#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  static const friday::fuzz::Directory directory;
  const std::string plain = directory.path() + "/trace";
  directory.write("trace.zst", data + 1, size - 1);
  unlink(plain.c_str());
  if (data[0] & 1) {
    friday::format::FileHeader header{};
    memcpy(header.magic, friday::format::kMagic, sizeof header.magic);
    header.version = friday::format::kVersion;
    header.header_size = friday::format::kHeaderSize;
    header.clock_kind = friday::format::kClockMonotonic;
    header.ticks_per_second = 1000000000;
    header.packing = 1;
    header.committed = friday::format::kHeaderSize + 8 * (data[0] >> 1) * 64;
    std::string file(reinterpret_cast<const char*>(&header), sizeof header);
    file.resize(data[0] & 2 ? header.committed : friday::format::kHeaderSize);
    directory.write("trace", reinterpret_cast<const uint8_t*>(file.data()), file.size());
  }
  if (auto reader = friday::TraceReader::open_file(plain, friday::NodeId{0})) friday::fuzz::look_at(*reader);
  return 0;
}
