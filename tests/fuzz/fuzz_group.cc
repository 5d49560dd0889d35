// A group file.
#include "core/record/group.h"
#include "tests/fuzz/fuzz_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const friday::fuzz::Directory directory;
  directory.write("group.toml", data, size);
  if (auto group = friday::read_group(directory.path() + "/group.toml"))
    friday::fuzz::sink = friday::fuzz::sink + group->programs.size();
  return 0;
}
