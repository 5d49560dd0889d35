// Traces without payload that their senders have: what may be left out, what is
// read of the rest, and what comes back.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <xxhash.h>

#include <cstring>
#include <deque>
#include <random>

#include "core/trace/columns.h"
#include "core/trace/leaving_out.h"
#include "core/trace/live_regenerable.h"
#include "core/trace/logical_time.h"
#include "core/trace/reader.h"
#include "core/trace/regenerable.h"
#include "core/trace/restored.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::Script;
using testing::TemporaryRecording;

constexpr uint64_t kStream = 1, kPackets = 2, kOutside = 3;

// Node 0 sends a stream and datagrams to node 1, which receives the stream at
// other boundaries, and things from outside.
class Lean : public ::testing::Test {
 protected:
  Lean() {
    const auto one = testing::inet("10.0.0.1", 1000), two = testing::inet("10.0.0.2", 2000);
    const auto a = testing::inet("10.0.0.1", 1001), b = testing::inet("10.0.0.2", 2001);
    Script sender(0, 0), receiver(1, 0);
    sender.datagrams[kPackets] = receiver.datagrams[kPackets] = true;
    sender.channel(kStream, format::kChannelStream, 3, one, two);
    sender.channel(kPackets, format::kChannelDatagram, 4, a, b);
    receiver.channel(kStream, format::kChannelStream, 3, two, one);
    receiver.channel(kPackets, format::kChannelDatagram, 4, b, a);
    receiver.channel(kOutside, format::kChannelStream, 5, two, testing::inet("10.0.0.9", 9));
    std::string unread;
    uint64_t now = 1000;
    for (int n = 0; n < 300; n++, now += 1000) {
      const std::string text = random_text(1 + random_() % 900);
      if (n % 3 == 0) {
        sent_[sender.send(now, kPackets, text, &b)] = text;
        receiver.receive(now + 100, kPackets, text, &a);
        continue;
      }
      sent_[sender.send(now, kStream, text)] = text;
      unread += text;
      if (n % 7 == 0) receiver.receive(now + 50, kOutside, random_text(200));
      const size_t size = n == 299 ? unread.size() : random_() % (unread.size() + 1);
      if (size == 0) continue;
      receiver.receive(now + 100, kStream, unread.substr(0, size));
      unread.erase(0, size);
    }
    sender.end();
    receiver.end();
    recording_.save(sender.writer);
    recording_.save(receiver.writer);
    original_ = bytes_of(NodeId{1});
  }

  std::string random_text(size_t size) {
    std::string text(size, ' ');
    for (char& letter : text) letter = static_cast<char>('a' + random_() % 26);
    return text;
  }
  Recording opened() const {
    auto recording = Recording::open(recording_.path());
    EXPECT_TRUE(recording) << recording.error().message;
    return *recording;
  }
  Schedule order() const {
    auto order = Schedule::compute(opened());
    EXPECT_TRUE(order) << order.error().message;
    return *order;
  }
  std::vector<Regenerable> known() const {
    auto all = find_regenerable(opened(), order());
    EXPECT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->count(NodeId{0}), 0u);
    return (*all)[NodeId{1}];
  }
  // The whole trace as readers see it, behind the header.
  std::string bytes_of(NodeId node) const {
    auto reader = TraceReader::open(opened(), node, TraceReader::Gaps::allow);
    EXPECT_TRUE(reader) << reader.error().message;
    std::string bytes;
    RecordCursor cursor = reader->records();
    while (cursor.next())
      bytes.append(reinterpret_cast<const char*>(cursor.record().bytes().data()), cursor.record().bytes().size());
    EXPECT_FALSE(cursor.error()) << cursor.error()->message;
    return bytes;
  }

  Beneath trace() const { return {recording_.path(), "nodes/1/trace"}; }
  // Node 1 without its payload: the ranges, with their hashes.
  std::vector<LeftOut> leave_out() {
    const auto ranges = chosen_ = choose_left_out(known());
    {
      auto reader = TraceReader::open(opened(), NodeId{1});
      EXPECT_TRUE(reader);
      auto written = write_without(*reader, ranges, packed(trace()));
      EXPECT_TRUE(written) << written.error().message;
    }
    remove_beneath(trace());
    auto reader = TraceReader::open(opened(), NodeId{1}, TraceReader::Gaps::allow);
    EXPECT_TRUE(reader);
    return {reader->left_out().begin(), reader->left_out().end()};
  }
  PackedList list() const {
    auto fd = open_file(packed(trace()).path(), O_RDONLY);
    auto list = list_packed(fd->get(), "it");
    EXPECT_TRUE(list && list->header);
    return *list;
  }
  std::string original_at(const LeftOut& range) const {
    return original_.substr(range.offset - format::kHeaderSize, range.size);
  }
  Result<void> restore(const std::string& bytes) const {
    UniqueFd file(memfd_create("payload", MFD_CLOEXEC));
    EXPECT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), 100), static_cast<ssize_t>(bytes.size()));
    return write_restored(restored_payload(trace(), NodeId{1}), list(), file.get(), 100);
  }

  TemporaryRecording recording_;
  std::mt19937_64 random_{11};
  std::map<uint64_t, std::string> sent_;  // by event of node 0
  std::string original_;
  std::vector<LeftOut> chosen_;
};

TEST_F(Lean, WhatIsRegenerableIsWhatWasSent) {
  uint64_t all = 0;
  for (const Regenerable& bytes : known()) {
    ASSERT_EQ(bytes.source.node, opened().find(NodeId{0})->uuid);
    ASSERT_TRUE(sent_.contains(bytes.source.event));
    EXPECT_EQ(sent_[bytes.source.event].substr(bytes.source.from, bytes.size), original_at(bytes));
    all += bytes.size;
  }
  uint64_t wanted = 0;
  for (const auto& [event, text] : sent_) wanted += text.size();
  EXPECT_EQ(all, wanted);
}

TEST_F(Lean, AllThatIsWorthItIsLeftOut) {
  uint64_t kept = 0;
  std::map<uint64_t, uint64_t> left_out;  // by where the receive has its payload
  const auto ranges = choose_left_out(known());
  for (const Regenerable& bytes : known()) {
    uint64_t gone = 0;
    for (const LeftOut& range : ranges) {
      const uint64_t from = std::max(range.offset, bytes.offset);
      const uint64_t to = std::min(range.end(), bytes.offset + bytes.size);
      if (from < to) gone += to - from;
      if (from < to && bytes.stream) {
        EXPECT_GE(bytes.in_stream + (from - bytes.offset), kKeptOfStream);
      }
      if (from < to) {
        EXPECT_GE(bytes.in_message + (from - bytes.offset), kKeptOfMessage);
      }
    }
    kept += bytes.size - gone;
    left_out[bytes.offset - bytes.in_message] += gone;
  }
  EXPECT_LE(kept, kKeptOfStream + left_out.size() * (kKeptOfMessage + kLeastRun));
  for (size_t n = 0, first = 0; n < ranges.size(); n++) {
    if (n + 1 < ranges.size() && ranges[n + 1].offset == ranges[n].end()) continue;
    EXPECT_GE(ranges[n].end() - ranges[first].offset, kLeastRun) << "a run without a gap";
    first = n + 1;
  }
}

// Where each regenerable byte of the trace comes from.
std::map<uint64_t, std::pair<uint64_t, uint64_t>> sources_of(std::span<const Regenerable> list) {
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> sources;
  for (const Regenerable& bytes : list)
    for (uint64_t n = 0; n < bytes.size; n++) sources[bytes.offset + n] = {bytes.source.event, bytes.source.from + n};
  return sources;
}

// Gives LiveRegenerable the traces in steps of whole records, and asks it for
// what node 1 has received.
class GrowingTraces {
 public:
  GrowingTraces(const Recording& recording, std::string sender, std::string receiver)
      : texts_{std::move(sender), std::move(receiver)} {
    for (uint32_t n = 0; n < 2; n++) live_.add({.node = recording.find(NodeId{n})->uuid});
  }
  bool whole() const { return noted_[1] == texts_[1].size(); }
  std::span<const std::byte> grow(size_t trace, size_t most) {
    const auto left = std::as_bytes(std::span(texts_[trace])).subspan(noted_[trace]);
    const auto records = left.first(whole_records(left.first(std::min(most, left.size()))));
    live_.note(trace, records);
    noted_[trace] += records.size();
    return records;
  }
  void receive(size_t most, size_t most_ahead = 0) {
    const uint64_t offset = format::kHeaderSize + noted_[1];
    const auto block = grow(1, most);
    live_.settle();
    const auto left = std::as_bytes(std::span(texts_[1])).subspan(noted_[1]);
    const auto ahead = left.first(whole_records(left.first(std::min(most_ahead, left.size()))));
    for (const Regenerable& bytes : live_.find(1, block, offset, ahead).regenerable) found_.push_back(bytes);
  }
  const std::vector<Regenerable>& found() const { return found_; }

 private:
  std::string texts_[2];
  size_t noted_[2] = {0, 0};
  LiveRegenerable live_;
  std::vector<Regenerable> found_;
};

TEST_F(Lean, WhileTheTracesGrowTheSameIsFound) {
  const auto wanted = sources_of(known());
  const std::string sender = bytes_of(NodeId{0});
  GrowingTraces all(opened(), sender, original_);
  all.grow(0, sender.size());
  all.receive(original_.size());
  EXPECT_TRUE(sources_of(all.found()) == wanted);
  GrowingTraces ahead(opened(), sender, original_);
  for (ahead.grow(0, sender.size()); !ahead.whole();) ahead.receive(1500 + random_() % 20'000, 5000);
  EXPECT_TRUE(sources_of(ahead.found()) == wanted);
  // Without that, of a send that is received in two blocks, what is in the first one is not
  // known in time.
  GrowingTraces in_blocks(opened(), sender, original_);
  for (in_blocks.grow(0, sender.size()); !in_blocks.whole();) in_blocks.receive(1500 + random_() % 20'000);
  EXPECT_GT(sources_of(in_blocks.found()).size(), wanted.size() * 9 / 10);
}

TEST_F(Lean, WhileTheTracesGrowNothingWrongIsFound) {
  const auto wanted = sources_of(known());
  const std::string sender = bytes_of(NodeId{0});
  size_t found = 0;
  for (int round = 0; round < 50; round++) {
    GrowingTraces late(opened(), sender, original_);
    while (!late.whole()) {
      late.grow(0, random_() % 5000);
      late.receive(1500 + random_() % 5000, random_() % 3000);
    }
    for (const auto& [offset, source] : sources_of(late.found())) {
      ASSERT_EQ(wanted.at(offset), source) << offset;
      found++;
    }
  }
  EXPECT_GT(found, 5 * wanted.size());
}

std::vector<std::byte> records_of(const Script& script) {
  TemporaryRecording recording;
  recording.save(script.writer);
  auto reader = TraceReader::open_file(Beneath(recording.path(), "nodes/0/trace"), NodeId{0});
  EXPECT_TRUE(reader) << reader.error().message;
  std::vector<std::byte> bytes;
  RecordCursor cursor = reader->records();
  while (cursor.next()) bytes.insert(bytes.end(), cursor.record().bytes().begin(), cursor.record().bytes().end());
  return bytes;
}

// A forked process sends through a channel of its parent, which has ended and is forgotten before.
TEST(LiveLean, AForkedProcessHasTheChannelsOfItsParent) {
  const auto one = testing::inet("10.0.0.1", 1000), two = testing::inet("10.0.0.2", 2000);
  Script parent(0, 0), child(1, 0), receiver(2, 0);
  parent.channel(1, format::kChannelStream, 3, one, two);
  receiver.channel(7, format::kChannelStream, 3, two, one);
  const std::string text(500, 'x');
  child.send(1000, 1, text);
  receiver.receive(2000, 7, text);
  for (const bool forgotten : {false, true}) {
    LiveRegenerable live;
    const size_t of_parent = live.add({.node = {1}}), of_child = live.add({.node = {2}, .parent = {1}}),
                 of_receiver = live.add({.node = {3}});
    live.note(of_parent, records_of(parent));
    if (forgotten) live.forget(of_parent);
    const auto received = records_of(receiver);
    live.note(of_receiver, received);
    live.note(of_child, records_of(child));
    live.settle();
    const auto found = live.find(of_receiver, received, format::kHeaderSize);
    ASSERT_EQ(found.regenerable.size(), 1u);
    EXPECT_EQ(found.regenerable[0].source.node, Uuid{2});
    EXPECT_EQ(found.received, text.size());
    EXPECT_EQ(live.names(of_child, 1), (std::vector<std::string>{"stream", "10.0.0.1:1000", "10.0.0.2:2000"}));
    live.forget(of_child);
    if (forgotten) {
      EXPECT_TRUE(live.names(of_parent, 1).empty()) << "nobody needs them any more";
    }
  }
}

// Two forked processes count for themselves what they send through the pipe of their parent, and send the same.
TEST(LiveLean, TheSameBytesAreLeftOutOnce) {
  Script parent(0, 0), child(1, 0), receiver(3, 0);
  parent.channel(1, format::kChannelPipe, 3, {}, {}, 5);
  receiver.channel(1, format::kChannelPipe, 3, {}, {}, 5);
  const std::string before(5000, 'a'), text(300, 'x');
  for (Script* script : {&parent, &child}) script->send(900, 1, before);
  child.send(1000, 1, text);
  for (const std::string& got : {before, text, text}) receiver.receive(2000, 1, got);
  std::vector<std::byte> own = records_of(child);  // what the parent had sent before the fork is none of it
  own.erase(own.begin(), own.begin() + reinterpret_cast<const format::RecordHeader*>(own.data())->size);
  LiveRegenerable live;
  live.note(live.add({.node = {1}}), records_of(parent));
  for (const uint8_t uuid : {2, 3}) live.note(live.add({.node = {uuid}, .parent = {1}}), own);
  const size_t of_receiver = live.add({.node = {4}});
  const auto received = records_of(receiver);
  live.note(of_receiver, received);
  uint64_t end = 0, all = 0;
  for (const Regenerable& bytes : live.find(of_receiver, received, format::kHeaderSize).regenerable) {
    EXPECT_GE(bytes.offset, end);
    end = bytes.end();
    all += bytes.size;
  }
  EXPECT_EQ(all, before.size() + text.size());
}

TEST(LiveLean, WhatANodeSendsToItselfStays) {
  Script node(0, 0);
  node.channel(1, format::kChannelPipe, 3, {}, {}, 5);
  node.send(1000, 1, std::string(300, 'x'));
  node.receive(2000, 1, std::string(300, 'x'));
  LiveRegenerable live;
  const size_t number = live.add({.node = {1}});
  const auto records = records_of(node);
  live.note(number, records);
  EXPECT_TRUE(live.find(number, records, format::kHeaderSize).regenerable.empty());
}

TEST_F(Lean, OtherBytesAreNotWhatWasSent) {
  const std::string sender = bytes_of(NodeId{0});
  const auto wanted = known();
  for (const Regenerable& bytes : {wanted[7], wanted[20], wanted.back()}) {
    std::string other = original_;
    other[bytes.offset - format::kHeaderSize + bytes.size / 2] ^= 1;
    const std::vector<LeftOut> changed = {bytes};
    seal_records(std::as_writable_bytes(std::span(other)), format::kHeaderSize, changed);
    GrowingTraces all(opened(), sender, other);
    for (all.grow(0, sender.size()); !all.whole();) all.receive(100'000);
    const auto found = sources_of(all.found());
    EXPECT_FALSE(found.contains(bytes.offset + bytes.size / 2));
    EXPECT_GT(found.size(), sources_of(wanted).size() / 2);
  }
}

TEST_F(Lean, ReadersSeeWhatIsMissing) {
  const auto messages = order().edges().size();
  const auto ranges = leave_out();
  ASSERT_GT(ranges.size(), 100u);
  const Recording recording = opened();
  EXPECT_FALSE(recording.find(NodeId{1})->is_complete());
  auto refused = TraceReader::open(recording, NodeId{1});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("friday restore"), std::string::npos) << refused.error().message;
  std::string zeros = original_;
  for (const LeftOut& range : ranges) memset(zeros.data() + range.offset - format::kHeaderSize, 0, range.size);
  seal_records(std::as_writable_bytes(std::span(zeros)), format::kHeaderSize, ranges);
  EXPECT_EQ(bytes_of(NodeId{1}), zeros);
  EXPECT_EQ(order().edges().size(), messages);
  EXPECT_EQ(ranges, chosen_) << "the list says where each range comes from";
  const auto again = find_regenerable(recording, order());
  ASSERT_TRUE(again);
  uint64_t found = 0, wanted = 0;
  for (const Regenerable& bytes : again->at(NodeId{1})) found += bytes.size;
  for (const auto& [event, text] : sent_) wanted += text.size();
  EXPECT_EQ(found, wanted);
}

TEST_F(Lean, WhatWasRestoredReadsAsBefore) {
  const auto ranges = leave_out();
  std::string payload;
  for (const LeftOut& range : ranges) payload += original_at(range);
  std::string wrong = payload;
  wrong[wrong.size() / 2] ^= 1;
  auto refused = restore(wrong);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("are not those that were received"), std::string::npos);
  EXPECT_FALSE(opened().find(NodeId{1})->is_complete());
  ASSERT_TRUE(restore(payload));
  EXPECT_TRUE(opened().find(NodeId{1})->is_complete());
  auto reader = TraceReader::open(opened(), NodeId{1});
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_TRUE(reader->check());
  EXPECT_EQ(bytes_of(NodeId{1}), original_);
}

TEST_F(Lean, ADamagedRestoredFileIsNoticed) {
  const auto ranges = leave_out();
  std::string payload;
  for (const LeftOut& range : ranges) payload += original_at(range);
  ASSERT_TRUE(restore(payload));
  const std::string path = restored_payload(trace(), NodeId{1}).path();
  auto file = open_file(path, O_RDWR);
  const char other = static_cast<char>(payload[50] ^ 4);
  ASSERT_EQ(::pwrite(file->get(), &other, 1, 24 + 50), 1);
  auto reader = TraceReader::open(opened(), NodeId{1});
  ASSERT_TRUE(reader);
  auto checked = reader->check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("Remove it, and it is made again"), std::string::npos)
      << checked.error().message;
  // A file that belongs to other ranges counts as absent.
  const uint64_t other_fingerprint = 77;
  ASSERT_EQ(::pwrite(file->get(), &other_fingerprint, 8, 8), 8);
  EXPECT_FALSE(RestoredPayload::open(restored_payload(trace(), NodeId{1}), list()));
}

// Ranges that readers would not find again are not written, and not read.
TEST_F(Lean, ImpossibleListsAreRefused) {
  const auto bytes = std::as_bytes(std::span(original_));
  const std::vector<std::byte> block(bytes.begin(), bytes.end());
  const uint64_t size = block.size();
  const auto written = [&](const std::vector<LeftOut>& ranges) {
    const std::string path = recording_.path() + "/list.zst";
    ::unlink(path.c_str());
    auto writer = PackedWriter::create(path);
    EXPECT_TRUE(writer);
    const bool done = writer->append(block, {ranges, 7}).has_value();
    EXPECT_TRUE(writer->finish(std::vector<std::byte>(format::kHeaderSize)));
    auto fd = open_file(path, O_RDONLY);
    auto list = list_packed(fd->get(), path);
    EXPECT_TRUE(list && list->header);
    if (done) {
      EXPECT_EQ(list->left_out, ranges);
      EXPECT_EQ(list->blocks.at(0).left_out.payload, 7u);
    } else {
      EXPECT_TRUE(list->left_out.empty() && list->blocks.empty());
    }
    return done;
  };
  EXPECT_TRUE(written({{4100, 8, {{1}, 77, 3, 5}}, {4200, 8, {{2}, 1, 0, 0}}, {4210, 8, {{1}, 12, 0, ~0ull}}}));
  EXPECT_TRUE(written({{4096, size}}));
  const std::vector<std::vector<LeftOut>> impossible = {
      {{4095, 10}},           {{4096, size + 1}},     {{4096, 0}},
      {{0, ~0ull}},           {{~0ull, 1}},           {{4100, ~0ull - 4}},
      {{4200, 8}, {4100, 8}}, {{4100, 8}, {4107, 8}}, {{4096 + size, 1}},
  };
  for (const auto& ranges : impossible) {
    EXPECT_FALSE(written(ranges)) << ranges[0].offset << " " << ranges[0].size;
    const CodedLeftOut coded = code_left_out(ranges, format::kHeaderSize);
    EXPECT_FALSE(decode_left_out(coded.bytes, coded.ranges, coded.senders, size));
  }
}

}  // namespace
}  // namespace friday
