// /proc/PID/maps as read by memory_map.h: lines of the kernel's, lines that are none, and this process's own.
#include "core/base/memory_map.h"

#include <sys/mman.h>
#include <sys/sysmacros.h>

#include <gtest/gtest.h>

namespace friday {
namespace {

TEST(MemoryMap, ReadsWhatTheKernelWrites) {
  const auto maps = parse_memory_map(
      "00400000-00401000 r-xp 00001000 08:0a 1234                               /usr/bin/a program (deleted)\n"
      "7ffd0000-7ffe0000 rw-p 00000000 00:00 0                                  [stack]\n"
      "7fff0000-7fff1000 ---p 00000000 00:00 0 \n"
      "10000000000-10000002000 rw-s 00000000 00:01 77                           /memfd:friday-shared-1 (deleted)\n");
  ASSERT_TRUE(maps) << maps.error().message;
  ASSERT_EQ(maps->size(), 4u);
  const MappedRange& code = (*maps)[0];
  EXPECT_EQ(code.low, 0x400000u);
  EXPECT_EQ(code.high, 0x401000u);
  EXPECT_EQ(code.protection, unsigned{PROT_READ | PROT_EXEC});
  EXPECT_FALSE(code.shared);
  EXPECT_EQ(code.offset, 0x1000u);
  EXPECT_EQ(code.device, makedev(8, 10));
  EXPECT_EQ(code.inode, 1234u);
  EXPECT_EQ(code.path, "/usr/bin/a program (deleted)");
  EXPECT_EQ((*maps)[1].path, "[stack]");
  EXPECT_EQ((*maps)[2].path, "");
  EXPECT_EQ((*maps)[2].protection, unsigned{PROT_NONE});
  EXPECT_TRUE((*maps)[3].shared);
  EXPECT_EQ((*maps)[3].low, 0x10000000000u);
}

TEST(MemoryMap, RefusesWhatIsNoLineOfIt) {
  for (const char* line :
       {"hello\n", "00400000-00401000\n", "00400000-00401000 r-\n", "00400000 00401000 r-xp 0 08:0a 1\n",
        "00400000-00401000 r-xp 00001000 08:0a none\n", "\n"}) {
    const auto maps = parse_memory_map(line);
    ASSERT_FALSE(maps) << line;
    EXPECT_NE(maps.error().message.find("/proc/PID/maps"), std::string::npos) << maps.error().message;
  }
  EXPECT_TRUE(parse_memory_map("")->empty());
}

TEST(MemoryMap, FindsAMappingOfThisProcess) {
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  const auto maps = read_memory_map("/proc/self");
  ASSERT_TRUE(maps) << maps.error().message;
  const auto at = reinterpret_cast<uint64_t>(page);
  bool found = false;
  for (const MappedRange& map : *maps) found |= map.low <= at && at < map.high && map.shared && map.protection == 3;
  EXPECT_TRUE(found);
  munmap(page, 4096);
  EXPECT_FALSE(read_memory_map("/proc/self/absent"));
}

}  // namespace
}  // namespace friday
