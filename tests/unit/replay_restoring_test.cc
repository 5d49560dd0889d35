// What a hostile recording says that it leaves out.
#include "core/replay/restoring.h"

#include <gtest/gtest.h>

#include "core/trace/leaving_out.h"
#include "core/trace/reader.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::Script;
using testing::TemporaryRecording;

// A node that leaves out `range`, counted from the payload of the message that it has received; `source` sent it.
Result<Restored> restore(LeftOut range, const Uuid& source) {
  TemporaryRecording recording;
  Script receiver(0, 0);
  receiver.channel(1, format::kChannelStream, 3, testing::inet("10.0.0.1", 1000), testing::inet("10.0.0.2", 2000));
  receiver.receive(1000, 1, std::string(500, 'x'));
  receiver.end();
  recording.save(receiver.writer);
  const Beneath file{recording.path(), "nodes/0/trace"};
  {
    auto reader = TraceReader::open(recording.path(), NodeId{0});
    EXPECT_TRUE(reader);
    uint64_t payload = 0;
    RecordCursor cursor = reader->records();
    while (cursor.next())
      if (cursor.record().is_event())
        for (PartView part : cursor.record().event().parts())
          if (part.kind() == format::kMemory)
            payload =
                cursor.record().offset() + static_cast<uint64_t>(part.bytes().data() - cursor.record().bytes().data());
    range.offset += payload;
    range.source.node = source;
    EXPECT_TRUE(write_without(*reader, std::span(&range, 1), packed(file)));
  }
  remove_beneath(file);
  auto opened = Recording::open(recording.path());
  EXPECT_TRUE(opened && !opened->find(NodeId{0})->is_complete());
  return restore_payload(*opened, all_readable(*opened), {});
}

TEST(Restoring, OnlyPayloadCanBeLeftOut) {
  const auto restored = restore({496, 8, {}}, Uuid{7});  // four of them behind the last byte
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::bad_input);
  EXPECT_NE(restored.error().message.find("not what an event put into the program's memory"), std::string::npos)
      << restored.error().message;
}

TEST(Restoring, AnUnknownSenderIsNamedAsMissing) {
  const auto restored = restore({100, 400, {}}, Uuid{7});
  ASSERT_FALSE(restored);
  EXPECT_EQ(restored.error().code, ErrorCode::unsupported);
  EXPECT_NE(restored.error().message.find("400 bytes that it received are neither"), std::string::npos)
      << restored.error().message;
}

}  // namespace
}  // namespace friday
