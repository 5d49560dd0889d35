// What matching and scheduling cost grows with the recording, not with its square.
#include <signal.h>

#include <memory>

#include "core/trace/matching.h"
#include "tests/unit/trace_world.h"

namespace friday {
namespace {

using testing::EventSpec;
using testing::growth;
using testing::inet;
using testing::kMostGrowth;
using testing::Script;

void schedule(const std::vector<Script*>& scripts) {
  testing::TemporaryRecording recording;
  for (Script* script : scripts) recording.save(script->writer);
  EXPECT_TRUE(Schedule::compute(*Recording::open(recording.path())));
}

// A server that forks for each connection, and closes it then.
TEST(Growth, AForkInheritsWhatIsOpen) {
  EXPECT_LT(growth(250,
                   [](uint64_t n) {
                     Script server(0);
                     for (uint64_t k = 0; k < n; ++k) {
                       server.channel(k + 1, format::kChannelStream, 5, inet("10.0.0.1", 80), inet("10.0.0.2", 4000));
                       EventSpec fork = server.call(100 * k + 100, SYS_clone, {17, 0, 0, 0, 0}, 101);
                       format::ChildPart part{0, 101, {}};
                       memcpy(part.node_uuid, &k, sizeof k);
                       part.node_uuid[15] = 1;
                       fork.parts.record(format::kChild, part);
                       server.writer.add(fork);
                       server.plain(100 * k + 150, SYS_close, {5});
                     }
                     schedule({&server});
                   }),
            kMostGrowth);
}

TEST(Growth, SignalsAreMatchedInTurn) {
  EXPECT_LT(growth(3000,
                   [](uint64_t n) {
                     Script sender(0, 0, 100), receiver(1, 0, 101);
                     for (uint64_t k = 0; k < n; ++k) {
                       sender.plain(100 * k + 100, SYS_kill, {101, SIGUSR1});
                       EventSpec signal;
                       signal.type = format::kSignal;
                       signal.call = SIGUSR1;
                       signal.entry_ticks = signal.return_ticks = 100 * k + 150;
                       int32_t info[32] = {SIGUSR1, 0, SI_USER, 0, 100};
                       signal.parts.add(format::kSignalInfo, std::as_bytes(std::span(info)));
                       receiver.writer.add(signal);
                     }
                     schedule({&sender, &receiver});
                   }),
            kMostGrowth);
}

// One node waits for another host while all others of its own go on.
TEST(Growth, WhoWaitsIsNotLookedForAmongAllNodes) {
  EXPECT_LT(
      growth(1500,
             [](uint64_t n) {
               FactSet facts;
               facts.clocks.resize(2);
               for (HostClock& clock : facts.clocks) clock.finish(format::kClockTsc, 1'000'000'000);
               for (uint32_t slot = 0; slot < n; ++slot) {
                 NodeFacts& node = facts.nodes.emplace_back();
                 node.id = NodeId{slot};
                 node.host = slot == 1;
                 const uint64_t at = slot == 1 ? 1000 * n : 1000 * slot;
                 node.times.push_back({at, slot == 0 ? 2000 * n : at + 10, slot == 0});
               }
               Matches matches;
               matches.traffic.resize(n);
               matches.hosts = align_hosts(2, {}, std::vector<int64_t>{0, 0});
               matches.edges.push_back({NodeId{1}, NodeId{0}, 0, 0, 0, 0, EdgeKind::stream, 0, MatchedBy::address});
               EXPECT_EQ(schedule_of(facts, matches).event_count(), n);
             }),
      kMostGrowth);
}

}  // namespace
}  // namespace friday
