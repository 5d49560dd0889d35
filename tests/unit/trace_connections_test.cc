// Which ends of connections belong together, what is counted as a message, and what the end of a connection says of the
// order.
#include <array>
#include <memory>

#include "core/trace/messages.h"
#include "tests/unit/trace_world.h"

namespace friday {
namespace {

using testing::connect_streams;
using testing::EventSpec;
using testing::growth;
using testing::inet;
using testing::kMostGrowth;
using testing::Script;
using testing::World;

uint64_t accept(Script& server, uint64_t at, uint64_t channel, int fd, uint64_t listener = 3) {
  EventSpec accepted = server.call(at, SYS_accept4, {listener, 0, 0, 0}, fd);
  accepted.parts.record(format::kDescriptors, format::DescriptorsPart{channel, fd, 0});
  return server.writer.add(accepted);
}

uint64_t connect(Script& client, uint64_t at, int fd, int64_t result = 0) {
  return client.writer.add(client.call(at, SYS_connect, {static_cast<uint64_t>(fd), 0x1000, 16}, result));
}

TEST(Messages, ALookBeforeTheReceiveIsNoSecondMessage) {
  Script a(0), b(1);
  connect_streams(a, b);
  a.send(100, 1, "stream");
  b.receive(200, 1, "stream", nullptr, format::kPeek);
  b.receive(300, 1, "stream");
  const format::SocketAddress to_b = inet("127.0.0.1", 7001), from_a = inet("127.0.0.1", 7000);
  a.datagrams[2] = b.datagrams[2] = true;
  a.channel(2, format::kChannelDatagram, 6, inet("127.0.0.1", 7000), {});
  b.channel(2, format::kChannelDatagram, 6, inet("127.0.0.1", 7001), {});
  a.send(400, 2, "datagram", &to_b);
  b.receive(500, 2, "datagram", &from_a, format::kPeek);
  b.receive(600, 2, "datagram", &from_a, format::kPeek);
  b.receive(700, 2, "datagram", &from_a);
  World world({&a, &b});
  EXPECT_EQ(world.count(EdgeKind::datagram), 3u);  // each look comes after the send
  const PairTraffic traffic = world.schedule.traffic_between().at({NodeId{0}, NodeId{1}});
  EXPECT_EQ(traffic.messages, 2u);
  EXPECT_EQ(traffic.bytes, 14u);
  auto messages = messages_of(*world.opened, world.schedule);
  ASSERT_TRUE(messages);
  EXPECT_EQ(messages->size(), 2u);
}

// A call with three messages, of which one arrives; and one that receives it with two of somebody else.
TEST(Messages, EachMessageOfACallCounts) {
  Script a(0), b(1);
  a.datagrams[1] = b.datagrams[1] = true;
  a.channel(1, format::kChannelDatagram, 6, inet("127.0.0.1", 7000), {});
  b.channel(1, format::kChannelDatagram, 6, inet("127.0.0.1", 7001), {});
  const format::SocketAddress to_b = inet("127.0.0.1", 7001), from_a = inet("127.0.0.1", 7000),
                              stranger = inet("127.0.0.1", 9000);
  EventSpec send = a.call(100, SYS_sendmmsg, {6, 0x1000, 3, 0}, 3);
  for (const char* text : {"first", "second", "third"}) send.parts.record(format::kTransfer, a.out(1, text, &to_b));
  a.writer.add(send);
  EventSpec receive = b.call(200, SYS_recvmmsg, {6, 0x1000, 3, 0, 0}, 3);
  for (const char* text : {"nobody's", "second", "unknown"}) receive.parts.memory(0x1000, text);
  for (const std::string text : {"nobody's", "second", "unknown"}) {
    format::TransferPart part = a.out(1, text, text == "second" ? &from_a : &stranger);
    part.direction = format::kIn;
    part.representation = format::kInline;
    receive.parts.record(format::kTransfer, part);
  }
  b.writer.add(receive);
  World world({&a, &b});
  auto messages = messages_of(*world.opened, world.schedule);
  ASSERT_TRUE(messages);
  std::array<int, 3> found{};  // received, lost, of unknown senders
  for (const Message& message : *messages) ++found[message.sent && message.received ? 0 : message.sent ? 1 : 2];
  EXPECT_EQ(found, (std::array<int, 3>{1, 2, 2}));
}

TEST(Connections, WhoFindsTheOtherEndGoneComesAfterItsClose) {
  for (const int error : {ECONNRESET, EPIPE}) {
    Script a(0), b(1);
    connect_streams(a, b);
    a.send(100, 1, "a question");
    b.receive(200, 1, "a question");
    const uint64_t fine = a.send(300, 1, "another");
    const uint64_t close = b.plain(400, SYS_close, {5});
    EventSpec failed = a.call(395, error == EPIPE ? SYS_sendto : SYS_recvfrom, {5, 0x1000, 10, 0, 0, 0}, -error);
    failed.return_ticks = 500;
    const uint64_t broken = a.writer.add(failed);
    World world({&a, &b});
    EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 1, close, 0, broken)) << error;
    EXPECT_EQ(world.count(EdgeKind::end_of_stream), 1u) << fine;
  }
}

TEST(Connections, WhatSO_ERRORTellsOfAResetComesAfterTheClose) {
  Script a(0), b(1);
  connect_streams(a, b);
  a.send(100, 1, "a question");
  b.receive(200, 1, "a question");
  const uint64_t close = b.plain(400, SYS_close, {5});
  EventSpec asked = a.call(500, SYS_getsockopt, {5, SOL_SOCKET, SO_ERROR, 0x1000, 0x2000}, 0);
  const int error = ECONNRESET;
  asked.parts.memory(0x1000, std::string(reinterpret_cast<const char*>(&error), sizeof error));
  const uint64_t told = a.writer.add(asked);
  World world({&a, &b});
  EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 1, close, 0, told));
}

TEST(Connections, AfterItsOwnShutdownAProcessLearnsNothingFromEPIPE) {
  Script a(0), b(1);
  connect_streams(a, b);
  a.send(50, 1, "a question");
  b.receive(80, 1, "a question");
  a.plain(100, SYS_shutdown, {5, 1});
  b.plain(200, SYS_close, {5});
  a.plain(300, SYS_sendto, {5, 0x1000, 10, 0, 0, 0}, -EPIPE);
  World world({&a, &b});
  EXPECT_EQ(world.count(EdgeKind::end_of_stream), 0u);
}

// A descriptor was a duplicate of what another one of this number was once; it has another file now, or is closed.
TEST(Connections, AClosedDescriptorIsNoDuplicateOfALaterOne) {
  for (const bool range : {true, false}) {
    Script a(0), b(1);
    a.plain(10, SYS_dup, {5}, 6);
    if (range) a.plain(30, SYS_close_range, {6, 6, 0});
    else a.plain(30, SYS_close, {5}), a.plain(50, SYS_dup, {5}, 7);
    connect_streams(a, b);
    a.send(100, 1, "a question");
    b.receive(150, 1, "a question");
    uint64_t closed = a.plain(200, SYS_close, {5});
    if (!range) closed = a.plain(220, SYS_close, {7});
    const uint64_t ended = b.receive(300, 1, "", nullptr, format::kEndOfStream);
    a.plain(400);
    World world({&a, &b});
    EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 0, closed, 1, ended)) << range;
  }
}

// A FIFO that two writers open one after the other has two ends; and a write fails after its reader has gone.
TEST(Connections, AFifoHasAnEndForEachOfItsWriters) {
  Script first(0), second(1), reader(2);
  for (Script* script : {&first, &reader}) script->channel(1, format::kChannelPipe, 3, {}, {}, 4711);
  first.send(100, 1, "one");
  reader.receive(150, 1, "one");
  const uint64_t closed = first.plain(200, SYS_close, {3});
  const uint64_t ended = reader.receive(300, 1, "", nullptr, format::kEndOfStream);
  second.plain(350);
  second.channel(1, format::kChannelPipe, 3, {}, {}, 4711);
  second.send(400, 1, "two");
  reader.receive(450, 1, "two");
  const uint64_t closed_again = second.plain(500, SYS_close, {3});
  const uint64_t ended_again = reader.receive(600, 1, "", nullptr, format::kEndOfStream);
  World world({&first, &second, &reader});
  EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 0, closed, 2, ended));
  EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 1, closed_again, 2, ended_again));
  EXPECT_EQ(world.count(EdgeKind::end_of_stream), 2u);
}

TEST(Connections, AWriteIntoAPipeFailsAfterItsReaderHasGone) {
  Script writer(0), reader(1);
  for (Script* script : {&writer, &reader}) script->channel(1, format::kChannelPipe, 3, {}, {}, 4711);
  writer.send(100, 1, "one");
  reader.receive(150, 1, "one");
  const uint64_t closed = reader.plain(200, SYS_close, {3});
  const uint64_t failed = writer.plain(300, SYS_write, {3, 0x1000, 3}, -EPIPE);
  World world({&writer, &reader});
  EXPECT_TRUE(world.has(EdgeKind::end_of_stream, 1, closed, 0, failed));
}

// A socket whose connection was refused is connected again; and another one, with the same port, which was given up.
TEST(Connections, AConnectThatFailedIsNoConnection) {
  for (const bool told : {true, false}) {
    Script client(0), server(1);
    client.channel(1, format::kChannelStream, 5, inet("10.0.0.1", 4000), {});
    connect(client, 100, 5, -EINPROGRESS);
    if (told) {
      EventSpec asked = client.call(150, SYS_getsockopt, {5, SOL_SOCKET, SO_ERROR, 0x1000, 0x2000}, 0);
      const int error = ECONNREFUSED;
      asked.parts.memory(0x1000, std::string(reinterpret_cast<const char*>(&error), sizeof error));
      client.writer.add(asked);
    } else {
      connect(client, 150, 5, -ECONNREFUSED);
    }
    const uint64_t second = connect(client, 200, 5, -EINPROGRESS);
    server.channel(1, format::kChannelStream, 7, inet("10.0.0.2", 80), inet("10.0.0.1", 4000));
    const uint64_t accepted = accept(server, 300, 1, 7);
    client.channel(1, format::kChannelStream, 5, inet("10.0.0.1", 4000), inet("10.0.0.2", 80));
    client.send(400, 1, "hello");
    server.receive(500, 1, "hello");
    World world({&client, &server});
    EXPECT_TRUE(world.has(EdgeKind::connect, 0, second, 1, accepted)) << told;
  }
}

TEST(Connections, APortThatIsUsedAgainAfterAConnectThatWasGivenUp) {
  Script client(0), server(1);
  client.channel(1, format::kChannelStream, 5, inet("10.0.0.1", 4000), {});
  connect(client, 100, 5, -EINPROGRESS);
  client.plain(150, SYS_close, {5});
  client.channel(2, format::kChannelStream, 6, inet("10.0.0.1", 4000), {});
  const uint64_t second = connect(client, 200, 6, -EINPROGRESS);
  server.channel(1, format::kChannelStream, 7, inet("10.0.0.2", 80), inet("10.0.0.1", 4000));
  const uint64_t accepted = accept(server, 300, 1, 7);
  World world({&client, &server});
  EXPECT_TRUE(world.has(EdgeKind::connect, 0, second, 1, accepted));
  EXPECT_EQ(world.count(EdgeKind::connect), 1u);
}

// A server at a Unix socket's name.
class UnixServer {
 public:
  UnixServer(Script& script, uint64_t at, format::SocketAddress name, uint64_t inode = 0)
      : script_(script), name_(name) {
    script_.plain(at);
    script_.channel(1, format::kChannelListen, 3, name, {}, inode);
    script_.plain(at + 10, SYS_listen, {3, 5});
  }
  uint64_t accept(uint64_t at, uint64_t channel, uint32_t peer_pid = 0) {
    const int fd = 10 + static_cast<int>(channel);
    script_.channel(channel, format::kChannelStream, fd, name_, {}, 0, peer_pid);
    return friday::accept(script_, at, channel, fd);
  }

 private:
  Script& script_;
  format::SocketAddress name_;
};

uint64_t connect_to(Script& client, uint64_t at, format::SocketAddress name, uint32_t peer_pid = 0,
                    uint64_t channel = 1) {
  const int fd = 4 + static_cast<int>(channel);
  client.channel(channel, format::kChannelStream, fd, {}, name, 0, peer_pid);
  return connect(client, at, fd);
}

format::SocketAddress abstract(const std::string& name) {
  format::SocketAddress address = testing::unix_path(" " + name);
  address.bytes[2] = 0;
  --address.length;
  return address;
}

void go_to(Script& script, uint64_t at, const std::string& directory) {
  EventSpec spec = script.call(at, SYS_chdir, {0x1000}, 0);
  spec.parts.path(directory);
  script.writer.add(spec);
}

TEST(UnixSockets, ANameThatIsBoundAgainIsAnotherListener) {
  Script old(0), now(1), early(2), late(3);
  const auto name = testing::unix_path("/run/s");
  UnixServer first(old, 50, name);
  connect_to(early, 100, name);  // it is never accepted
  old.plain(150, SYS_close, {3});
  UnixServer second(now, 200, name);
  const uint64_t connected = connect_to(late, 300, name), accepted = second.accept(400, 2);
  World world({&old, &now, &early, &late});
  EXPECT_TRUE(world.has(EdgeKind::connect, 3, connected, 1, accepted));
  EXPECT_EQ(world.count(EdgeKind::connect), 1u);
}

TEST(UnixSockets, ARelativeNameIsOneOfItsDirectory) {
  Script a(0), b(1), to_a(2), to_b(3);
  go_to(a, 10, "/srv/a"), go_to(to_a, 10, "/srv"), go_to(b, 10, "/srv/b"), go_to(to_b, 10, "/srv/b/deeper");
  UnixServer first(a, 50, testing::unix_path("s")), second(b, 50, testing::unix_path("./s"));
  const uint64_t connected_b = connect_to(to_b, 100, testing::unix_path("../s"));
  const uint64_t connected_a = connect_to(to_a, 200, testing::unix_path("a/s"));
  const uint64_t accepted_a = first.accept(300, 2), accepted_b = second.accept(400, 2);
  World world({&a, &b, &to_a, &to_b});
  EXPECT_TRUE(world.has(EdgeKind::connect, 2, connected_a, 0, accepted_a));
  EXPECT_TRUE(world.has(EdgeKind::connect, 3, connected_b, 1, accepted_b));
}

// A directory that is deeper than a path can be is not known any more, so a name there may be that of any directory.
TEST(UnixSockets, ADirectoryIsNoLongerThanAPath) {
  Script server(0), client(1);
  for (uint64_t n = 0; n < 50; ++n) go_to(server, 20 * n, std::string(100, 'd'));
  UnixServer listener(server, 2000, testing::unix_path("s"));
  const uint64_t connected = connect_to(client, 3000, testing::unix_path("/srv/s")),
                 accepted = listener.accept(4000, 2);
  World world({&server, &client});
  EXPECT_TRUE(world.has(EdgeKind::connect, 1, connected, 0, accepted));
}

// Two network namespaces have the same abstract name.
TEST(UnixSockets, TheProcessAtTheOtherEndTellsEqualNamesApart) {
  for (const bool known : {true, false}) {
    Script a(0, 0, 100), b(1, 0, 101), to_a(2, 0, 102), to_b(3, 0, 103);
    UnixServer first(a, 50, abstract("name")), second(b, 50, abstract("name"));
    const uint64_t connected_b = connect_to(to_b, 100, abstract("name"), known ? 101 : 0);
    const uint64_t connected_a = connect_to(to_a, 200, abstract("name"), known ? 100 : 0);
    const uint64_t accepted_a = first.accept(300, 2, known ? 102 : 0);
    const uint64_t accepted_b = second.accept(400, 2, known ? 103 : 0);
    World world({&a, &b, &to_a, &to_b});
    EXPECT_EQ(world.has(EdgeKind::connect, 2, connected_a, 0, accepted_a), known);
    EXPECT_EQ(world.has(EdgeKind::connect, 3, connected_b, 1, accepted_b), known);
    EXPECT_EQ(world.count(EdgeKind::connect), known ? 2u : 0u);
  }
}

// One process listens, and another one, a new program, accepts. The first of them is recorded or not. Its first client
// is served by somebody who is not recorded.
TEST(UnixSockets, AListenerMayBeSetUpByAnotherProcess) {
  for (const bool recorded : {true, false}) {
    Script activator(0, 0, 100), service(1, 0, 101), unserved(2, 0, 102), client(3, 0, 103);
    const auto name = testing::unix_path("/run/s");
    if (recorded) UnixServer(activator, 20, name, 77);
    UnixServer server(service, 50, name, 77);
    connect_to(unserved, 100, name, 100);
    const uint64_t connected = connect_to(client, 200, name, 100), accepted = server.accept(300, 2, 103);
    World world({&activator, &service, &unserved, &client});
    EXPECT_TRUE(world.has(EdgeKind::connect, 3, connected, 1, accepted)) << recorded;
    EXPECT_EQ(world.count(EdgeKind::connect), 1u) << recorded;
  }
}

// The process that the client connected to held another listener of that name, so it was not this one.
TEST(UnixSockets, AProcessThatHeldAnotherListenerSpeaksAgainstThisOne) {
  Script a(0, 0, 100), b(1, 0, 101), client(2, 0, 102);
  UnixServer first(a, 50, abstract("name"), 77), second(b, 50, abstract("name"), 78);
  connect_to(client, 100, abstract("name"), 101);
  client.send(150, 1, "what another client says as well");
  const uint64_t accepted = first.accept(200, 2, 102);
  a.receive(300, 2, "what another client says as well");
  b.plain(400);  // its listener is open until then
  World world({&a, &b, &client});
  EXPECT_TRUE(world.into(0, accepted).empty());
}

// Connections of one client to a server, each accepted, behind one that is never accepted.
struct BehindOneGivenUp {
  Script server{0}, given_up{1}, client{2};

  explicit BehindOneGivenUp(uint64_t connections) {
    const auto name = testing::unix_path("/run/s");
    UnixServer listener(server, 50, name);
    connect_to(given_up, 100, name, 1000);
    for (uint64_t n = 0; n < connections; ++n) {
      connect_to(client, 1000 + 100 * n, name, 1000, 2 + n);
      listener.accept(1050 + 100 * n, 2 + n, 1002);
    }
  }
  std::vector<Script*> scripts() { return {&server, &given_up, &client}; }
};

// More than are compared for one.
TEST(UnixSockets, AConnectionThatNobodyAcceptsIsNotInTheWayOfOthers) {
  constexpr uint64_t kConnections = 1100;
  BehindOneGivenUp all(kConnections);
  World world(all.scripts());
  EXPECT_EQ(world.count(EdgeKind::connect), kConnections);
}

TEST(UnixSockets, ManyBehindOneThatNobodyAcceptsTakeNoMoreThanTheirNumber) {
  const double grown = growth(1000, [](uint64_t n) {
    BehindOneGivenUp all(n);
    testing::TemporaryRecording recording;
    for (Script* script : all.scripts()) recording.save(script->writer);
    auto schedule = Schedule::compute(*Recording::open(recording.path()));
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->edges().size(), n);
  });
  EXPECT_LT(grown, kMostGrowth);
}

TEST(Connections, ManyToOneServerTakeNoMoreThanTheirNumber) {
  const double grown = growth(1000, [](uint64_t n) {
    Script a(0), b(1);
    b.plain(1);
    for (uint64_t k = 0; k < n; ++k) {
      const int fd = 5 + static_cast<int>(k);
      const auto client = inet(fmt::format("10.0.{}.{}", k / 250, 1 + k % 250).c_str(), 4000);
      a.channel(k + 1, format::kChannelStream, fd, client, inet("10.1.0.1", 80));
      b.channel(k + 1, format::kChannelStream, fd, inet("10.1.0.1", 80), client);
      connect(a, 100 * k + 100, fd);
      accept(b, 100 * k + 120, k + 1, fd);
    }
    testing::TemporaryRecording recording;
    recording.save(a.writer), recording.save(b.writer);
    auto schedule = Schedule::compute(*Recording::open(recording.path()));
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->edges().size(), n);
  });
  EXPECT_LT(grown, kMostGrowth);
}

}  // namespace
}  // namespace friday
