// Clocks, matching and logical time on synthetic recordings whose truth is known.
#include <algorithm>
#include <array>
#include <queue>
#include <random>

#include "core/trace/clock.h"
#include "core/trace/host_order.h"
#include "core/trace/logical_time.h"
#include "tests/unit/trace_world.h"

namespace friday {
namespace {

using testing::connect_streams;
using testing::EventSpec;
using testing::inet;
using testing::Script;
using testing::TemporaryRecording;
using testing::unix_path;
using testing::World;

TEST(HostClock, IsPiecewiseLinearAndNeverGoesBack) {
  HostClock clock;
  for (uint64_t n = 0; n < 20; ++n) {
    format::ClockRecord record{};
    record.ticks = 3'000'000'000 * n;
    record.monotonic_ns = static_cast<int64_t>(1'000'100'000 * n) + 500;
    if (n == 7) record.monotonic_ns += 5'000'000;  // a reading the scheduler interrupted
    record.realtime_ns = record.monotonic_ns + 1'700'000'000'000'000'000;
    clock.add(record);
  }
  clock.finish(format::kClockTsc, 2'999'000'000);
  EXPECT_EQ(clock.monotonic_ns(6'000'000'000), 2'000'200'500);
  EXPECT_NEAR(static_cast<double>(clock.monotonic_ns(21'000'000'000)), 7'000'700'500, 60'000);
  EXPECT_EQ(clock.realtime_ns(6'000'000'000), 1'700'000'002'000'200'500);
  int64_t last = INT64_MIN;
  for (uint64_t ticks = 0; ticks < 70'000'000'000; ticks += 999'999'937) {
    int64_t now = clock.monotonic_ns(ticks);
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(AlignHosts, FindsOffsetAndDriftFromMessagesOfBothDirections) {
  std::mt19937_64 random(5);
  // Host 1's clock: 1000 s behind, 80 ppm fast. Host 2 is reached through host 1 only.
  auto host1 = [](double t) { return static_cast<int64_t>((t - 1e12) * 1.00008); };
  auto host2 = [](double t) { return static_cast<int64_t>(t + 5e14); };
  std::vector<CrossMessage> messages;
  for (int n = 0; n < 2000; ++n) {
    double sent = 2e12 + n * 5e7, arrived = sent + 40'000 + static_cast<double>(random() % 3'000'000);
    if (n % 2) messages.push_back({0, 1, static_cast<int64_t>(sent), host1(arrived)});
    else messages.push_back({1, 0, host1(sent), static_cast<int64_t>(arrived)});
    if (n % 3 == 0) messages.push_back({1, 2, host1(sent), host2(arrived)});
    if (n % 3 == 1) messages.push_back({2, 1, host2(sent), host1(arrived)});
  }
  std::vector<int64_t> wrong_walls{0, 77, 99};
  auto hosts = align_hosts(3, messages, wrong_walls);
  for (double t : {2e12, 2.05e12, 2.1e12}) {
    EXPECT_NEAR(static_cast<double>(hosts[0].map(static_cast<int64_t>(t))), t, 1);
    EXPECT_NEAR(static_cast<double>(hosts[1].map(host1(t))), t, 100'000);
    EXPECT_NEAR(static_cast<double>(hosts[2].map(host2(t))), t, 200'000);
  }
  EXPECT_EQ(hosts[2].by, 1u);
  EXPECT_EQ(hosts[2].group, 0u);
  EXPECT_EQ(hosts[1].to, 1000u);
  EXPECT_EQ(hosts[1].from, 1000u);
}

TEST(AlignHosts, UsesOneDirectionOrTheWallClockWhenThereIsNothingBetter) {
  std::vector<CrossMessage> messages{{0, 1, 1000, 500'000}, {0, 1, 2000, 501'500}};
  auto hosts = align_hosts(3, messages, std::vector<int64_t>{0, 0, 4242});
  EXPECT_GE(hosts[1].map(500'000), 1000);
  EXPECT_GE(hosts[1].map(501'500), 2000);
  EXPECT_EQ(hosts[1].group, 0u);
  EXPECT_EQ(hosts[2].map(10), 4252);
  EXPECT_EQ(hosts[2].group, 2u);
}

TEST(Matching, StreamBytesByOffsetAndHash) {
  Script a(0), b(1);
  connect_streams(a, b);
  uint64_t first = a.send(100, 1, "hello ");
  uint64_t second = a.send(200, 1, "world, ");
  uint64_t third = a.send(300, 1, std::string(10'000, 'z'));
  uint64_t got = b.receive(400, 1, "hello wor");
  uint64_t rest = b.receive(500, 1, "ld, " + std::string(9'000, 'z'));
  uint64_t tail = b.receive(600, 1, std::string(1'000, 'z'));
  World world({&a, &b});
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, first, 1, got));
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, second, 1, got));
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, second, 1, rest));
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, third, 1, rest));
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, third, 1, tail));
  EXPECT_EQ(world.count(EdgeKind::stream), 5u);
  auto pair = world.schedule.traffic_between().at({NodeId{0}, NodeId{1}});
  EXPECT_EQ(pair.bytes, 10'013u);
  EXPECT_EQ(world.schedule.traffic_of(NodeId{0}).unmatched_sends, 0u);
  EXPECT_EQ(world.schedule.traffic_of(NodeId{1}).unmatched_receives, 0u);
}

TEST(Matching, BytesThatDoNotAgreeAreNotMatched) {
  Script a(0), b(1);
  connect_streams(a, b);
  a.send(100, 1, "hello");
  b.receive(400, 1, "hellO");
  World world({&a, &b});
  EXPECT_EQ(world.count(EdgeKind::stream), 0u);
  EXPECT_EQ(world.schedule.traffic_of(NodeId{1}).unmatched_receives, 1u);
}

TEST(Matching, PeekedBytesComeAfterTheirSendToo) {
  Script a(0), b(1);
  connect_streams(a, b);
  a.send(100, 1, "abc");
  uint64_t second = a.send(200, 1, "def");
  b.receive(300, 1, "abc");
  uint64_t peek = b.receive(400, 1, "def", nullptr, format::kPeek);
  uint64_t got = b.receive(500, 1, "def");
  World world({&a, &b});
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, second, 1, peek));
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, second, 1, got));
}

TEST(Matching, UnrecordedPeersAreLocalTicks) {
  Script a(0), b(1);
  a.channel(1, format::kChannelStream, 5, inet("10.0.0.1", 4000), inet("10.0.0.9", 80));
  a.send(100, 1, "GET / HTTP/1.0 and so on");
  a.receive(200, 1, "200 OK and so on and on");
  b.plain(150);
  World world({&a, &b});
  EXPECT_TRUE(world.schedule.edges().empty());
  EXPECT_EQ(world.schedule.traffic_of(NodeId{0}).unmatched_receives, 1u);
  EXPECT_EQ(world.schedule.traffic_of(NodeId{0}).unmatched_sends, 1u);
}

TEST(Matching, ConnectAcceptAndEndOfStream) {
  Script client(0), server(1);
  client.channel(1, format::kChannelStream, 4, inet("127.0.0.1", 5000), {});  // in progress: no peer name yet
  uint64_t connect = client.writer.add(client.call(100, SYS_connect, {4, 0x1000, 16}, -EINPROGRESS));
  server.channel(1, format::kChannelStream, 7, inet("127.0.0.1", 80), inet("127.0.0.1", 5000));
  EventSpec accepted = server.call(90, SYS_accept4, {3, 0, 0, 0}, 7);
  accepted.return_ticks = 150;
  accepted.parts.record(format::kDescriptors, format::DescriptorsPart{1, 7, 0});
  uint64_t accept = server.writer.add(accepted);
  client.send(200, 1, "x");
  uint64_t close = client.plain(300, SYS_close, {4});
  server.receive(310, 1, "x");
  uint64_t eof = server.receive(400, 1, "", nullptr, format::kEndOfStream);
  World world({&client, &server});
  EXPECT_TRUE(world.has(EdgeKind::connect, 0, connect, 1, accept));
  EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 0, close, 1, eof));
}

TEST(Matching, AConnectThatIsAskedAboutAgainTookPlaceTheFirstTime) {
  Script a(0), b(1);
  connect_streams(a, b);
  uint64_t first = a.writer.add(a.call(100, SYS_connect, {5, 0x1000, 16}, -EINPROGRESS));
  EventSpec accepted = b.call(120, SYS_accept4, {3, 0, 0, 0}, 5);
  accepted.parts.record(format::kDescriptors, format::DescriptorsPart{1, 5, 0});
  uint64_t accept = b.writer.add(accepted);
  a.writer.add(a.call(200, SYS_connect, {5, 0x1000, 16}, 0));
  World world({&a, &b});
  EXPECT_TRUE(world.has(EdgeKind::connect, 0, first, 1, accept));
}

TEST(Matching, ConnectionsThatReuseAPortAreToldApart) {
  Script a(0), b(1);
  for (uint64_t round = 0; round < 3; ++round) {
    uint64_t at = 1000 * (round + 1);
    a.channel(round + 1, format::kChannelStream, 5, inet("10.0.0.1", 4000), inet("10.0.0.2", 80));
    b.channel(round + 1, format::kChannelStream, 5, inet("10.0.0.2", 80), inet("10.0.0.1", 4000));
    a.send(at, round + 1, "round " + std::to_string(round));
    a.plain(at + 100, SYS_close, {5});
    b.receive(at + 50, round + 1, "round " + std::to_string(round));
    b.plain(at + 120, SYS_close, {5});
  }
  World world({&a, &b});
  EXPECT_EQ(world.count(EdgeKind::stream), 3u);
  for (uint64_t round = 0; round < 3; ++round) EXPECT_TRUE(world.has(EdgeKind::stream, 0, 2 * round, 1, 2 * round));
}

TEST(Matching, AddressesRewrittenOnTheWayAreMatchedByContent) {
  Script client(0, 0), server(1, 1), stranger(2, 1);
  client.clock(0, 0, 1'000'000'000);
  server.clock(0, 0, 1'000'000'000);
  client.channel(1, format::kChannelStream, 4, inet("192.168.1.5", 5000), inet("203.0.113.1", 80));
  client.writer.add(client.call(100, SYS_connect, {4, 0x1000, 16}, 0));
  uint64_t ask = client.send(200, 1, "a question long enough to count");
  server.channel(1, format::kChannelStream, 7, inet("10.9.9.9", 8080), inet("203.0.113.77", 61000));
  EventSpec accepted = server.call(120, SYS_accept4, {3, 0, 0, 0}, 7);
  accepted.parts.record(format::kDescriptors, format::DescriptorsPart{1, 7, 0});
  server.writer.add(accepted);
  uint64_t got = server.receive(300, 1, "a question long enough to count");
  uint64_t answer = server.send(400, 1, "the answer");
  uint64_t answered = client.receive(500, 1, "the answer");
  stranger.channel(1, format::kChannelStream, 7, inet("10.9.9.9", 8081), inet("203.0.113.77", 61001));
  EventSpec other = stranger.call(120, SYS_accept4, {3, 0, 0, 0}, 7);
  other.parts.record(format::kDescriptors, format::DescriptorsPart{1, 7, 0});
  stranger.writer.add(other);
  stranger.receive(300, 1, "another question altogether here");
  World world({&client, &server, &stranger});
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, ask, 1, got));
  EXPECT_TRUE(world.has(EdgeKind::stream, 1, answer, 0, answered));
  EXPECT_EQ(world.count(EdgeKind::stream), 2u);
}

TEST(Matching, DatagramsWithRewrittenAddressesNeedNoWallClock) {
  // By their wall clocks the second host received everything 100 s before it was sent.
  Script a(0, 0), b(1, 1);
  a.clock(0, 0, 1'000'000'000'000);
  b.clock(0, 0, 900'000'000'000);
  format::SocketAddress known_as = inet("203.0.113.1", 9001), seen_from = inet("203.0.113.2", 61000);
  a.channel(1, format::kChannelDatagram, 3, inet("10.0.0.1", 7000), {});
  b.channel(1, format::kChannelDatagram, 3, inet("10.0.0.2", 7001), {});
  a.datagrams[1] = b.datagrams[1] = true;
  std::vector<std::pair<uint64_t, uint64_t>> there, back;
  for (uint64_t n = 0; n < 10; ++n) {
    uint64_t at = 1'000'000 + n * 10'000'000;
    uint64_t sent = a.send(at, 1, fmt::format("question number {}", n), &known_as);
    there.emplace_back(sent, b.receive(at + 500'000, 1, fmt::format("question number {}", n), &seen_from));
    uint64_t answered = b.send(at + 600'000, 1, fmt::format("answer number {}", n), &seen_from);
    back.emplace_back(answered, a.receive(at + 1'100'000, 1, fmt::format("answer number {}", n), &known_as));
  }
  World world({&a, &b});
  for (auto [sent, got] : there) EXPECT_TRUE(world.has(EdgeKind::datagram, 0, sent, 1, got));
  for (auto [sent, got] : back) EXPECT_TRUE(world.has(EdgeKind::datagram, 1, sent, 0, got));
  EXPECT_EQ(
      world.schedule.traffic_between()[std::pair(NodeId{0}, NodeId{1})].by[static_cast<size_t>(MatchedBy::content)],
      10u);
  ASSERT_EQ(world.schedule.hosts().size(), 2u);
  const HostAlignment& host = world.schedule.hosts()[1];
  EXPECT_EQ(host.group, 0u);
  EXPECT_EQ(host.to + host.from, 20u);
  EXPECT_GE(host.margin_ns, 0);
  EXPECT_EQ(world.schedule.host_of(NodeId{1}), 1u);
}

TEST(Matching, EqualConnectionsThroughAProxyAreToldApartByTime) {
  // A connection that names both addresses relates the clocks. The others say the same, and each is passed on when all
  // have come.
  Script client(0, 0), server(1, 1);
  client.clock(0, 0, 1'000'000'000);
  server.clock(0, 5'000'000'000, 1'000'000'000);
  connect_streams(client, server, "10.0.0.1", "10.0.0.2", 1, 41000);
  client.send(1'000'000, 1, "hello there");
  server.receive(2'000'000, 1, "hello there");
  server.send(3'000'000, 1, "hello yourself");
  client.receive(4'000'000, 1, "hello yourself");
  std::vector<uint64_t> connects, accepts;
  for (uint64_t n : {4, 3, 2}) {
    uint64_t at = 1'000'000'000 - n * 1'000'000;
    client.channel(n, format::kChannelStream, 10 + static_cast<int>(n),
                   inet("10.0.0.1", static_cast<uint16_t>(42000 + n)), inet("10.0.9.9", 8080));
    connects.push_back(client.writer.add(client.call(at, SYS_connect, {10 + n, 0x1000, 16}, 0)));
    client.send(at + 1000, n, "the same request from everybody");
  }
  for (uint64_t n : {2, 4, 3}) {  // the server's ports and numbers say nothing of the order
    uint64_t at = 1'100'000'000 + accepts.size() * 1'000'000;
    server.channel(n, format::kChannelStream, 20 + static_cast<int>(n), inet("10.0.0.2", 80),
                   inet("10.0.9.9", static_cast<uint16_t>(50000 - n)));
    EventSpec accepted = server.call(at, SYS_accept4, {3, 0, 0, 0}, static_cast<int64_t>(20 + n));
    accepted.parts.record(format::kDescriptors, format::DescriptorsPart{n, 20 + static_cast<int>(n), 0});
    accepts.push_back(server.writer.add(accepted));
    server.receive(at + 1000, n, "the same request from everybody");
  }
  World world({&client, &server});
  for (size_t n = 0; n < connects.size(); ++n)
    EXPECT_TRUE(world.has(EdgeKind::connect, 0, connects[n], 1, accepts[n])) << n;
}

// Two UDP sockets bound to any address, as chord nodes are.
struct Datagrams {
  Script a{0}, b{1};
  format::SocketAddress to_b = inet("127.0.0.1", 7001), from_a = inet("127.0.0.1", 7000);
  Datagrams() {
    a.channel(1, format::kChannelDatagram, 3, inet("0.0.0.0", 7000), {});
    b.channel(1, format::kChannelDatagram, 3, inet("0.0.0.0", 7001), {});
    a.datagrams[1] = b.datagrams[1] = true;
  }
  uint64_t send(uint64_t at, const std::string& text) { return a.send(at, 1, text, &to_b); }
  uint64_t receive(uint64_t at, const std::string& text) { return b.receive(at, 1, text, &from_a); }
};

TEST(Matching, DatagramsThroughLossReorderingAndDuplication) {
  Datagrams net;
  uint64_t one = net.send(100, "one"), two = net.send(200, "two"), lost = net.send(300, "lost");
  uint64_t same1 = net.send(400, "same"), same2 = net.send(500, "same");
  uint64_t got_two = net.receive(600, "two"), got_one = net.receive(700, "one");
  uint64_t got_same1 = net.receive(800, "same"), got_same2 = net.receive(900, "same");
  uint64_t twice = net.receive(1000, "one");
  uint64_t late = net.send(2000, "one");
  World world({&net.a, &net.b});
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, one, 1, got_one));
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, two, 1, got_two));
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, same1, 1, got_same1));
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, same2, 1, got_same2));
  ASSERT_EQ(world.into(1, twice).size(), 1u);
  EXPECT_EQ(world.into(1, twice)[0].from_event, one);
  EXPECT_TRUE(world.into(1, twice)[0].duplicate);
  for (const Edge& edge : world.schedule.edges()) EXPECT_TRUE(edge.from_event != lost && edge.from_event != late);
  EXPECT_EQ(world.schedule.traffic_of(NodeId{0}).unmatched_sends, 2u);
}

TEST(Matching, DatagramsOfUnrecordedSendersStayUnmatched) {
  Datagrams net;
  net.send(100, "ping");
  format::SocketAddress stranger = inet("127.0.0.1", 9999);
  uint64_t foreign = net.b.receive(200, 1, "ping", &stranger);
  uint64_t known = net.receive(300, "ping");
  World world({&net.a, &net.b});
  EXPECT_TRUE(world.into(1, foreign).empty());
  EXPECT_EQ(world.into(1, known).size(), 1u);
}

TEST(Matching, UnixSocketsInOrderOfConnecting) {
  Script a(0), b(1), server(2);
  auto connect = [](Script& client, uint64_t at, const std::string& text) {
    client.channel(1, format::kChannelStream, 4, {}, unix_path("/run/s"));
    client.writer.add(client.call(at, SYS_connect, {4, 0x1000, 16}, 0));
    return client.send(at + 50, 1, text);
  };
  uint64_t from_a = connect(a, 100, "same text"), from_b = connect(b, 110, "same text");
  for (uint64_t n = 1; n <= 2; ++n) {
    server.channel(n, format::kChannelStream, 6 + static_cast<int>(n), unix_path("/run/s"), {});
    EventSpec accepted = server.call(200 * n, SYS_accept4, {3, 0, 0, 0}, 6 + static_cast<int64_t>(n));
    accepted.parts.record(format::kDescriptors, format::DescriptorsPart{n, 6 + static_cast<int>(n), 0});
    server.writer.add(accepted);
  }
  uint64_t first = server.receive(500, 1, "same text"), second = server.receive(600, 2, "same text");
  World world({&a, &b, &server});
  EXPECT_EQ(world.count(EdgeKind::connect), 2u);
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, from_a, 2, first));
  EXPECT_TRUE(world.has(EdgeKind::stream, 1, from_b, 2, second));
}

// Parent and child after a fork: a pipe between them, both writing to it, wait and signals.
TEST(Matching, ForkPipeWaitAndSignals) {
  Script parent(0, 0, 100);
  format::FileHeader header = testing::header_of(1, 0, 101);
  header.parent_uuid[0] = 1;
  header.features |= format::kFeatureForkChild;
  Script child(header), reader(2, 0, 102);
  parent.channel(1, format::kChannelPipe, 3, {}, {}, 555);
  uint64_t early = parent.send(100, 1, "early ");
  EventSpec fork = parent.call(200, SYS_clone, {17, 0, 0, 0, 0}, 101);
  format::ChildPart part{0, 101, {}};
  part.node_uuid[0] = 2;
  fork.parts.record(format::kChild, part);
  uint64_t forked = parent.writer.add(fork);
  EventSpec start;
  start.type = format::kThreadStart;
  start.entry_ticks = start.return_ticks = 230;
  child.writer.add(start);
  // The child goes on with the parent's chain.
  EventSpec child_write = child.call(300, SYS_write, {3, 0, 6}, 6);
  format::TransferPart moved{};
  moved.channel = 1;
  moved.offset = 6;
  moved.length = moved.true_length = 6;
  moved.direction = format::kOut;
  moved.hash = run_hash(std::as_bytes(std::span("child ", 6)), run_hash(std::as_bytes(std::span("early ", 6)), 0));
  child_write.parts.record(format::kTransfer, moved);
  uint64_t childs = child.writer.add(child_write);
  uint64_t last = child.plain(400, SYS_exit_group, {0});
  uint64_t parents = parent.send(310, 1, "parent");
  EventSpec wait = parent.call(350, SYS_wait4, {101, 0, 0, 0}, 101);
  wait.return_ticks = 450;
  wait.parts.record(format::kWait, format::WaitPart{101, 0});
  uint64_t waited = parent.writer.add(wait);
  reader.channel(1, format::kChannelPipe, 3, {}, {}, 555);
  uint64_t got = reader.receive(500, 1, "early child parent");
  uint64_t kill = parent.plain(600, SYS_kill, {102, SIGUSR1});
  EventSpec signal;
  signal.type = format::kSignal;
  signal.call = SIGUSR1;
  signal.entry_ticks = signal.return_ticks = 640;
  int32_t info[32] = {SIGUSR1, 0, SI_USER, 0, 100};
  signal.parts.add(format::kSignalInfo, std::as_bytes(std::span(info)));
  uint64_t delivered = reader.writer.add(signal);
  World world({&parent, &child, &reader});
  EXPECT_TRUE(world.has(EdgeKind::fork, 0, forked, 1, 0));
  EXPECT_TRUE(world.has(EdgeKind::wait, 1, last, 0, waited));
  EXPECT_TRUE(world.has(EdgeKind::pipe, 0, early, 2, got));
  EXPECT_TRUE(world.has(EdgeKind::pipe, 1, childs, 2, got));
  EXPECT_TRUE(world.has(EdgeKind::pipe, 0, parents, 2, got));
  EXPECT_TRUE(world.has(EdgeKind::signal, 0, kill, 2, delivered));
}

TEST(Matching, SignalsThroughPidfdsAreOfTheProcessThatWasOpened) {
  Script sender(0), first(1), second(2);
  auto delivered = [](Script& to, uint64_t at) {
    EventSpec signal;
    signal.type = format::kSignal;
    signal.call = SIGUSR1;
    signal.entry_ticks = signal.return_ticks = at;
    int32_t info[32] = {SIGUSR1, 0, SI_USER, 0, 1000};
    signal.parts.add(format::kSignalInfo, std::as_bytes(std::span(info)));
    return to.writer.add(signal);
  };
  sender.plain(10, SYS_pidfd_open, {1001, 0}, 7);
  sender.plain(20, SYS_pidfd_open, {1002, 0}, 8);
  const uint64_t to_second = sender.plain(100, SYS_pidfd_send_signal, {8, SIGUSR1, 0, 0});
  const uint64_t to_first = sender.plain(110, SYS_pidfd_send_signal, {7, SIGUSR1, 0, 0});
  // A pidfd of which nothing is known but that its number had another meaning once.
  sender.plain(120, SYS_close, {7});
  const uint64_t to_any = sender.plain(130, SYS_pidfd_send_signal, {7, SIGUSR1, 0, 0});
  const uint64_t at_first = delivered(first, 150), at_second = delivered(second, 160), again = delivered(second, 170);
  World world({&sender, &first, &second});
  EXPECT_TRUE(world.has(EdgeKind::signal, 0, to_first, 1, at_first));
  EXPECT_TRUE(world.has(EdgeKind::signal, 0, to_second, 2, at_second));
  EXPECT_TRUE(world.has(EdgeKind::signal, 0, to_any, 2, again));
}

TEST(Matching, FileReadsFollowWritesOfOtherNodes) {
  Script writer(0), reader(1);
  writer.channel(1, format::kChannelFile, 3, {}, {}, 777);
  reader.channel(1, format::kChannelFile, 4, {}, {}, 777);
  uint64_t before = reader.receive(50, 1, "old");
  writer.send(100, 1, "new");
  uint64_t second = writer.send(200, 1, "newer");
  uint64_t after = reader.receive(300, 1, "newer");
  World world({&writer, &reader});
  EXPECT_TRUE(world.into(1, before).empty());
  EXPECT_TRUE(world.has(EdgeKind::file, 0, second, 1, after));
  EXPECT_EQ(world.count(EdgeKind::file), 1u);
}

// Whoever takes a lock comes after the last who had it, and so after all before: no edge is needed from each of them.
TEST(Matching, ALockIsHandedOnByOneEdge) {
  constexpr uint64_t kNodes = 12, kRounds = 10;
  std::vector<std::unique_ptr<Script>> nodes;
  std::vector<Script*> scripts;
  for (uint64_t n = 0; n < kNodes; ++n) {
    nodes.push_back(std::make_unique<Script>(static_cast<uint8_t>(n)));
    nodes[n]->channel(1, format::kChannelFile, 3, {}, {}, 777);
    scripts.push_back(nodes[n].get());
  }
  for (uint64_t round = 0; round < kRounds; ++round)
    for (uint64_t n = 0; n < kNodes; ++n) {
      nodes[n]->plain(1000 * round + 50 * n + 100, SYS_flock, {3, 2});
      nodes[n]->plain(1000 * round + 50 * n + 120, SYS_flock, {3, 8});
    }
  World world(scripts);
  EXPECT_EQ(world.count(EdgeKind::lock), kNodes * kRounds - 1);
  for (uint64_t round = 0; round < kRounds; ++round)
    for (uint64_t n = 0; n < kNodes; ++n) {
      if (n + round == 0) continue;
      EXPECT_TRUE(world.has(EdgeKind::lock, static_cast<uint32_t>(n ? n - 1 : kNodes - 1),
                            2 * (n ? round : round - 1) + 1, static_cast<uint32_t>(n), 2 * round))
          << round << " " << n;
    }
}

// Two who wait for the same unlock, and share the lock then: an acquire's entry says nothing of what it waited for.
TEST(Matching, WhoSharesALockFollowsTheUnlockToo) {
  Script owner(0), first(1), second(2);
  for (Script* script : {&owner, &first, &second}) script->channel(1, format::kChannelFile, 3, {}, {}, 777);
  owner.plain(100, SYS_flock, {3, 2});
  const uint64_t unlocked = owner.plain(500, SYS_flock, {3, 8});
  std::vector<uint64_t> shared;
  for (Script* script : {&first, &second}) {
    EventSpec waits = script->call(200, SYS_flock, {3, 1});
    waits.return_ticks = 600 + 10 * shared.size();
    shared.push_back(script->writer.add(waits));
  }
  World world({&owner, &first, &second});
  EXPECT_TRUE(world.has(EdgeKind::lock, 0, unlocked, 1, shared[0]));
  EXPECT_TRUE(world.has(EdgeKind::lock, 0, unlocked, 2, shared[1]));
}

TEST(Schedule, ACallThatLetTheTokenGoSendsAtItsEntry) {
  Script a(0), b(1);
  connect_streams(a, b);
  EventSpec release = a.call(100, SYS_sendto, {5, 0, 5});
  release.type = format::kRelease;
  release.return_ticks = 100;
  uint64_t entry = a.writer.add(release);
  EventSpec done = a.call(100, SYS_sendto, {5, 0, 5}, 5);
  done.type = format::kReturn;
  done.return_ticks = 900;
  done.parts.record(format::kTransfer, a.out(1, "hello", nullptr));
  a.writer.add(done);
  uint64_t got = b.receive(200, 1, "hello");
  b.plain(300);
  World world({&a, &b});
  EXPECT_TRUE(world.has(EdgeKind::stream, 0, entry, 1, got));
  EXPECT_LT(world.position(1, got + 1), world.position(0, entry + 1));
}

// Random traffic among nodes on hosts with skewed, drifting clocks: the promises hold (World checks them), every
// message is matched, and what is true in real time by a clear margin is true in the order.
TEST(Schedule, KeepsItsPromisesOnSkewedHosts) {
  for (uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 random(seed);
    constexpr uint32_t kNodes = 6, kHosts = 3;
    std::vector<std::unique_ptr<Script>> nodes;
    auto local = [&](uint32_t node, double t) {
      uint32_t host = node % kHosts;
      return static_cast<uint64_t>((t + 1e9 * (1 + 7 * host)) * (1 + 5e-5 * host));
    };
    for (uint32_t n = 0; n < kNodes; ++n) {
      nodes.push_back(std::make_unique<Script>(static_cast<uint8_t>(n), static_cast<uint8_t>(n % kHosts)));
      nodes[n]->channel(1, format::kChannelDatagram, 3, inet("0.0.0.0", 7000), {});
      nodes[n]->datagrams[1] = true;
      nodes[n]->clock(local(n, 0), static_cast<int64_t>(local(n, 0)),
                      static_cast<int64_t>(random() % 1'000'000'000'000));
    }
    auto address = [&](uint32_t n) { return inet(("10.0.0." + std::to_string(n + 1)).c_str(), 7000); };
    struct Arrival {
      double time;
      uint32_t from, to;
      std::string text;
      bool operator>(const Arrival& other) const { return time > other.time; }
    };
    std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> flying;
    std::vector<std::tuple<double, uint32_t, uint64_t>> truth;  // time, node, event
    uint64_t sent = 0, received = 0;
    for (double now = 0; now < 2e9; now += 50'000 + static_cast<double>(random() % 200'000)) {
      while (!flying.empty() && flying.top().time < now) {
        Arrival got = flying.top();
        flying.pop();
        double at = std::max(got.time, now - 40'000);
        format::SocketAddress from = address(got.from);
        truth.emplace_back(at, got.to, nodes[got.to]->receive(local(got.to, at), 1, got.text, &from));
        now += 20'000;
        ++received;
      }
      uint32_t from = random() % kNodes, to = (from + 1 + random() % (kNodes - 1)) % kNodes;
      std::string text = random() % 4 ? "message " + std::to_string(sent) : "heartbeat";
      format::SocketAddress destination = address(to);
      truth.emplace_back(now, from, nodes[from]->send(local(from, now), 1, text, &destination));
      if (random() % 50) flying.push({now + 60'000 + static_cast<double>(random() % 400'000), from, to, text});
      ++sent;
    }
    std::vector<Script*> scripts;
    for (auto& node : nodes) scripts.push_back(node.get());
    World world(scripts);
    EXPECT_GT(received, 5000u);
    uint64_t matched = 0;
    for (const Edge& edge : world.schedule.edges()) matched += edge.kind == EdgeKind::datagram;
    EXPECT_EQ(matched, received);
    std::ranges::sort(truth);
    size_t wrong = 0;
    for (size_t n = 0; n < truth.size(); ++n)
      for (size_t later = n + 1; later < truth.size() && later < n + 60; ++later) {
        auto [time, node, event] = truth[n];
        auto [after, other, other_event] = truth[later];
        if (after - time > 500'000) wrong += world.position(node, event) > world.position(other, other_event);
      }
    EXPECT_EQ(wrong, 0u);
  }
}

// Two false edges that contradict each other must not stop the rest.
// A way between two processes that no trace shows: one had done its deed before the other began to look.
TEST(HostOrder, SaysWhatReturnedBeforeAnotherWasEnteredAndNoMore) {
  Script a(0), b(1), c(2);
  a.plain(100), a.plain(200), a.plain(300);  // each takes 10 ticks
  b.plain(150), b.plain(205), b.plain(400);  // the second overlaps a's second
  c.plain(405);
  TemporaryRecording recording;
  for (Script* script : {&a, &b, &c}) recording.save(script->writer);
  auto edges = host_order(*Recording::open(recording.path()), std::vector<NodeId>{NodeId{0}, NodeId{1}, NodeId{2}});
  ASSERT_TRUE(edges);
  std::vector<std::array<uint64_t, 4>> found;
  for (const HostEdge& edge : *edges) found.push_back({edge.from, edge.from_event, edge.to, edge.to_event});
  std::ranges::sort(found);
  // a's first before b's first, b's first before a's second, b's second before a's third, and that before b's third and
  // c's only one, which overlap. What follows from these is not there.
  EXPECT_EQ(found, (std::vector<std::array<uint64_t, 4>>{
                       {0, 0, 1, 0}, {0, 2, 1, 2}, {0, 2, 2, 0}, {1, 0, 0, 1}, {1, 1, 0, 2}}));
}

TEST(HostOrder, KnowsNothingOfOtherHosts) {
  Script a(0, 0), b(1, 1);
  a.plain(100), b.plain(900);
  TemporaryRecording recording;
  for (Script* script : {&a, &b}) recording.save(script->writer);
  auto edges = host_order(*Recording::open(recording.path()), std::vector<NodeId>{NodeId{0}, NodeId{1}});
  ASSERT_TRUE(edges);
  EXPECT_TRUE(edges->empty());
}

TEST(Schedule, BreaksAndReportsACycle) {
  Script a(0, 0), b(1, 1);
  TemporaryRecording temporary;
  for (int n = 0; n < 10; ++n) {
    a.plain(100 + 100 * static_cast<uint64_t>(n));
    b.plain(100 + 100 * static_cast<uint64_t>(n));
  }
  temporary.save(a.writer);
  temporary.save(b.writer);
  auto recording = Recording::open(temporary.path());
  std::vector<NodeId> nodes{NodeId{0}, NodeId{1}};
  auto facts = FactSet::gather(*recording, nodes);
  Matches matches = match(*facts);
  matches.edges.push_back({NodeId{0}, NodeId{1}, 5, 3, 0, 5, EdgeKind::stream, 0, MatchedBy::address});
  matches.edges.push_back({NodeId{1}, NodeId{0}, 5, 3, 0, 5, EdgeKind::stream, 0, MatchedBy::address});
  Schedule schedule = schedule_of(*facts, matches);
  EXPECT_EQ(schedule.broken().size(), 1u);
  EXPECT_EQ(schedule.edges().size(), 1u);
  EXPECT_EQ(schedule.event_count(), 20u);
}

TEST(Schedule, IsCachedAndRestricted) {
  Datagrams net;
  Script third(2);
  for (uint64_t n = 0; n < 50; ++n) {
    net.send(100 + 100 * n, "message " + std::to_string(n));
    net.receive(150 + 100 * n, "message " + std::to_string(n));
    third.plain(170 + 100 * n);
  }
  World world({&net.a, &net.b, &third});
  auto first = Schedule::load_or_compute(*world.opened);
  ASSERT_TRUE(first);
  EXPECT_TRUE(std::filesystem::exists(world.recording.path() + "/cache/schedule"));
  auto again = Schedule::load_or_compute(*world.opened);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->event_count(), first->event_count());
  EXPECT_EQ(again->edges().size(), 50u);
  EXPECT_EQ(again->time_of(NodeId{1}, EventIndex{7}), first->time_of(NodeId{1}, EventIndex{7}));
  std::vector<NodeId> two{NodeId{1}, NodeId{2}};
  auto part = Schedule::load_or_compute(*world.opened, two);
  ASSERT_TRUE(part);
  EXPECT_EQ(part->event_count(), 100u);
  EXPECT_TRUE(part->edges().empty());
  EXPECT_EQ(part->events_before(NodeId{1}, part->event_count()), 50u);
  EXPECT_EQ(part->events_before(NodeId{1}, 0), 0u);
  // Another trace in place of the old one: the cache is not believed.
  net.a.plain(999'999);
  ASSERT_TRUE(net.a.writer.save(world.recording.trace(0)));
  auto reopened = Recording::open(world.recording.path());
  EXPECT_EQ(Schedule::load_or_compute(*reopened)->event_count(), first->event_count() + 1);
}

TEST(Matching, ExecFollowsTheProgramItReplaced) {
  Script shell(0, 0, 77), program(1, 0, 77), other(2, 0, 78);
  uint64_t last = shell.plain(100, SYS_execve, {0, 0, 0});
  other.plain(120);
  program.plain(200);
  TemporaryRecording temporary;
  temporary.save(shell.writer, R"({"name": "sh", "lineage": ["sh"], "ended": {"how": "exec", "detail": 0}})");
  temporary.save(program.writer, R"({"name": "sh/exec-1", "lineage": ["sh", "sh/exec-1"]})");
  temporary.save(other.writer);
  auto recording = Recording::open(temporary.path());
  EXPECT_EQ(recording->nodes()[1].lineage, (std::vector<std::string>{"sh", "sh/exec-1"}));
  auto schedule = Schedule::compute(*recording);
  ASSERT_EQ(schedule->edges().size(), 1u);
  const Edge& edge = schedule->edges()[0];
  EXPECT_EQ(edge.kind, EdgeKind::exec);
  EXPECT_EQ(edge.from_event, last);
  EXPECT_EQ(edge.to.value, 1u);
}

TEST(Matching, EqualPidsOfSeveralContainersAreToldApartByTheirFamily) {
  // Process 1 of two containers on one host, each replaced by exec; the other container's is the next to begin.
  Script first(0, 0, 1), second(1, 0, 1), first_program(2, 0, 1), second_program(3, 0, 1);
  first.plain(100, SYS_execve, {0, 0, 0});
  second.plain(110, SYS_execve, {0, 0, 0});
  second_program.plain(200);
  first_program.plain(210);
  TemporaryRecording temporary;
  temporary.save(first.writer, R"({"name": "a.sh", "lineage": ["a.sh"], "ended": {"how": "exec", "detail": 0}})");
  temporary.save(second.writer, R"({"name": "b.sh", "lineage": ["b.sh"], "ended": {"how": "exec", "detail": 0}})");
  temporary.save(first_program.writer, R"({"name": "a.sh/exec-1", "lineage": ["a.sh", "a.sh/exec-1"]})");
  temporary.save(second_program.writer, R"({"name": "b.sh/exec-1", "lineage": ["b.sh", "b.sh/exec-1"]})");
  auto schedule = Schedule::compute(*Recording::open(temporary.path()));
  ASSERT_TRUE(schedule);
  ASSERT_EQ(schedule->edges().size(), 2u);
  for (const Edge& edge : schedule->edges()) EXPECT_EQ(edge.to.value, edge.from.value + 2);
}

// Damage behind good checksums reaches matching: whatever the fields say, there is an order that keeps the promises, or
// an error; never a crash or an endless loop.
TEST(Schedule, SurvivesHostileTraces) {
  TemporaryRecording temporary;
  Script client(0, 0, 100), server(1, 1, 101);
  client.clock(1, 1, 5), server.clock(1, 1, 5);
  connect_streams(client, server);
  client.channel(2, format::kChannelDatagram, 6, inet("0.0.0.0", 70), {});
  server.channel(2, format::kChannelDatagram, 6, inet("0.0.0.0", 71), {});
  client.datagrams[2] = server.datagrams[2] = true;
  format::SocketAddress to = inet("10.0.0.2", 71), from = inet("10.0.0.1", 70);
  for (uint64_t n = 0; n < 12; ++n) {
    uint64_t at = 1000 * (n + 1);
    client.send(at, 1, "request " + std::to_string(n));
    server.receive(at + 100, 1, "request " + std::to_string(n));
    server.send(at + 200, 1, "answer");
    client.receive(at + 300, 1, "answer");
    client.send(at + 400, 2, "datagram", &to);
    server.receive(at + 500, 2, "datagram", &from);
    EventSpec fork = client.call(at + 600, SYS_clone, {17}, 101);
    format::ChildPart child{0, 101, {}};
    child.node_uuid[0] = 2;
    fork.parts.record(format::kChild, child);
    client.writer.add(fork);
    EventSpec wait = client.call(at + 700, SYS_wait4, {101}, 101);
    wait.parts.record(format::kWait, format::WaitPart{101, 0});
    client.writer.add(wait);
    client.clock(at + 800, static_cast<int64_t>(at + 800), 5);
    client.plain(at + 900, SYS_dup2, {5, 6 + n}, static_cast<int64_t>(6 + n));
    client.plain(at + 920, SYS_close, {5 + n});
  }
  temporary.save(client.writer);
  temporary.save(server.writer);
  std::string good[2] = {*read_file(temporary.trace(0)), *read_file(temporary.trace(1))};
  std::vector<uint64_t> offsets[2];
  for (uint32_t node : {0u, 1u}) {
    auto reader = TraceReader::open_file(temporary.trace(node), NodeId{node});
    for (RecordCursor cursor = reader->records(); cursor.next();) offsets[node].push_back(cursor.record().offset());
  }
  std::mt19937_64 random(99);
  int scheduled = 0;
  for (int round = 0; round < 500; ++round) {
    for (uint32_t node : {0u, 1u}) {
      std::string bytes = good[node];
      for (int n = 0; n < 2; ++n) {
        uint64_t record = offsets[node][random() % offsets[node].size()];
        auto& header = *reinterpret_cast<format::RecordHeader*>(bytes.data() + record);
        uint32_t size = header.size;
        // Sizes, counts and sequence numbers are the reader's to refuse; here it is what lies behind them.
        bool call_number = is_event(header.type) && random() % 4 == 0;
        uint64_t place = call_number ? 28 : is_event(header.type) ? 32 : 16;
        if (!call_number) place += random() % (size - place);
        uint64_t run = call_number ? 1 : 1 + random() % 8;
        uint8_t values[] = {0, 1, 0x7f, 0x80, 0xff, static_cast<uint8_t>(random())};
        for (uint64_t at = place; at < std::min<uint64_t>(place + run, size); ++at)
          bytes[record + at] = static_cast<char>(values[random() % std::size(values)]);
        header.checksum = record_checksum(std::as_bytes(std::span(bytes)).subspan(record, size), record);
      }
      ASSERT_TRUE(write_file_atomically(temporary.trace(node), bytes));
    }
    auto recording = Recording::open(temporary.path());
    ASSERT_TRUE(recording);
    auto schedule = Schedule::compute(*recording);
    if (!schedule) continue;
    ++scheduled;
    uint64_t count = 0;
    for (const Turn& turn : schedule->turns()) count += turn.count;
    ASSERT_EQ(count, schedule->event_count());
    for (const Edge& edge : schedule->edges())
      ASSERT_LT(schedule->position_of(edge.from, EventIndex{edge.from_event}),
                schedule->position_of(edge.to, EventIndex{edge.to_event}));
  }
  EXPECT_GT(scheduled, 150);
}

TEST(Schedule, DamageInANodeThatIsNotWantedIsNoFailure) {
  Script a(0), b(1);
  a.plain(100);
  b.plain(100);
  TemporaryRecording temporary;
  temporary.save(a.writer);
  temporary.save(b.writer);
  {
    std::string bytes = *read_file(temporary.trace(1));
    bytes[format::kHeaderSize + 40] ^= 1;
    ASSERT_TRUE(write_file_atomically(temporary.trace(1), bytes));
  }
  auto recording = Recording::open(temporary.path());
  std::vector<NodeId> good{NodeId{0}}, bad{NodeId{1}};
  EXPECT_FALSE(Schedule::load_or_compute(*recording));
  EXPECT_TRUE(Schedule::load_or_compute(*recording, good));
  auto refused = Schedule::load_or_compute(*recording, bad);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().node, 1u);
}

}  // namespace
}  // namespace friday
