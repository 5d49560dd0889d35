// Which send a datagram came from, where contents repeat, datagrams are lost, and addresses say more or less.
#include <array>
#include <memory>

#include "tests/unit/trace_world.h"

namespace friday {
namespace {

using testing::growth;
using testing::inet;
using testing::kMostGrowth;
using testing::Script;
using testing::World;

// Nodes with sockets that are bound to the wildcard address, as of a group's hosts: one kernel, an address for each.
struct Net {
  explicit Net(size_t count, bool one_machine = true) {
    for (size_t n = 0; n < count; ++n) {
      nodes.push_back(std::make_unique<Script>(static_cast<uint8_t>(n), static_cast<uint8_t>(one_machine ? 0 : n)));
      bind(n, 1, inet("0.0.0.0", 7000));
    }
  }
  void bind(size_t node, uint64_t channel, const format::SocketAddress& local) {
    nodes[node]->channel(channel, format::kChannelDatagram, 2 + static_cast<int>(channel), local, {});
    nodes[node]->datagrams[channel] = true;
  }
  static format::SocketAddress address(size_t node, uint16_t port = 7000) {
    return inet(fmt::format("10.0.0.{}", node + 1).c_str(), port);
  }
  uint64_t send(uint64_t at, size_t from, size_t to, const std::string& text) {
    const format::SocketAddress name = address(to);
    return nodes[from]->send(at, 1, text, &name);
  }
  uint64_t receive(uint64_t at, size_t to, size_t from, const std::string& text) {
    return receive(at, to, address(from), text);
  }
  uint64_t receive(uint64_t at, size_t to, const format::SocketAddress& from, const std::string& text) {
    return nodes[to]->receive(at, 1, text, &from);
  }
  World world() {
    std::vector<Script*> scripts;
    for (auto& node : nodes) scripts.push_back(node.get());
    return World(scripts);
  }

  std::vector<std::unique_ptr<Script>> nodes;
};

const char kBeat[] = "heartbeat of every node";

TEST(Datagrams, ALostOneDoesNotGiveAnotherSendersDatagramToItsSender) {
  Net net(3);
  for (size_t node : {0, 1}) {
    net.send(100 + node, node, 2, fmt::format("I am {}", node));
    net.receive(200 + node, 2, node, fmt::format("I am {}", node));
  }
  net.send(1000, 0, 2, kBeat);  // lost
  const uint64_t second = net.send(1100, 1, 2, kBeat);
  const uint64_t got = net.receive(1200, 2, 1, kBeat);
  const uint64_t first = net.send(2000, 0, 2, kBeat);
  const uint64_t again = net.receive(2100, 2, 0, kBeat);
  const World world = net.world();
  EXPECT_TRUE(world.has(EdgeKind::datagram, 1, second, 2, got));
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, first - 1, 2, again) ||
              world.has(EdgeKind::datagram, 0, first, 2, again));
  EXPECT_EQ(world.count(EdgeKind::datagram), 4u);
}

// Nothing that they send is unique. The first one can only be of the node that had sent, so the address is that node's,
// and the other address the other's.
TEST(Datagrams, WhoHadNotSentYetIsNotTheSender) {
  Net net(4);
  const uint64_t opening = net.send(1000, 0, 2, kBeat);
  const uint64_t opened = net.receive(1050, 2, 0, kBeat);
  std::vector<std::pair<uint64_t, uint64_t>> second;
  for (uint64_t round = 1; round < 20; ++round) {
    net.send(1000 * round + 500, 0, 2, kBeat);  // all of these are lost
    net.send(1000 * round + 550, 1, 3, kBeat);  // and these
    const uint64_t sent = net.send(1000 * round + 600, 1, 2, kBeat);
    second.emplace_back(sent, net.receive(1000 * round + 700, 2, 1, kBeat));
  }
  const World world = net.world();
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, opening, 2, opened));
  for (auto [sent, got] : second) {
    ASSERT_EQ(world.into(2, got).size(), 1u);
    EXPECT_EQ(world.into(2, got)[0].from.value, 1u);
  }
}

TEST(Datagrams, WhereNothingTellsTheSendersApartNoneIsNamed) {
  Net net(3);
  net.send(1000, 0, 2, kBeat), net.send(1001, 1, 2, kBeat);
  const uint64_t got = net.receive(1200, 2, 1, kBeat);
  const World world = net.world();
  EXPECT_TRUE(world.into(2, got).empty());
  EXPECT_EQ(world.schedule.traffic_of(NodeId{2}).unmatched_receives, 1u);
}

// A node is killed and started again with the same address; its last heartbeat had come.
TEST(Datagrams, ASocketThatTakesAnAddressOverIsItsOwnerThen) {
  Net net(3);
  net.nodes[1] = std::make_unique<Script>(uint8_t{1});
  net.send(100, 0, 2, kBeat);
  net.receive(200, 2, 0, kBeat);
  net.nodes[0]->plain(300, SYS_close, {3});
  net.nodes[1]->plain(400);
  net.bind(1, 1, inet("0.0.0.0", 7000));
  const uint64_t sent = net.send(500, 1, 2, kBeat);
  const uint64_t got = net.receive(600, 2, 0, kBeat);
  const World world = net.world();
  EXPECT_TRUE(world.has(EdgeKind::datagram, 1, sent, 2, got));
}

// A machine is known by its loopback address and by another one; both are the wildcard socket's.
TEST(Datagrams, ASocketMayHaveSeveralAddresses) {
  Net net(3);
  net.bind(0, 2, inet("0.0.0.0", 7001));
  const format::SocketAddress loopback = inet("127.0.0.1", 7000), own = net.address(0), local = inet("127.0.0.1", 7001);
  std::vector<std::pair<uint64_t, uint64_t>> sent;
  for (uint64_t n = 0; n < 5; ++n) {
    const std::string here = fmt::format("here {}", n), far = fmt::format("far {}", n);
    const uint64_t asked = net.nodes[2]->send(1000 * n + 100, 1, far, &own);
    const uint64_t said = net.nodes[0]->send(1000 * n + 110, 2, here, &loopback);
    net.receive(1000 * n + 200, 0, local, here);
    sent.emplace_back(asked, net.receive(1000 * n + 300, 0, 2, far));
    EXPECT_NE(said, asked + 1000);
  }
  const World world = net.world();
  for (auto [from, to] : sent) {
    ASSERT_EQ(world.into(0, to).size(), 1u);
    EXPECT_EQ(world.into(0, to)[0].by, MatchedBy::address);
  }
}

// The receiver has seen the sender's own address, so a datagram from another one is of somebody else; also where it has
// the same contents, and the recorded one was lost.
TEST(Datagrams, AnotherAddressIsNotASendersThatIsKnown) {
  Net net(2, false);
  for (uint64_t n = 0; n < 3; ++n) {
    net.send(1000 * n + 100, 0, 1, fmt::format("unique contents {}", n));
    net.receive(1000 * n + 200, 1, 0, fmt::format("unique contents {}", n));
  }
  net.send(5000, 0, 1, kBeat);  // lost
  const uint64_t strange = net.receive(5100, 1, inet("10.0.0.77", 7000), kBeat);
  const World world = net.world();
  EXPECT_TRUE(world.into(1, strange).empty());
  EXPECT_EQ(world.count(EdgeKind::datagram), 3u);
}

// The source is said to be rewritten only where it may have been: not if a recorded socket has it, nor on the loopback
// device, nor to another port of the sender's own machine.
TEST(Datagrams, ASourceThatCannotHaveBeenRewrittenIsSomebodyElses) {
  for (const char* source : {"127.0.0.1:9999", "10.0.0.1:9999", "10.0.0.3:7000"}) {
    Net net(3);
    net.nodes[0]->channel(2, format::kChannelDatagram, 9, inet("10.0.0.1", 7005), {});
    net.nodes[0]->datagrams[2] = true;
    net.nodes[2]->channel(2, format::kChannelDatagram, 9, inet("10.0.0.3", 7000), {});
    const format::SocketAddress to = inet(std::string_view(source).starts_with("127") ? "127.0.0.1" : "10.0.0.2", 7000);
    net.nodes[0]->send(100, 2, "a datagram that was lost", &to);
    unsigned a, b, c, d, port;
    ASSERT_EQ(sscanf(source, "%u.%u.%u.%u:%u", &a, &b, &c, &d, &port), 5);
    const auto from = inet(std::string(source, strchr(source, ':')).c_str(), static_cast<uint16_t>(port));
    const uint64_t got = net.receive(200, 1, from, "a datagram that was lost");
    const World world = net.world();
    EXPECT_TRUE(world.into(1, got).empty()) << source;
  }
}

TEST(Datagrams, ADatagramToARecordedSocketIsNotAnothers) {
  Net net(3, false);
  net.bind(1, 2, inet("10.0.0.2", 53));
  net.bind(2, 2, inet("10.0.0.3", 54));
  const format::SocketAddress server = inet("10.0.0.2", 53), from = inet("10.0.0.9", 1);
  net.nodes[0]->send(100, 1, "a question to the server", &server);
  const uint64_t got = net.nodes[2]->receive(200, 2, "a question to the server", &from);
  const World world = net.world();
  EXPECT_TRUE(world.into(2, got).empty());
}

TEST(Datagrams, ABroadcastOfASubnetReachesMany) {
  Net net(4);
  Script& sender = *(net.nodes[0] = std::make_unique<Script>(uint8_t{0}));
  testing::EventSpec allow = sender.call(10, SYS_setsockopt, {3, SOL_SOCKET, SO_BROADCAST, 0x1000, 4}, 0);
  const int on = 1;
  allow.input_hash = run_hash(std::as_bytes(std::span(&on, 1)), 0);
  sender.writer.add(allow);
  net.bind(0, 1, inet("0.0.0.0", 7000));
  const format::SocketAddress all = inet("10.0.0.255", 7000);
  std::vector<std::array<uint64_t, 3>> expected;
  for (uint64_t n = 0; n < 6; ++n) {
    const std::string text = n % 2 ? fmt::format("who is there {}", n) : "who is there";
    const uint64_t sent = sender.send(1000 * n + 100, 1, text, &all);
    for (size_t node : {1, 2, 3})
      expected.push_back({sent, node, net.receive(1000 * n + 100 + 50 * node, node, 0, text)});
  }
  // What is sent to a node alone is still its own.
  const uint64_t alone = net.send(9000, 0, 3, kBeat);
  const uint64_t got = net.receive(9100, 3, 0, kBeat);
  const World world = net.world();
  for (auto [sent, node, there] : expected)
    EXPECT_TRUE(world.has(EdgeKind::datagram, 0, sent, static_cast<uint32_t>(node), there)) << sent << " " << node;
  EXPECT_TRUE(world.has(EdgeKind::datagram, 0, alone, 3, got));
  EXPECT_EQ(world.schedule.traffic_of(NodeId{0}).unmatched_sends, 0u);
}

// Another socket has the address, so it was that one's process that sent, before it was recorded.
TEST(Datagrams, AnAddressThatAnOpenSocketHasIsNotAnothers) {
  Net net(3);
  net.nodes[1]->plain(9000);                                             // it is open until then
  for (uint64_t n = 0; n < 3; ++n) net.send(100 + n * 20, 0, 2, kBeat);  // all are lost
  std::vector<uint64_t> strange;
  for (uint64_t n = 0; n < 2; ++n) strange.push_back(net.receive(1000 + 20 * n, 2, 1, kBeat));
  const World unknown = net.world();
  net.bind(1, 3, Net::address(1));
  EXPECT_EQ(unknown.count(EdgeKind::datagram), 2u);
  const World known = net.world();
  for (uint64_t got : strange) EXPECT_TRUE(known.into(2, got).empty());
}

// Somebody who is not recorded says the same before what the recorded node says has come.
TEST(Datagrams, OfTwoAddressesOfOneSocketTheOneThatIsSeenMoreOftenIsRight) {
  Net net(2, false);
  std::vector<std::pair<uint64_t, uint64_t>> own;
  const uint64_t first = net.send(1000, 0, 1, kBeat);
  const uint64_t strange = net.receive(1100, 1, inet("10.0.0.77", 7000), kBeat);
  own.emplace_back(first, net.receive(1200, 1, 0, kBeat));
  for (uint64_t n = 2; n < 5; ++n) {
    const uint64_t sent = net.send(1000 * n, 0, 1, kBeat);
    own.emplace_back(sent, net.receive(1000 * n + 200, 1, 0, kBeat));
  }
  const World world = net.world();
  EXPECT_TRUE(world.into(1, strange).empty());
  for (auto [sent, got] : own) EXPECT_TRUE(world.has(EdgeKind::datagram, 0, sent, 1, got)) << got;
}

// As with SO_REUSEPORT.
TEST(Datagrams, OfTwoOpenSocketsWithOneAddressNoneIsNamed) {
  Net net(3);
  const format::SocketAddress to = Net::address(2);
  for (size_t node : {0, 1}) {
    net.bind(node, 2, inet("10.0.0.1", 7005));
    net.nodes[node]->send(100 + node, 2, kBeat, &to);
    net.nodes[node]->plain(9000);
  }
  const uint64_t got = net.receive(1200, 2, inet("10.0.0.1", 7005), kBeat);
  const World world = net.world();
  EXPECT_TRUE(world.into(2, got).empty());
}

// Two machines that have two addresses each; the second ones are used twice, or once.
TEST(Datagrams, MachinesMayHaveSeveralAddresses) {
  for (const uint64_t times : {1, 2}) {
    Net net(2, false);
    std::vector<std::pair<uint64_t, uint64_t>> expected;
    for (uint64_t n = 0; n < 3; ++n) {
      const std::string text = fmt::format("unique contents {}", n);
      const uint64_t sent = net.send(1000 * n + 100, 0, 1, text);
      expected.emplace_back(sent, net.receive(1000 * n + 200, 1, 0, text));
    }
    const format::SocketAddress there = inet("10.9.0.2", 7000), here = inet("10.9.0.1", 7000);
    for (uint64_t n = 0; n < times; ++n) {
      const std::string text = fmt::format("by the other network {}", n);
      const uint64_t sent = net.nodes[0]->send(5000 + 1000 * n, 1, text, &there);
      expected.emplace_back(sent, net.receive(5100 + 1000 * n, 1, here, text));
    }
    const World world = net.world();
    for (auto [sent, got] : expected) {
      EXPECT_TRUE(world.has(EdgeKind::datagram, 0, sent, 1, got)) << times << " " << got;
      for (const Edge& edge : world.into(1, got)) EXPECT_TRUE(times == 1 || edge.by == MatchedBy::address);
    }
  }
}

// Copies of one datagram, before others with the same contents are sent: each receive looked at all of these.
// The sender hears of its own address, too, which is that of all raw sockets of the machine.
TEST(Datagrams, RawSocketsOfAMachineShareItsAddresses) {
  const auto everyone = inet("224.0.0.5", 0), machine = inet("127.0.0.1", 0);
  const std::string header = "E" + std::string(19, '.');  // of IPv4 without options; only receivers see it
  std::vector<std::unique_ptr<Script>> nodes;
  for (uint8_t n = 0; n < 3; ++n) {
    nodes.push_back(std::make_unique<Script>(n, uint8_t{0}));
    nodes[n]->channel(1, format::kChannelDatagram, 3, inet("0.0.0.0", 0), {}, 0, 0, 253);
    nodes[n]->datagrams[1] = true;
  }
  std::vector<std::array<uint64_t, 3>> copies;
  for (uint64_t at = 1000; at < 9000; at += 1000) {
    const auto& to = at % 2000 ? everyone : machine;
    const std::string text = fmt::format("message of {}", at);
    const uint64_t sent = nodes[2]->send(at, 1, text, &to);
    copies.push_back({sent, nodes[0]->receive(at + 100, 1, header + text, &machine),
                      nodes[1]->receive(at + 200, 1, header + text, &machine)});
  }
  const World world({nodes[0].get(), nodes[1].get(), nodes[2].get()});
  for (auto [sent, first, second] : copies) {
    EXPECT_TRUE(world.has(EdgeKind::datagram, 2, sent, 0, first));
    EXPECT_TRUE(world.has(EdgeKind::datagram, 2, sent, 1, second));
  }
}

TEST(Datagrams, ManyEqualOnesTakeNoMoreThanTheirNumber) {
  EXPECT_LT(growth(3000,
                   [](uint64_t n) {
                     Net net(2);
                     net.send(100, 0, 1, "x");
                     for (uint64_t k = 0; k < n; ++k) net.receive(200 + 20 * k, 1, 0, "x");
                     for (uint64_t k = 0; k < n; ++k) net.send(1000 + 20 * n + 20 * k, 0, 1, "x");
                     std::vector<NodeId> nodes{NodeId{0}, NodeId{1}};
                     testing::TemporaryRecording recording;
                     for (auto& node : net.nodes) recording.save(node->writer);
                     EXPECT_TRUE(Schedule::compute(*Recording::open(recording.path()), nodes));
                   }),
            kMostGrowth);
}

// Each of n nodes sends the same to each: n * n messages, and as many flows at each end.
TEST(Datagrams, EqualOnesOfAllToAllAreNotComparedWithEachOther) {
  const double grown = growth(6, [](uint64_t n) {
    Net net(n);
    for (uint64_t k = 0; k < n; ++k) {
      const std::string text = fmt::format("unique contents {}", k);
      net.send(100 + k, k, (k + 1) % n, text);
      net.receive(1000 + k, (k + 1) % n, k, text);
    }
    for (uint64_t from = 0; from < n; ++from)
      for (uint64_t to = 0; to < n; ++to)
        if (to != from) net.send(10000 + 20 * to, from, to, kBeat);
    for (uint64_t to = 0; to < n; ++to)
      for (uint64_t from = 0; from < n; ++from)
        if (to != from) net.receive(100000 + 20 * from, to, from, kBeat);
    testing::TemporaryRecording recording;
    for (auto& node : net.nodes) recording.save(node->writer);
    auto schedule = Schedule::compute(*Recording::open(recording.path()));
    ASSERT_TRUE(schedule);
    EXPECT_EQ(schedule->edges().size(), n * n);
  });
  EXPECT_LT(grown, 8 * 8 * 8);
}

}  // namespace
}  // namespace friday
