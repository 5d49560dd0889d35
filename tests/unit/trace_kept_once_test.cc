// Payload that is kept once: the file, and traces that name its pieces.
#include "core/trace/kept_once.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "core/trace/leaving_out.h"
#include "core/trace/reader.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::Script;
using testing::TemporaryRecording;

constexpr Uuid kFile = {1, 2, 3};

std::vector<std::byte> noise(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() % 64);
  return bytes;
}

class KeptOnceFile : public ::testing::Test {
 protected:
  KeptOnceFile() {
    auto writer = KeptOnceWriter::create(recording_.path(), kFile);
    EXPECT_TRUE(writer) << writer.error().message;
    for (uint32_t n = 0; n < 5; n++) {
      pieces_.push_back(noise(1000 * (n + 1), n));
      EXPECT_EQ(*writer->add(pieces_.back()), n);
    }
    pieces_.push_back(noise(3000, 77));
    EXPECT_EQ(*writer->add(pieces_.back()), 5u);
    EXPECT_TRUE(writer->store());
  }
  Beneath file() const { return kept_once_file(recording_.path(), kFile); }
  // What is wrong with the first piece that cannot be read.
  std::string problem() const {
    auto kept = KeptOnce::open(file());
    if (!kept) return kept.error().message;
    for (size_t n = 0; n < pieces_.size(); n++) {
      std::vector<std::byte> bytes(pieces_[n].size());
      if (auto read = kept->read(n, bytes); !read) return read.error().message;
      EXPECT_EQ(bytes, pieces_[n]);
    }
    return "";
  }

  TemporaryRecording recording_;
  std::vector<std::vector<std::byte>> pieces_;
};

TEST_F(KeptOnceFile, PiecesComeBack) {
  EXPECT_EQ(problem(), "");
  auto kept = KeptOnce::open(file());
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->count(), 6u);
  std::vector<std::byte> part(3999), other(5000);
  EXPECT_FALSE(kept->read(3, part)) << "a part of one";
  EXPECT_FALSE(kept->read(6, other)) << "there are six";
}

TEST_F(KeptOnceFile, AnyCutAndAnyChangeIsNoticed) {
  const std::string whole = *read_beneath(file(), 1 << 20);
  for (size_t size = 0; size < whole.size(); size += 97) {
    ASSERT_TRUE(write_beneath(file(), std::string_view(whole).substr(0, size)));
    EXPECT_NE(problem().find("truncated or damaged"), std::string::npos) << size;
  }
  for (size_t at = 0; at < whole.size(); at += 53) {
    std::string changed = whole;
    changed[at] ^= 1;
    ASSERT_TRUE(write_beneath(file(), changed));
    const std::string found = problem();  // the reserved word of a piece says nothing
    EXPECT_TRUE(found.empty() || found.find("damaged") != std::string::npos) << at << found;
  }
}

// A trace of which one message is kept once.
TEST_F(KeptOnceFile, TracesReadAsBefore) {
  Script node(0, 0);
  node.channel(1, format::kChannelStream, 3, testing::inet("10.0.0.1", 1000), testing::inet("10.0.0.2", 2000));
  const auto as_text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  node.receive(1000, 1, "before");
  node.receive(2000, 1, as_text(pieces_[2]));
  node.receive(3000, 1, "behind");
  node.end();
  recording_.save(node.writer);
  const Beneath trace{recording_.path(), "nodes/0/trace"};
  std::vector<std::byte> bytes(std::filesystem::file_size(trace.path()) - format::kHeaderSize),
      page(format::kHeaderSize);
  {
    auto fd = open_beneath(trace);
    ASSERT_TRUE(read_exactly(fd->get(), bytes, format::kHeaderSize) && read_exactly(fd->get(), page, 0));
  }
  const auto place = std::ranges::search(bytes, pieces_[2]);
  ASSERT_FALSE(place.empty());
  const uint64_t at = format::kHeaderSize + static_cast<uint64_t>(place.begin() - bytes.begin());
  const std::vector<std::byte> original = bytes;
  for (const uint64_t piece : {2, 5, 7}) {  // the right one, another one of the same size, none
    bytes = original;
    const std::vector<LeftOut> repeated = {{at, pieces_[2].size(), {kFile, piece, 0, 0}}};
    const uint64_t payload = take_out(bytes, format::kHeaderSize, repeated);
    remove_beneath(packed(trace));
    auto writer = PackedWriter::create(packed(trace));
    ASSERT_TRUE(writer && writer->append(bytes, {{}, 0}, {repeated, payload}) && writer->finish(page));
    remove_beneath(trace);
    auto reader = TraceReader::open(recording_.path(), NodeId{0});
    ASSERT_TRUE(reader) << reader.error().message;
    EXPECT_TRUE(reader->is_complete()) << "nothing has to be replayed";
    const auto checked = reader->check();
    EXPECT_EQ(checked.has_value(), piece == 2);
    if (piece == 5) {
      EXPECT_NE(checked.error().message.find("has other bytes than were received"), std::string::npos);
    }
    if (piece == 7) {
      EXPECT_NE(checked.error().message.find("truncated or damaged"), std::string::npos);
    }
    if (piece != 2) continue;
    auto fd = reader->descriptor();
    ASSERT_TRUE(fd && read_exactly(fd->get(), bytes, format::kHeaderSize));
    EXPECT_EQ(bytes, original);
  }
  remove_beneath(file());
  auto reader = TraceReader::open(recording_.path(), NodeId{0});
  ASSERT_TRUE(reader);
  const auto checked = reader->check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find(file().path()), std::string::npos) << checked.error().message;
}

}  // namespace
}  // namespace friday
