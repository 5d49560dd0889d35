// When a thread comes out of a call: what other threads and handlers do first, as the trace tells it.
#include "core/trace/behind_call.h"

#include <sys/syscall.h>

#include <gtest/gtest.h>

#include "core/trace/index.h"
#include "core/trace/recording.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using namespace format;
using testing::EventSpec;
using testing::Script;
using testing::TemporaryRecording;

EventSpec event(uint16_t type, uint32_t thread, uint16_t call, uint16_t flags = 0) {
  EventSpec spec;
  spec.type = type, spec.thread = thread, spec.call = call, spec.flags = flags;
  return spec;
}
EventSpec call(uint32_t thread, uint16_t number = SYS_read) { return event(kCall, thread, number); }
EventSpec signal(uint32_t thread, uint16_t flags = 0) { return event(kSignal, thread, 10, flags); }
EventSpec yield(uint32_t thread, uint16_t kind) { return event(kYield, thread, kind); }

// The answer for the first event of a trace of these.
std::optional<uint64_t> behind(const std::vector<EventSpec>& events) {
  Script node(0);
  for (const EventSpec& each : events) node.writer.add(each);
  node.end();
  TemporaryRecording recording;
  recording.save(node.writer);
  auto opened = Recording::open(recording.path());
  EXPECT_TRUE(opened.has_value());
  auto reader = TraceReader::open(*opened, NodeId{0});
  EXPECT_TRUE(reader.has_value());
  auto index = TraceIndex::build(*reader);
  EXPECT_TRUE(index.has_value());
  return events_behind_call(*reader, index->offset(0));
}

TEST(BehindCall, ThreadGoesOnAtOnce) {
  EXPECT_EQ(behind({call(0)}), 1u);
  EXPECT_EQ(behind({call(0), call(0)}), 1u);
  EXPECT_EQ(behind({call(0), yield(0, kYieldLoop), call(1)}), 1u);
  EXPECT_EQ(behind({call(0), signal(0, kFlagAtEntry), call(0, SYS_rt_sigreturn), call(0)}), 1u);
}

TEST(BehindCall, OthersRunFirst) {
  EXPECT_EQ(behind({call(0), yield(0, kYieldCall), call(1), call(1), call(0)}), 4u);
  EXPECT_EQ(behind({call(0), yield(0, kYieldCall), yield(0, kYieldResumed), call(0)}), 3u);
  EXPECT_EQ(behind({call(0), yield(0, kYieldCall), yield(0, kYieldResumed)}), 3u);
  EXPECT_EQ(behind({call(0), yield(0, kYieldCall), call(1)}), std::nullopt) << "it does not come back";
  EXPECT_EQ(behind({event(kRelease, 0, SYS_read), call(1), event(kReturn, 0, SYS_read), call(0)}), 3u);
  EXPECT_EQ(behind({event(kRelease, 0, SYS_read), call(1)}), std::nullopt);
}

TEST(BehindCall, HandlersRunFirst) {
  const EventSpec back = call(0, SYS_rt_sigreturn);
  EXPECT_EQ(behind({call(0), signal(0), call(0), back, call(0)}), 4u);
  EXPECT_EQ(behind({call(0), signal(0), signal(0), call(0), back, back, call(0)}), 6u);
  EXPECT_EQ(behind({call(0), signal(0), back, signal(0), back, yield(0, kYieldCall), call(1), call(0)}), 7u);
  EXPECT_EQ(behind({call(0), signal(0), call(1, SYS_rt_sigreturn), back}), 4u) << "of another thread";
  EXPECT_EQ(behind({call(0), signal(0), call(0), call(0)}), std::nullopt) << "it has left by siglongjmp()";
}

TEST(BehindCall, HandlersOfFaultsOnlyReturn) {
  const EventSpec back = call(0, SYS_rt_sigreturn);
  EXPECT_EQ(behind({call(0), back, call(0)}), 1u) << "the fault is behind the call";
  EXPECT_EQ(behind({call(0), signal(0), back, back, call(0)}), std::nullopt);
  EXPECT_EQ(behind({call(0), signal(0), back, call(0), yield(0, kYieldCall), call(1), back}), std::nullopt);
  EXPECT_EQ(behind({call(0), signal(0), back, call(0), signal(0), back, call(1, SYS_rt_sigreturn)}), 3u);
}

TEST(BehindCall, GivesUpFarAway) {
  std::vector<EventSpec> events{call(0), yield(0, kYieldCall)};
  events.resize(5000, call(1));
  events.push_back(call(0));
  EXPECT_EQ(behind(events), std::nullopt);
}

TEST(BehindCall, CallIsMadeAgain) {
  EXPECT_EQ(behind({event(kCall, 0, SYS_read, kFlagRestarted), signal(0, kFlagAtEntry), call(0, SYS_rt_sigreturn)}),
            std::nullopt);
  EXPECT_EQ(behind({event(kRelease, 0, SYS_read), event(kReturn, 0, SYS_read, kFlagRestarted), signal(0)}),
            std::nullopt);
}

}  // namespace
}  // namespace friday
