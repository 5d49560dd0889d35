// Recordings and traces: what is read back, and that damage of any kind becomes an error instead of a crash.
#include "core/trace/calls.h"
#include "core/trace/reader.h"

#include <fstream>
#include <functional>
#include <random>

#include "core/trace/event_text.h"
#include "core/trace/index.h"
#include "core/trace/logical_time.h"
#include "core/trace/recording.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::EventSpec;
using testing::Script;
using testing::TemporaryRecording;

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void spill(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// Twenty events of two threads, with all kinds of parts, between other records.
Script sample() {
  Script node(0);
  format::ImageRecord image{};
  strcpy(image.exe, "/usr/bin/sample");
  node.writer.add_record(format::kImageRecord, image);
  std::string pages(8192, 'p');
  node.writer.add_pages(0x400000, std::as_bytes(std::span(pages)));
  format::ModuleRecord module{};
  strcpy(module.path, "/usr/bin/sample");
  module.build_id_size = 2;
  module.build_id[0] = 0xab;
  module.build_id[1] = 0xcd;
  node.writer.add_record(format::kModuleRecord, module);
  node.clock(100, 100, 5'000'000'000);
  node.channel(1, format::kChannelStream, 3, testing::inet("10.0.0.1", 1), testing::inet("10.0.0.2", 2));
  for (uint64_t n = 0; n < 20; ++n) {
    EventSpec spec = node.call(100 + 20 * n, SYS_read, {3, 0x1000, n}, 0);
    spec.thread = n % 2;
    for (uint64_t part = 0; part < n % 3; ++part) spec.parts.memory(0x1000, std::string(n, 'x'));
    node.writer.add(spec);
    if (n == 10) node.receive(305, 1, "hello");
  }
  node.end();
  return node;
}

std::vector<uint64_t> record_offsets(const TraceReader& reader) {
  std::vector<uint64_t> offsets;
  for (RecordCursor cursor = reader.records(); cursor.next();) offsets.push_back(cursor.record().offset());
  return offsets;
}

// Damages the one trace of a recording and returns what check() says.
Error after(const std::function<void(std::string&, const std::vector<uint64_t>&)>& damage) {
  TemporaryRecording recording;
  recording.save(sample().writer);
  auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
  EXPECT_TRUE(reader && reader->check());
  std::string bytes = slurp(recording.trace(0));
  damage(bytes, record_offsets(*reader));
  spill(recording.trace(0), bytes);
  auto opened = TraceReader::open_file(recording.trace(0), NodeId{0});
  if (!opened) return opened.error();
  auto checked = opened->check();
  return checked ? Error{ErrorCode::usage, "no damage found"} : checked.error();
}

template <typename T>
T& at(std::string& bytes, uint64_t offset) {
  return *reinterpret_cast<T*>(bytes.data() + offset);
}

void reseal(std::string& bytes, uint64_t offset) {
  auto& header = at<format::RecordHeader>(bytes, offset);
  header.checksum = record_checksum(std::as_bytes(std::span(bytes)).subspan(offset, header.size), offset);
}

TEST(TraceReader, ReadsBackWhatWasWritten) {
  TemporaryRecording recording;
  recording.save(sample().writer);
  auto reader = TraceReader::open(recording.path(), NodeId{0});
  ASSERT_TRUE(reader) << reader.error().message;
  uint64_t events = 0;
  RecordCursor cursor = reader->records();
  while (cursor.next()) {
    if (!cursor.record().is_event()) continue;
    EventView event = cursor.record().event();
    EXPECT_EQ(event->index, events++);
    if (event->call == SYS_read) {
      EXPECT_EQ(event.argument(0), 3u);
      EXPECT_EQ(event.argument(7), 0u);
      for (PartView part : event.parts()) EXPECT_EQ(part.bytes().size(), event.argument(2));
    } else {
      ASSERT_EQ(event.parts().size(), 2u);
      auto part = event.parts().begin();
      EXPECT_EQ((*part).text(), "hello");
      ASSERT_TRUE((*++part).transfer());
      EXPECT_EQ((*part).transfer()->length, 5u);
    }
  }
  EXPECT_FALSE(cursor.error());
  EXPECT_EQ(events, 21u);
  auto image = reader->image();
  ASSERT_TRUE(image);
  ASSERT_EQ(image->contents.size(), 1u);
  EXPECT_EQ(image->contents[0].data.size(), 2 * 4096u);
  EXPECT_EQ(static_cast<char>(image->contents[0].data[8191]), 'p');
  EXPECT_EQ(image->modules.size(), 1u);
}

TEST(TraceReader, GivesTheBytesThatAnImageHasOfAPage) {
  TemporaryRecording recording;
  Script node(0);
  node.writer.add_record(format::kImageRecord, format::ImageRecord{});
  node.writer.add_image_bytes(0x403ff8, std::as_bytes(std::span(std::string_view("patched!"))));
  recording.save(node.writer);
  auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
  ASSERT_TRUE(reader);
  auto image = reader->image();
  ASSERT_TRUE(image) << image.error().message;
  ASSERT_EQ(image->contents.size(), 1u);
  EXPECT_EQ(image->contents[0].address, 0x403ff8u);
  EXPECT_EQ(
      std::string_view(reinterpret_cast<const char*>(image->contents[0].data.data()), image->contents[0].data.size()),
      "patched!");
  std::string bytes = slurp(recording.trace(0));
  const uint64_t last = record_offsets(*reader).back();
  at<format::ImageBytesRecord>(bytes, last).bytes = 16;
  reseal(bytes, last);
  spill(recording.trace(0), bytes);
  auto damaged = TraceReader::open_file(recording.trace(0), NodeId{0});
  ASSERT_TRUE(damaged);
  auto checked = damaged->check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("count of bytes"), std::string::npos) << checked.error().message;
}

TEST(TraceReader, IndexFindsEventsAndThreadsAndSurvivesItsCache) {
  TemporaryRecording temporary;
  temporary.save(sample().writer);
  auto recording = Recording::open(temporary.path());
  ASSERT_TRUE(recording);
  auto reader = TraceReader::open(*recording, NodeId{0});
  ASSERT_TRUE(reader);
  std::string cache = recording->inside("cache").path() + "/index-0";
  for (const char* round : {"built", "cached", "damaged"}) {
    auto index = TraceIndex::load_or_build(*recording, *reader);
    ASSERT_TRUE(index) << round;
    EXPECT_EQ(index->event_count(), 21u);
    ASSERT_EQ(index->threads().size(), 2u);
    EXPECT_EQ(index->thread(1)->events.size(), 10u);
    EXPECT_EQ(index->thread(9), nullptr);
    EXPECT_EQ(index->event(*reader, 20).value()->index, 20u);
    EXPECT_EQ(index->event(*reader, 21).error().code, ErrorCode::not_found);
    std::string bytes = slurp(cache);
    ASSERT_FALSE(bytes.empty());
    if (round == std::string("cached")) {
      bytes[bytes.size() / 2] ^= 1;
      spill(cache, bytes);
    }
  }
}

TEST(TraceReader, IndexIsNotReusedForAnotherTrace) {
  TemporaryRecording temporary;
  temporary.save(sample().writer);
  {
    auto recording = Recording::open(temporary.path());
    auto reader = TraceReader::open(*recording, NodeId{0});
    ASSERT_TRUE(TraceIndex::load_or_build(*recording, *reader));
  }
  Script longer = sample();
  longer.plain(9999);
  ASSERT_TRUE(longer.writer.save(temporary.trace(0)));
  auto recording = Recording::open(temporary.path());
  auto reader = TraceReader::open(*recording, NodeId{0});
  EXPECT_EQ(TraceIndex::load_or_build(*recording, *reader)->event_count(), 22u);
}

TEST(TraceReader, ReportsOneFlippedByteAnywhereInARecord) {
  TemporaryRecording recording;
  recording.save(sample().writer);
  std::string good = slurp(recording.trace(0));
  for (uint64_t offset = format::kHeaderSize; offset < good.size(); offset += 1 + offset % 29) {
    std::string bytes = good;
    bytes[offset] ^= 0x10;
    spill(recording.trace(0), bytes);
    auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
    ASSERT_TRUE(reader);
    auto checked = reader->check();
    ASSERT_FALSE(checked) << "offset " << offset;
    EXPECT_EQ(checked.error().code, ErrorCode::bad_input);
    EXPECT_TRUE(checked.error().node && checked.error().event);
  }
}

TEST(TraceReader, ReportsAFlippedPayloadByteByItsEvent) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>&) { bytes[bytes.find("hello")] ^= 1; });
  EXPECT_NE(error.message.find("record damaged"), std::string::npos) << error.message;
  EXPECT_NE(error.message.find("checksum"), std::string::npos);
  EXPECT_EQ(error.event, 11u);
}

TEST(TraceReader, ReportsADroppedEvent) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>& offsets) {
    bytes.erase(offsets[9], offsets[10] - offsets[9]);
    at<format::FileHeader>(bytes, 0).committed = bytes.size();
  });
  EXPECT_EQ(error.event, 4u);
  EXPECT_TRUE(error.message.starts_with("event 4 missing: found 5")) << error.message;
}

TEST(TraceReader, ReportsADroppedRecordThatIsNoEvent) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>& offsets) {
    bytes.erase(offsets[4], offsets[5] - offsets[4]);  // the channel
    at<format::FileHeader>(bytes, 0).committed = bytes.size();
  });
  EXPECT_NE(error.message.find("of records missing before event 0"), std::string::npos) << error.message;
}

TEST(TraceReader, ReportsSwappedRecords) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>& offsets) {
    std::string first = bytes.substr(offsets[9], offsets[10] - offsets[9]);
    std::string second = bytes.substr(offsets[10], offsets[11] - offsets[10]);
    bytes.replace(offsets[9], first.size() + second.size(), second + first);
  });
  EXPECT_TRUE(error.message.starts_with("records swapped: event 5 stands before event 4")) << error.message;
}

TEST(TraceReader, ReportsADroppedEventThatWasResealed) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>& offsets) {
    bytes.erase(offsets[9], offsets[10] - offsets[9]);
    at<format::FileHeader>(bytes, 0).committed = bytes.size();
    for (uint64_t at_offset = offsets[9]; at_offset < bytes.size();
         at_offset += at<format::RecordHeader>(bytes, at_offset).size)
      reseal(bytes, at_offset);
  });
  EXPECT_NE(error.message.find("event 4 missing: found 5"), std::string::npos) << error.message;
}

TEST(TraceReader, ReportsTheDroppedLastEvent) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>& offsets) {
    uint64_t last = offsets[offsets.size() - 2], end = offsets.back();
    bytes.erase(last, end - last);
    reseal(bytes, last);
    at<format::FileHeader>(bytes, 0).committed = bytes.size();
  });
  EXPECT_NE(error.message.find("event 20 missing"), std::string::npos) << error.message;
}

TEST(TraceReader, ReportsSwappedEventsThatWereResealed) {
  Error error = after([](std::string& bytes, const std::vector<uint64_t>& offsets) {
    std::string first = bytes.substr(offsets[9], offsets[10] - offsets[9]);
    std::string second = bytes.substr(offsets[10], offsets[11] - offsets[10]);
    bytes.replace(offsets[9], first.size() + second.size(), second + first);
    reseal(bytes, offsets[9]);
    reseal(bytes, offsets[9] + second.size());
  });
  EXPECT_NE(error.message.find("records swapped: event 5 stands before event 4"), std::string::npos) << error.message;
}

TEST(TraceReader, RefusesTruncationAtEveryRecordBoundary) {
  TemporaryRecording recording;
  recording.save(sample().writer);
  std::string good = slurp(recording.trace(0));
  auto whole = TraceReader::open_file(recording.trace(0), NodeId{0});
  std::vector<uint64_t> offsets = record_offsets(*whole);
  for (uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{100}, uint64_t{4095}}) offsets.push_back(size);
  for (uint64_t size : offsets) {
    spill(recording.trace(0), good.substr(0, size));
    auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
    ASSERT_FALSE(reader) << size;
    EXPECT_EQ(reader.error().code, ErrorCode::bad_input);
  }
  // A killed program's trace: `committed` stands at a record boundary, the file is longer.
  for (uint64_t offset : offsets) {
    if (offset < format::kHeaderSize) continue;
    std::string bytes = good;
    at<format::FileHeader>(bytes, 0).committed = offset;
    spill(recording.trace(0), bytes);
    auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
    ASSERT_TRUE(reader);
    EXPECT_TRUE(reader->check());
  }
}

TEST(TraceReader, RefusesOtherVersionsAndUnknownFeatures) {
  auto version = after([](std::string& bytes, auto&) { at<format::FileHeader>(bytes, 0).version = 7; });
  EXPECT_NE(version.message.find("version 7"), std::string::npos) << version.message;
  auto feature = after([](std::string& bytes, auto&) { at<format::FileHeader>(bytes, 0).features |= 1ull << 40; });
  EXPECT_NE(feature.message.find("features"), std::string::npos) << feature.message;
  auto magic = after([](std::string& bytes, auto&) { bytes[0] = 'X'; });
  EXPECT_NE(magic.message.find("not a Friday trace"), std::string::npos) << magic.message;
  auto header = after([](std::string& bytes, auto&) { at<format::FileHeader>(bytes, 0).header_size = 12; });
  EXPECT_NE(header.message.find("header"), std::string::npos) << header.message;
}

TEST(TraceReader, SkipsRecordTypesItDoesNotKnow) {
  Script node(0);
  node.plain(1);
  node.writer.add_record(format::kBranches, format::ClockRecord{});
  node.writer.add_record(777, format::ClockRecord{});
  node.plain(20);
  TemporaryRecording recording;
  recording.save(node.writer);
  auto reader = TraceReader::open(recording.path(), NodeId{0});
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->check());
  EXPECT_EQ(TraceIndex::build(*reader)->event_count(), 2u);
}

TEST(TraceReader, ReadsClocksThatStandInTheEvent) {
  EventSpec reading{.call = SYS_clock_gettime,
                    .flags = format::kFlagClock,
                    .arguments = {1, 0x7000},
                    .input_hash = 1700000000,
                    .entry_ticks = 40,
                    .return_ticks = 5};
  TemporaryRecording recording;
  Script node(0);
  node.writer.add(reading);
  recording.save(node.writer);
  auto reader = TraceReader::open(recording.path(), NodeId{0});
  ASSERT_TRUE(reader && reader->check());
  RecordCursor cursor = reader->records();
  while (cursor.next() && !cursor.record().is_event()) {}
  const EventView event = cursor.record().event();
  EXPECT_EQ(event.clock_address(), 0x7000u);
  EXPECT_EQ(clock_text(event), "  1700000000.000000005");
  EXPECT_EQ(event.input_hash(), 0u);
  EXPECT_EQ(event.return_ticks(), 40u);

  reading.arguments = {1};  // and where it was stored is not known
  TemporaryRecording other;
  Script damaged(0);
  damaged.writer.add(reading);
  other.save(damaged.writer);
  auto refused = TraceReader::open(other.path(), NodeId{0});
  ASSERT_TRUE(refused);
  const auto checked = refused->check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("reading of a clock"), std::string::npos) << checked.error().message;
}

// Random damage with checksums resealed, so that every check behind them is reached: errors or none, never a crash.
TEST(TraceReader, SurvivesHostileBytes) {
  TemporaryRecording recording;
  recording.save(sample().writer);
  std::string good = slurp(recording.trace(0));
  auto whole = TraceReader::open_file(recording.trace(0), NodeId{0});
  std::vector<uint64_t> offsets = record_offsets(*whole);
  std::mt19937_64 random(4711);
  int refused = 0;
  for (int round = 0; round < 1000; ++round) {
    std::string bytes = good;
    for (int n = 0; n < 1 + round % 4; ++n) {
      uint64_t record = offsets[random() % offsets.size()];
      uint32_t size = at<format::RecordHeader>(bytes, record).size;
      if (size < 16 || record + size > bytes.size()) continue;
      bytes[record + random() % std::min<uint32_t>(size, 120)] = static_cast<char>(random());
      if (uint32_t now = at<format::RecordHeader>(bytes, record).size; now >= 16 && record + now <= bytes.size())
        reseal(bytes, record);
    }
    if (round % 5 == 0) bytes[random() % sizeof(format::FileHeader)] = static_cast<char>(random());
    spill(recording.trace(0), bytes);
    auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
    bool good_image = reader && reader->image();
    bool good_index = reader && TraceIndex::build(*reader);
    refused += !good_index;
    (void)good_image;
  }
  EXPECT_GT(refused, 300);
}

// As a recorder leaves it that dies while room for the image is made.
TEST(TraceReader, ATraceThatOnlyHasRoomForItsImageHasNoEvents) {
  TemporaryRecording recording;
  Script empty(0);
  recording.save(empty.writer);
  std::string bytes = slurp(recording.trace(0));
  auto& header = at<format::FileHeader>(bytes, 0);
  bytes.resize(header.header_size);
  header.features = 0;
  header.events = 1'000'000;
  header.committed = header.header_size;
  header.image_end = header.header_size + 0x1000000;
  header.imaged = 0;
  spill(recording.trace(0), bytes);
  auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
  ASSERT_TRUE(reader) << reader.error().message;
  EXPECT_LE(reader->first_offset(), reader->end_offset());
  EXPECT_FALSE(reader->records().next());
  auto whole = Recording::open(recording.path());
  ASSERT_TRUE(whole) << whole.error().message;
  auto schedule = Schedule::compute(*whole);
  EXPECT_TRUE(!schedule || schedule->event_count() == 0);
}

TEST(TraceReader, SurvivesAnythingBehindAGoodHeader) {
  TemporaryRecording recording;
  Script empty(0);
  recording.save(empty.writer);
  std::string header = slurp(recording.trace(0));
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = header;
    at<format::FileHeader>(bytes, 0).features = 0;
    for (uint64_t n = 8 + random() % 400; n > 0; --n) {
      uint64_t word = random() % 3 ? random() % 256 : random();
      if (random() % 3 == 0) word = 16 + random() % 100 * 8 + (16 + random() % 8) * 0x100000000ull;
      bytes.append(reinterpret_cast<char*>(&word), 8);
    }
    at<format::FileHeader>(bytes, 0).committed = bytes.size();
    spill(recording.trace(0), bytes);
    auto reader = TraceReader::open_file(recording.trace(0), NodeId{0});
    ASSERT_TRUE(reader);
    (void)reader->check();
    (void)reader->image();
    for (uint64_t offset = 0; offset < bytes.size() + 64; offset += 4) (void)reader->record_at(offset);
  }
}

TEST(Recording, SaysWhatIsWrongWithADirectoryThatIsNone) {
  TemporaryRecording temporary;
  auto message = [](const std::string& path) {
    auto recording = Recording::open(path);
    EXPECT_FALSE(recording);
    return recording ? std::string() : recording.error().message;
  };
  EXPECT_NE(message("/nonexistent/rec").find("no recording"), std::string::npos);
  EXPECT_NE(message("/etc/passwd").find("is a directory"), std::string::npos);
  EXPECT_NE(message("/usr").find("recording.json"), std::string::npos);
  EXPECT_NE(message(temporary.path()).find("holds no nodes"), std::string::npos);
  ASSERT_TRUE(write_file_atomically(temporary.path() + "/recording.json", "{\"format\": 2}"));
  EXPECT_NE(message(temporary.path()).find("format 2"), std::string::npos);
  ASSERT_TRUE(write_file_atomically(temporary.path() + "/recording.json", "rubbish"));
  EXPECT_NE(message(temporary.path()).find("damaged"), std::string::npos);
  EXPECT_NE(message(std::filesystem::path(temporary.path()).parent_path()).find("holds some, such as "),
            std::string::npos);
}

TEST(Recording, NamesNodesByLineageAndRestart) {
  TemporaryRecording temporary;
  auto node = [&](uint8_t id, int parent, const std::string& json, int events = 1) {
    format::FileHeader header = testing::header_of(id, 0, 100 + id);
    if (parent >= 0) {
      header.parent_uuid[0] = static_cast<uint8_t>(parent + 1);
      header.features |= format::kFeatureForkChild;
    }
    Script script(header);
    for (int n = 0; n < events; ++n) script.plain(100 + 20 * static_cast<uint64_t>(n));
    if (id == 0) script.end(format::kEndUnhandled, SYS_io_uring_enter);
    temporary.save(script.writer, json);
  };
  node(0, -1, R"({"name": "db", "program": "/bin/db", "argv": ["db", "-x"], "ended": {"how": "exit", "detail": 3}})");
  node(1, 0, "");
  node(2, 1, R"({"name": "ignored"})");
  node(3, 0, "not json");
  node(4, -1, R"({"name": "db", "ended": {"how": "signal", "detail": 9}})");
  node(5, -1, "");
  auto recording = Recording::open(temporary.path());
  ASSERT_TRUE(recording) << recording.error().message;
  std::vector<std::string> names;
  for (const NodeInfo& info : recording->nodes()) names.push_back(info.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"db", "db/child-1", "db/child-1/child-1", "db/child-2", "db#2", "node-5"}));
  EXPECT_EQ(recording->nodes()[2].program, "/bin/db");
  EXPECT_EQ(recording->nodes()[2].lineage.size(), 3u);
  EXPECT_NE(describe(recording->nodes()[0].end).find("recording ended at call"), std::string::npos);
  EXPECT_EQ(describe(recording->nodes()[4].end), "killed by SIGKILL");
  EXPECT_EQ(recording->resolve("db")->value, 0u);
  EXPECT_EQ(recording->resolve("db#2")->value, 4u);
  EXPECT_EQ(recording->resolve("3")->value, 3u);
  EXPECT_EQ(recording->resolve("web").error().code, ErrorCode::not_found);
  EXPECT_FALSE(recording->readable_by_others());
}

// What the shim keeps of the call are numbers; an older shim kept words.
TEST(Calls, OneThatIsNotHandledIsNamedByWhatItWasAskedToDo) {
  auto said = [](unsigned call, std::string_view about) {
    const std::string text = ended_at_call_text(call, about);
    return text.substr(0, text.find(", which "));
  };
  EXPECT_EQ(said(SYS_ioctl, "0x8946 0x4b"),
            "recording ended at call ioctl (16), SIOCETHTOOL, command ETHTOOL_PERQUEUE");
  EXPECT_EQ(said(SYS_ioctl, "0x8946 0x7777"),
            "recording ended at call ioctl (16), SIOCETHTOOL, command of ethtool 0x7777");
  EXPECT_EQ(said(SYS_ioctl, "0xae01"), "recording ended at call ioctl (16), KVM_CREATE_VM");
  EXPECT_EQ(said(SYS_ioctl, "0xffffffffffff"), "recording ended at call ioctl (16), request 0xffffffffffff");
  EXPECT_EQ(said(SYS_futex, "0x2"), "recording ended at call futex (202), FUTEX_FD");
  EXPECT_EQ(said(SYS_clone, "0x500"), "recording ended at call clone (56), CLONE_VM|CLONE_FILES");
  EXPECT_EQ(said(SYS_ioctl, "0x"), "recording ended at call ioctl (16)");
  EXPECT_EQ(said(SYS_mmap, "of a socket"), "recording ended at call mmap (9), of a socket");
  EXPECT_EQ(said(SYS_openat, "openat"), "recording ended at call openat (257)");
}

TEST(Recording, FindsTheBuildIdWhereverTheModuleStands) {
  TemporaryRecording temporary;
  Script node(0);
  for (const char* path : {"/lib/libc.so", "/bin/app"}) {
    format::ModuleRecord module{};
    strcpy(module.path, path);
    module.build_id_size = 1;
    module.build_id[0] = static_cast<uint8_t>(path[1]);
    node.writer.add_record(format::kModuleRecord, module);
  }
  format::ImageRecord image{};
  strcpy(image.exe, "/bin/app");
  node.writer.add_record(format::kImageRecord, image);
  node.plain(1);
  temporary.save(node.writer);
  auto recording = Recording::open(temporary.path());
  ASSERT_TRUE(recording);
  EXPECT_EQ(recording->nodes()[0].build_id, "62");
}

TEST(Recording, ListsANodeWhoseTraceIsUnusableAndReadsTheOthers) {
  TemporaryRecording temporary;
  temporary.save(sample().writer);
  temporary.save(Script(1).writer);
  spill(temporary.trace(1), "");
  auto recording = Recording::open(temporary.path());
  ASSERT_TRUE(recording);
  EXPECT_FALSE(recording->nodes()[0].problem);
  EXPECT_EQ(recording->nodes()[0].build_id, "abcd");
  EXPECT_EQ(recording->nodes()[0].program, "/usr/bin/sample");
  ASSERT_TRUE(recording->nodes()[1].problem);
  EXPECT_NE(recording->nodes()[1].problem->message.find("is empty"), std::string::npos);
  EXPECT_FALSE(TraceReader::open(*recording, NodeId{1}));
  EXPECT_FALSE(TraceReader::open(*recording, NodeId{8}));
}

}  // namespace
}  // namespace friday
