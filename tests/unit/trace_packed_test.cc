// Compressed traces: what is written is read back, whatever a kill or a copy left of it.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "core/trace/packed.h"
#include "core/trace/reader.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::TemporaryRecording;

std::vector<std::byte> pattern(size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>((seed = seed * 1103515245 + 12345) >> 24);
  return bytes;
}

class Packed : public ::testing::Test {
 protected:
  // Three blocks, the last of them short.
  void write(bool whole) {
    auto writer = PackedWriter::create(path());
    ASSERT_TRUE(writer) << writer.error().message;
    for (unsigned n = 0; n < 3; n++) {
      parts_.push_back(pattern(n == 2 ? 999 : 50000, n));
      ASSERT_TRUE(writer->append(parts_.back()));
    }
    EXPECT_EQ(writer->end(), 4096u + 2 * 50000 + 999);
    if (whole) {
      ASSERT_TRUE(writer->finish(pattern(4096, 9)));
    }
    EXPECT_EQ(writer->stored(), size());
  }
  std::string path() const { return recording_.path() + "/trace.zst"; }
  uint64_t size() const { return std::filesystem::file_size(path()); }
  PackedList list() const {
    auto fd = open_file(path(), O_RDONLY);
    auto list = list_packed(fd->get(), path());
    EXPECT_TRUE(list);
    return list ? *list : PackedList{};
  }
  std::optional<std::string> read(const PackedBlock& block, std::vector<std::byte>& out) const {
    auto fd = open_file(path(), O_RDONLY);
    out.resize(block.size);
    return unpack(fd->get(), block, out);
  }

  TemporaryRecording recording_;
  std::vector<std::vector<std::byte>> parts_;
};

// Some kilobytes, of which each block leaves out more pieces than there are calls.
TEST_F(Packed, ListsThatNoFileOfThatSizeCanHaveAreRefused) {
  testing::Script script(0);
  for (int n = 0; n < 24; n++) {
    testing::EventSpec spec = script.call(100, SYS_read, {0, 0x1000, 2 << 20}, 2 << 20);
    spec.parts.memory(0x1000, std::string(2 << 20, '\0'));
    script.writer.add(spec);
  }
  ASSERT_TRUE(script.writer.save(recording_.path() + "/trace"));
  auto plain = read_file(recording_.path() + "/trace");
  ASSERT_TRUE(plain);
  auto records = std::as_bytes(std::span(*plain)).subspan(4096);
  auto writer = PackedWriter::create(path());
  ASSERT_TRUE(writer);
  while (!records.empty()) {
    uint32_t block = 0;
    memcpy(&block, records.data(), sizeof block);
    std::vector<LeftOut> ranges;
    for (uint64_t at = 256; at + 32 <= block; at += 32) ranges.push_back({writer->end() + at, 16, {}});
    ASSERT_TRUE(writer->append(records.first(block), {ranges, 0}));
    records = records.subspan(block);
  }
  EXPECT_LT(size(), 100'000u);
  auto fd = open_file(path(), O_RDONLY);
  auto list = list_packed(fd->get(), path());
  ASSERT_FALSE(list);
  EXPECT_NE(list.error().message.find("cannot have so many"), std::string::npos) << list.error().message;
}

TEST_F(Packed, BlocksComeBack) {
  write(true);
  PackedList all = list();
  ASSERT_EQ(all.blocks.size(), 3u);
  EXPECT_FALSE(all.torn);
  ASSERT_TRUE(all.header);
  EXPECT_EQ(memcmp(all.header->data(), pattern(4096, 9).data(), 4096), 0);
  for (size_t n = 0; n < 3; n++) {
    std::vector<std::byte> out;
    EXPECT_EQ(read(all.blocks[n], out), std::nullopt);
    EXPECT_EQ(out, parts_[n]);
  }
}

TEST_F(Packed, AnyCutLeavesWholeBlocks) {
  write(true);
  const auto whole = list();
  const uint64_t full = size();
  for (uint64_t cut = full; cut-- > 0; cut -= std::min<uint64_t>(cut, 997)) {
    ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(cut)), 0);
    const auto rest = list();
    EXPECT_FALSE(rest.header) << cut;
    size_t expected = 0;
    while (expected < 3 && whole.blocks[expected].place + whole.blocks[expected].stored <= cut) expected++;
    EXPECT_EQ(rest.blocks.size(), expected) << cut;
    const uint64_t end = expected ? whole.blocks[expected - 1].place + whole.blocks[expected - 1].stored : 0;
    EXPECT_EQ(rest.torn, cut != end) << cut;
  }
}

TEST_F(Packed, AChangedByteIsFound) {
  write(false);
  const auto before = list();
  auto fd = open_file(path(), O_RDWR);
  const auto& block = before.blocks[1];
  for (uint64_t at = block.place; at < block.place + block.stored; at += 4999) {
    char byte;
    ASSERT_EQ(::pread(fd->get(), &byte, 1, static_cast<off_t>(at)), 1);
    const char other = static_cast<char>(byte ^ 0x10);
    ASSERT_EQ(::pwrite(fd->get(), &other, 1, static_cast<off_t>(at)), 1);
    std::vector<std::byte> out;
    EXPECT_NE(read(block, out), std::nullopt) << at;
    ASSERT_EQ(::pwrite(fd->get(), &byte, 1, static_cast<off_t>(at)), 1);
  }
}

TEST_F(Packed, AHeaderIsReplaced) {
  write(true);
  ASSERT_TRUE(replace_packed_header(path(), pattern(4096, 77)));
  const auto all = list();
  ASSERT_TRUE(all.header);
  EXPECT_EQ(memcmp(all.header->data(), pattern(4096, 77).data(), 4096), 0);
  EXPECT_EQ(all.blocks.size(), 3u);
  ASSERT_EQ(::truncate(path().c_str(), static_cast<off_t>(size() - 1)), 0);
  EXPECT_FALSE(replace_packed_header(path(), pattern(4096, 1)));
}

TEST_F(Packed, AFullDiskLeavesTheFileAsItWas) {
  // The limit of file sizes stands for the disk.
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  auto writer = PackedWriter::create(path());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append(pattern(50000, 1)));
  const uint64_t stored = writer->stored();
  rlimit old{}, small{};
  getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = stored + 10000;
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_FALSE(writer->append(pattern(50000, 2)));
  setrlimit(RLIMIT_FSIZE, &old);
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(size(), stored);
  ASSERT_TRUE(writer->append(pattern(50000, 3)));
  EXPECT_EQ(list().blocks.size(), 2u);
}

}  // namespace
}  // namespace friday
