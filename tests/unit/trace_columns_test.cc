// The compact form of a trace: what was encoded is decoded, byte for byte, whatever the records hold; and nothing that
// is decoded can do harm.
#include "core/trace/columns.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <zstd.h>

#include <memory>
#include <random>

#include "core/trace/packed.h"
#include "core/trace/record.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::EventSpec;
using testing::Script;
using Bytes = std::vector<std::byte>;

constexpr uint64_t kOffset = format::kHeaderSize;

class Columns : public ::testing::Test {
 protected:
  uint64_t any(uint64_t below) { return random_() % below; }
  std::string text(size_t size) {
    std::string letters(size, ' ');
    for (char& letter : letters) letter = static_cast<char>(random_());
    return letters;
  }

  // An event such as programs have them: most fields as in the events before, some different.
  void add_event(Script& script) {
    now_ += any(5000);
    EventSpec spec = script.call(now_, static_cast<uint16_t>(any(6)), {});
    for (uint64_t n = any(7); n-- > 0;) spec.arguments.push_back(any(3) ? any(8) : random_());
    spec.thread = static_cast<uint32_t>(any(10) ? 0 : any(4));
    spec.result = any(4) ? static_cast<int64_t>(any(300)) : -static_cast<int64_t>(any(40));
    spec.input_hash = any(3) ? 0 : any(2) ? 77 : random_();
    spec.flags = any(20) ? 0 : static_cast<uint16_t>(format::kFlagRestarted);
    if (!any(4)) {  // a clock is read
      spec.call = any(2) ? SYS_clock_gettime : SYS_gettimeofday;
      spec.flags = format::kFlagClock;
      spec.arguments = {any(2), 0x7000};
      spec.input_hash = now_ / 1'000'000'000;
      spec.return_ticks = now_ % 1'000'000'000;
    }
    for (uint64_t n = any(4); n-- > 0;) add_part(spec);
    script.writer.add(spec);
  }
  void add_part(EventSpec& spec) {
    const uint64_t address = !spec.arguments.empty() && any(3) ? spec.arguments.back() + any(3) * 16 : random_();
    switch (any(4)) {
      case 0: spec.parts.memory(address, text(any(2) ? static_cast<size_t>(std::abs(spec.result)) : any(2000))); break;
      case 1: spec.parts.path(text(any(30))); break;
      case 2: {
        const std::string bytes = text(200);
        spec.parts.add(any(2) ? format::kSites : format::kOutput, std::as_bytes(std::span(bytes)), any(2));
        break;
      }
      default: {
        format::TransferPart part{};
        part.channel = any(3) + 1;
        part.offset = any(2) ? sent_[part.channel] : random_();
        part.length = any(2) ? static_cast<uint64_t>(std::abs(spec.result)) : any(1000);
        part.true_length = any(5) ? part.length : any(1000);
        part.hash = any(3) == 0 ? 0 : random_();
        part.direction = static_cast<uint8_t>(1 + any(2));
        part.representation = static_cast<uint8_t>(1 + any(3));
        part.flags = any(9) ? 0 : static_cast<uint16_t>(any(16));
        part.message = static_cast<uint32_t>(any(5) ? 0 : any(9));
        if (any(2)) part.peer = testing::inet("10.1.2.3", static_cast<uint16_t>(any(5)));
        sent_[part.channel] = part.offset + part.length;
        if (any(2)) spec.parts.record(format::kTransfer, part);
        else spec.parts.add(format::kTransfer, std::as_bytes(std::span(&part, 1)).first(format::kTransferBytes));
      }
    }
  }

  // The records of a trace with all that, behind the header.
  Bytes records(int events) {
    Script script(0);
    for (int n = 0; n < events; n++) {
      if (!any(12)) script.channel(any(9) + 1, format::kChannelStream, 3, testing::inet("10.0.0.1", 1), {});
      if (!any(12)) script.clock(now_, static_cast<int64_t>(random_()));
      if (!any(40)) script.writer.add_pages(0x5000, Bytes(kPageBytes * (1 + any(3)), std::byte{7}));
      add_event(script);
    }
    script.end();
    testing::TemporaryRecording recording;
    recording.save(script.writer);
    auto whole = read_file(recording.trace(0));
    EXPECT_TRUE(whole);
    const auto all = std::as_bytes(std::span(*whole)).subspan(kOffset);
    return {all.begin(), all.end()};
  }

  std::optional<Bytes> encoded(const Bytes& bytes) { return to_columns(bytes, kOffset, context_.get()); }
  void expect_back(const Bytes& bytes) {
    const auto columns = encoded(bytes);
    ASSERT_TRUE(columns);
    Bytes out(bytes.size());
    ASSERT_EQ(from_columns(*columns, kOffset, out), std::nullopt);
    ASSERT_TRUE(out == bytes);
  }

  std::mt19937_64 random_{5};
  uint64_t now_ = 1'000'000;
  std::map<uint64_t, uint64_t> sent_;
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  std::unique_ptr<ZSTD_CCtx, Free> context_{ZSTD_createCCtx()};
};

TEST_F(Columns, AnyRecordsComeBack) {
  for (int round = 0; round < 60; round++) {
    random_.seed(static_cast<uint64_t>(round));
    expect_back(records(1 + round * 5));
  }
}

TEST_F(Columns, WhatIsAlikeTakesLittle) {
  Script script(0);
  for (int n = 0; n < 5000; n++) {
    script.send(1000 + static_cast<uint64_t>(n) * 500, 1, "the same");
    script.clock(1000 + static_cast<uint64_t>(n) * 500, n);
  }
  testing::TemporaryRecording recording;
  recording.save(script.writer);
  const auto whole = read_file(recording.trace(0));
  const auto all = std::as_bytes(std::span(*whole)).subspan(kOffset);
  const Bytes bytes(all.begin(), all.end());
  expect_back(bytes);
  EXPECT_LT(encoded(bytes)->size(), 5000u * 12);  // a hash of 8 bytes each, which nothing tells in advance
}

TEST_F(Columns, AWrongChecksumComesBackToo) {
  Bytes bytes = records(50);
  for (size_t at = 0; at < bytes.size();) {
    auto* header = reinterpret_cast<format::RecordHeader*>(bytes.data() + at);
    if (any(3) == 0) header->checksum ^= static_cast<uint32_t>(1 + any(1000));
    at += header->size;
  }
  expect_back(bytes);
}

TEST_F(Columns, WhatIsNoRecordIsNotEncoded) {
  const Bytes bytes = records(30);
  EXPECT_FALSE(encoded({}));
  EXPECT_FALSE(encoded(Bytes(bytes.begin(), bytes.end() - 8)));
  EXPECT_FALSE(encoded(Bytes(bytes.begin() + 8, bytes.end())));
  EXPECT_FALSE(encoded(Bytes(1000, std::byte{255})));
  EXPECT_FALSE(encoded(Bytes(1000)));
  // Bytes between a part and the next one, which nobody reads, may be anything; then the plain form keeps them.
  Script script(0);
  EventSpec spec = script.call(5, 1, {});
  spec.parts.path("abc");
  script.writer.add(spec);
  testing::TemporaryRecording recording;
  recording.save(script.writer);
  const auto whole = read_file(recording.trace(0));
  const auto all = std::as_bytes(std::span(*whole)).subspan(kOffset);
  Bytes padded(all.begin(), all.end());
  expect_back(padded);
  padded[padded.size() - 1] = std::byte{1};
  EXPECT_FALSE(encoded(padded));
}

TEST_F(Columns, DamageIsNoticedAndDoesNoHarm) {
  const Bytes bytes = records(120), whole = *encoded(bytes);
  Bytes out(bytes.size());
  int noticed = 0;
  for (int round = 0; round < 3000; round++) {
    Bytes damaged = whole;
    for (uint64_t n = 1 + any(3); n-- > 0;) damaged[any(damaged.size())] ^= static_cast<std::byte>(1 << any(8));
    if (!any(5)) damaged.resize(any(damaged.size()));
    if (!any(5)) damaged.insert(damaged.begin() + static_cast<ptrdiff_t>(any(damaged.size() + 1)), std::byte{0x80});
    noticed +=
        from_columns(damaged, kOffset, out).has_value();  // what is not noticed here has another hash of the block
  }
  EXPECT_GT(noticed, 1000);
  Bytes small(bytes.size() - 8), large(bytes.size() + 8);
  EXPECT_NE(from_columns(whole, kOffset, small), std::nullopt);
  EXPECT_NE(from_columns(whole, kOffset, large), std::nullopt);
  EXPECT_NE(from_columns({}, kOffset, out), std::nullopt);
}

// Blocks end where records end; only a record that is larger than a block is cut.
TEST_F(Columns, BlocksAreCutAtRecords) {
  Script script(0);
  for (int n = 0; n < 2000; n++) add_event(script);
  script.writer.add_pages(0x10000, Bytes(kPageBytes * 2500, std::byte{3}));
  for (int n = 0; n < 4000; n++) add_event(script);
  script.writer.add_pages(0x10000, Bytes(kPageBytes * 1025, std::byte{3}));
  for (int n = 0; n < 20'000; n++) add_event(script);
  testing::TemporaryRecording recording;
  recording.save(script.writer);
  const auto whole = read_file(recording.trace(0));
  const auto all = std::as_bytes(std::span(*whole));
  auto writer = PackedWriter::create(recording.path() + "/nodes/0/trace.zst");
  ASSERT_TRUE(writer);
  BlockCutter cutter;
  for (uint64_t at = kOffset; at < all.size(); at = writer->end()) {
    const auto next = all.subspan(at).first(std::min<uint64_t>(kPackBlock, all.size() - at));
    ASSERT_TRUE(writer->append(next.first(cutter.cut(next))));
  }
  ASSERT_TRUE(writer->finish(all.first(kOffset)));
  auto fd = open_file(recording.path() + "/nodes/0/trace.zst", O_RDONLY);
  const auto list = list_packed(fd->get(), "it");
  ASSERT_TRUE(list && list->header);
  Bytes back(all.begin(), all.begin() + kOffset);
  size_t plain = 0;
  for (const PackedBlock& block : list->blocks) {
    Bytes out(block.size);
    ASSERT_EQ(unpack(fd->get(), block, out), std::nullopt);
    back.insert(back.end(), out.begin(), out.end());
    plain += !block.columns;
  }
  EXPECT_TRUE(std::ranges::equal(back, all));
  EXPECT_EQ(plain, 3u + 2u);  // of 2,500 pages three blocks, of 1,025 two
}

}  // namespace
}  // namespace friday
