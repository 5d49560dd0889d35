// What is found to have been received before.
#include "core/record/repeats.h"

#include <gtest/gtest.h>

#include "core/trace/reader.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::Script;
using testing::TemporaryRecording;

TEST(Repeats, WhatComesAgainIsKeptOnce) {
  TemporaryRecording recording;
  Script node(0, 0);
  node.channel(1, format::kChannelStream, 3, testing::inet("10.0.0.1", 1000), testing::inet("10.0.0.2", 2000));
  const std::string texts[] = {std::string(2000, 'a'), std::string(3000, 'b'), std::string(900, 'c')};
  for (uint64_t n = 0; n < 30; n++) node.receive(1000 * (n + 1), 1, texts[n % 3]);
  node.end();
  recording.save(node.writer);
  auto reader = TraceReader::open(recording.path(), NodeId{0});
  ASSERT_TRUE(reader);
  std::vector<std::byte> bytes;
  RecordCursor cursor = reader->records();
  while (cursor.next()) bytes.insert(bytes.end(), cursor.record().bytes().begin(), cursor.record().bytes().end());
  Repeats repeats(recording.path(), Uuid{7});
  const auto first = repeats.find(bytes, format::kHeaderSize, {});
  ASSERT_EQ(first.size(), 2u * 9) << "all but the first of the two that are long enough";
  const std::string all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto kept = KeptOnce::open(kept_once_file(recording.path(), first[0].source.node));
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->count(), 2u);
  for (const LeftOut& range : first) {
    std::vector<std::byte> piece(range.size);
    ASSERT_TRUE(kept->read(range.source.event, piece));
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(piece.data()), piece.size()),
              all.substr(range.offset - format::kHeaderSize, range.size));
  }
  EXPECT_EQ(repeats.find(bytes, format::kHeaderSize, {}).size(), 20u) << "in another trace, all";
  const std::vector<LeftOut> out = {{first[3].offset + 5, 10, {}}, {first[7].offset + 100, 50, {}}};
  EXPECT_EQ(repeats.find(bytes, format::kHeaderSize, out).size(), 18u) << "not what is left out already";
}

}  // namespace
}  // namespace friday
