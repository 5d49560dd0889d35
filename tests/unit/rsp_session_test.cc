// The conversation without a gdb: exact packets against a live process, hostile input, and the sockets around it.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/rsp_host.h"

namespace friday {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class RspSessionTest : public testing::Test {
 protected:
  void connect() {
    session_ =
        std::make_unique<RspSession>(*node_, *host_, [this](std::string_view reply) { replies_.emplace_back(reply); });
  }
  void start(const char* mode, const char* stop_at) {
    node_ = PtraceNode::launched({RSP_TARGET, mode});
    ASSERT_TRUE(node_->run_to(*node_->symbol(stop_at)));
    host_ = std::make_unique<RspTestHost>(*node_);
    host_->hold = true;
    connect();
  }
  void SetUp() override { start("plain", "work"); }

  // The only reply to a packet, or "(none)".
  std::string ask(std::string_view packet) {
    replies_.clear();
    session_->handle(packet);
    EXPECT_LE(replies_.size(), 1u) << packet;
    return replies_.empty() ? "(none)" : replies_.front();
  }
  std::string hex_of(const std::string& symbol) { return fmt::format("{:x}", node_->symbol(symbol)->value); }

  std::unique_ptr<PtraceNode> node_;
  std::unique_ptr<RspTestHost> host_;
  std::unique_ptr<RspSession> session_;
  std::vector<std::string> replies_;
};

TEST_F(RspSessionTest, OffersWhatTheHostCanDo) {
  EXPECT_THAT(ask("qSupported:multiprocess+;swbreak+"), Not(HasSubstr("Reverse")));
  host_->offered = {.reverse = true, .conditions = true};
  std::string reply = ask("qSupported");
  EXPECT_THAT(reply, StartsWith("PacketSize=20000;"));
  EXPECT_THAT(reply, HasSubstr("ReverseContinue+"));
  EXPECT_THAT(reply, HasSubstr("ConditionalBreakpoints+"));
  EXPECT_EQ(ask("vMustReplyEmpty"), "");
  EXPECT_EQ(ask("qTStatus"), "");
  EXPECT_EQ(ask("qCRC:0,1"), "");
  EXPECT_EQ(ask("!"), "OK");
  EXPECT_EQ(ask("R00"), "(none)");
  EXPECT_THAT(ask("vRun;"), StartsWith("E."));
  EXPECT_EQ(ask("QStartNoAckMode"), "OK");
  EXPECT_TRUE(session_->no_ack());
}

TEST_F(RspSessionTest, ThreadIdsWithAndWithoutMultiprocess) {
  EXPECT_EQ(ask("qC"), "QC1");
  EXPECT_EQ(ask("qfThreadInfo"), "m1");
  ask("qSupported:multiprocess+");
  EXPECT_EQ(ask("qC"), "QCp1.1");
  EXPECT_EQ(ask("qfThreadInfo"), "mp1.1");
  EXPECT_EQ(ask("qsThreadInfo"), "l");
  EXPECT_EQ(ask("qAttached:1"), "1");
  EXPECT_EQ(ask("Tp1.1"), "OK");
  EXPECT_EQ(ask("Tp1.9"), "E03");
  EXPECT_EQ(ask("Tp2.1"), "E01");
  EXPECT_EQ(ask("Hgp1.1"), "OK");
  EXPECT_EQ(ask("Hc-1"), "OK");
  EXPECT_EQ(ask("Hgp0.0"), "OK");
  EXPECT_EQ(ask("Hx1"), "E01");
  EXPECT_THAT(ask("?"), StartsWith("T05thread:p1.1;"));
}

TEST_F(RspSessionTest, Memory) {
  std::string counter = hex_of("counter"), outer = hex_of("outer");
  EXPECT_EQ(ask("m" + counter + ",4"), "00000000");
  EXPECT_EQ(ask("m" + outer + ",6"), "667269646179");
  EXPECT_EQ(ask("M" + counter + ",4:2a000000"), "OK");
  EXPECT_EQ(ask("m" + counter + ",4"), "2a000000");
  EXPECT_EQ(ask("X" + counter + ",0:"), "OK");
  EXPECT_EQ(ask("X" + counter + ",2:ab"), "OK");
  EXPECT_EQ(ask("m" + counter + ",4"), "61620000");
  EXPECT_EQ(ask("m8,4"), "E14");
  EXPECT_EQ(ask("X8,1:a"), "E14");
  EXPECT_EQ(ask("M" + counter + ",4:2a"), "E01");
  EXPECT_EQ(ask("X" + counter + ",3:ab"), "E01");
  EXPECT_EQ(ask("mffffffffffffffff,ffffffffffffffff"), "E14");
}

TEST_F(RspSessionTest, MemoryThatIsReadableOnlyInPart) {
  auto maps = node_->mappings();
  for (const Mapping& map : *maps) {
    if (map.path != "[stack]") continue;
    EXPECT_EQ(ask(fmt::format("m{:x},100", map.high - 16)).size(), 32u);
    EXPECT_EQ(ask(fmt::format("m{:x},100", map.high)), "E14");
  }
}

TEST_F(RspSessionTest, Registers) {
  Addr address = *node_->symbol("work");
  std::string work = to_hex(std::as_bytes(std::span(&address.value, 1)));
  EXPECT_EQ(ask("p10"), work);
  size_t bytes = 0;
  for (unsigned number = 0; number < kRegisterCount; ++number) bytes += register_size(number);
  std::string all = ask("g");
  EXPECT_EQ(all.size(), 2 * bytes);
  EXPECT_EQ(all.substr(16 * 16, 16), work);
  EXPECT_EQ(ask("P0=efbeadde00000000"), "OK");
  EXPECT_EQ(node_->registers({0})->rax, 0xdeadbeefu);
  EXPECT_EQ(ask("P28=000102030405060708090a0b0c0d0e0f"), "OK");
  EXPECT_EQ(ask("p28"), "000102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(ask("P3c=0f0102030405060708090a0b0c0d0e0f"), "OK");
  EXPECT_EQ(ask("p3c"), "0f0102030405060708090a0b0c0d0e0f");
  EXPECT_EQ(ask("G" + all), "OK");
  EXPECT_EQ(ask("g"), all);
  EXPECT_EQ(ask("p4c"), "E01");
  EXPECT_EQ(ask("p"), "E01");
  EXPECT_EQ(ask("P0=12"), "E01");
  EXPECT_EQ(ask("P0"), "E01");
  EXPECT_EQ(ask("G00"), "E01");
  EXPECT_EQ(ask("G" + all + "00"), "E01");
}

TEST_F(RspSessionTest, ResumeRequestsReachTheHost) {
  ask("qSupported:multiprocess+;swbreak+;hwbreak+");
  EXPECT_EQ(ask("vCont?"), "vCont;c;C;s;S;t;r");
  EXPECT_EQ(ask("vCont;s:p1.1;C1e:p1.-1"), "(none)");
  ASSERT_EQ(host_->requests.size(), 1u);
  const ResumeRequest& request = host_->requests[0];
  ASSERT_EQ(request.actions.size(), 2u);
  EXPECT_EQ(request.actions[0].kind, ThreadAction::Kind::step);
  EXPECT_EQ(request.actions[0].thread, ThreadId{0});
  EXPECT_EQ(request.actions[1].kind, ThreadAction::Kind::go);
  EXPECT_EQ(request.actions[1].thread, std::nullopt) << "all others";
  EXPECT_EQ(request.actions[1].signal, SIGUSR1);
  EXPECT_TRUE(request.moved.empty());
  EXPECT_TRUE(session_->waiting());
  EXPECT_EQ(ask("g"), "E01");  // the node runs
  session_->interrupt();
  EXPECT_EQ(host_->interrupts, 1);
  replies_.clear();
  session_->report({.kind = StopReport::Kind::write_watch, .thread = {0}, .address = {0x1234}});
  ASSERT_EQ(replies_.size(), 1u);
  EXPECT_THAT(replies_[0], StartsWith("T05thread:p1.1;watch:1234;06:"));
  session_->interrupt();  // nothing runs: no more interrupts
  EXPECT_EQ(host_->interrupts, 1);
  session_->report({.kind = StopReport::Kind::step});
  EXPECT_EQ(replies_.size(), 1u);  // nobody waits
  EXPECT_EQ(ask("vCont;r1000,2000:p1.1"), "(none)");
  EXPECT_EQ(host_->requests[1].actions[0].high.value, 0x2000u);
}

TEST_F(RspSessionTest, EveryKindOfStopReply) {
  ask("qSupported:multiprocess+;swbreak+;hwbreak+");
  using Kind = StopReport::Kind;
  std::pair<StopReport, const char*> cases[] = {
      {{.kind = Kind::signal, .signal = SIGUSR1}, "T1ethread:p1.1;06"},
      {{.kind = Kind::breakpoint}, "T05thread:p1.1;swbreak:;06"},
      {{.kind = Kind::hardware_breakpoint}, "T05thread:p1.1;hwbreak:;06"},
      {{.kind = Kind::read_watch, .address = {16}}, "T05thread:p1.1;rwatch:10;06"},
      {{.kind = Kind::access_watch, .address = {16}}, "T05thread:p1.1;awatch:10;06"},
      {{.kind = Kind::step}, "T05thread:p1.1;06"},
      {{.kind = Kind::interrupted}, "T02thread:p1.1;06"},
      {{.kind = Kind::history_begin}, "T05thread:p1.1;replaylog:begin;06"},
      {{.kind = Kind::history_end}, "T05thread:p1.1;replaylog:end;06"},
      {{.kind = Kind::exited, .status = 7}, "W07;process:1"},
      {{.kind = Kind::killed, .signal = SIGBUS}, "X0a;process:1"},
  };
  for (const auto& [report, expected] : cases) {
    EXPECT_EQ(ask("c"), "(none)");
    session_->report(report);
    ASSERT_EQ(replies_.size(), 1u);
    EXPECT_THAT(replies_[0], StartsWith(expected));
  }
}

TEST_F(RspSessionTest, OldResumePacketsAndReverse) {
  EXPECT_EQ(ask("s"), "(none)");
  EXPECT_EQ(host_->requests.back().actions.at(0).kind, ThreadAction::Kind::step);
  session_->report({.kind = StopReport::Kind::step});
  EXPECT_EQ(ask("C0b"), "(none)");
  ASSERT_EQ(host_->requests.back().actions.size(), 2u);
  EXPECT_EQ(host_->requests.back().actions[0].thread, ThreadId{0});
  EXPECT_EQ(host_->requests.back().actions[0].signal, SIGSEGV);
  EXPECT_EQ(host_->requests.back().actions[1].signal, 0);
  session_->report({.kind = StopReport::Kind::step});
  EXPECT_EQ(ask("bc"), "");
  host_->offered.reverse = true;
  EXPECT_EQ(ask("bs"), "(none)");
  EXPECT_EQ(host_->requests.back().direction, ResumeRequest::Direction::reverse_step);
  session_->report({.kind = StopReport::Kind::history_begin});
  EXPECT_EQ(ask("vCont"), "");
  EXPECT_EQ(ask("vCont;"), "E01");
  EXPECT_EQ(ask("vCont;x"), "E01");
  EXPECT_EQ(ask("vCont;s:q"), "E01");
  EXPECT_EQ(ask("vCont;r10"), "E01");
}

TEST_F(RspSessionTest, TellsWhichThreadsTheClientMoved) {
  ask("P10=0010000000000000");
  ask("vCont;c");
  ASSERT_EQ(host_->requests.back().moved.size(), 1u);
  session_->report({.kind = StopReport::Kind::step});
  ask("P0=0010000000000000");
  ask("vCont;c");
  EXPECT_TRUE(host_->requests.back().moved.empty());
}

TEST_F(RspSessionTest, StopPointsWithConditions) {
  std::string work = hex_of("work"), counter = hex_of("counter");
  EXPECT_EQ(ask("Z0," + work + ",1;X3,220127X1,26"), "OK");
  ASSERT_EQ(host_->set_requests.back().conditions.size(), 2u);
  EXPECT_EQ(host_->set_requests.back().conditions[0].size(), 3u);
  EXPECT_EQ(ask("Z0," + work + ",1"), "OK");
  EXPECT_TRUE(host_->set_requests.back().conditions.empty());
  EXPECT_EQ(ask("Z2," + counter + ",1000"), "OK");
  EXPECT_EQ(host_->set_requests.back().length, 0x1000u);
  EXPECT_EQ(host_->stop_point_count(), 2u);
  EXPECT_EQ(ask("z0," + work + ",1"), "OK");
  EXPECT_EQ(ask("z0," + work + ",1"), "OK");
  EXPECT_EQ(host_->stop_point_count(), 1u);
  for (const char* bad : {"Z", "Z0", "Z9,1,1", "Z0,1", "Z2,1,0", "Z2,ffffffffffffffff,2", "Z0,1,1;X", "Z0,1,1;X2,00",
                          "Z0,1,1;Xffffffffffffffff,00", "Z0,1,1;Y", "z5,0,0"})
    EXPECT_EQ(ask(bad), "E01") << bad;
  EXPECT_THAT(ask("Z3," + counter + ",4"), StartsWith("E."));
  EXPECT_THAT(ask("Z0,8,1"), StartsWith("E."));
  session_->close();  // a client that leaves takes its stop points along
  EXPECT_EQ(host_->stop_point_count(), 0u);
  EXPECT_EQ(host_->disconnections, 1);
}

TEST_F(RspSessionTest, ObjectsInPieces) {
  std::string whole = ask("qXfer:features:read:target.xml:0,fffff"), joined;
  EXPECT_THAT(whole, StartsWith("l<?xml"));
  for (size_t at = 0;;) {
    std::string part = ask(fmt::format("qXfer:features:read:target.xml:{:x},40", at));
    joined += part.substr(1);
    at += part.size() - 1;
    if (part[0] == 'l') break;
  }
  EXPECT_EQ(joined, whole.substr(1));
  EXPECT_EQ(ask("qXfer:exec-file:read:1:0,1000"), "l" + node_->executable());
  EXPECT_EQ(ask("qXfer:auxv:read::0,1000").substr(1).size(), node_->auxv()->size());
  EXPECT_THAT(ask("qXfer:threads:read::0,1000"), HasSubstr("name=\"rsp_target\""));
  EXPECT_EQ(ask("qXfer:siginfo:read::0,1000"), "E00");
  siginfo_t info{};
  info.si_signo = SIGSEGV;
  session_->report({.signal = SIGSEGV, .siginfo = info});
  EXPECT_EQ(ask("qXfer:siginfo:read::0,1000").size(), 1 + sizeof info);
  EXPECT_EQ(ask("qXfer:features:read:other.xml:0,1000"), "E00");
  EXPECT_EQ(ask("qXfer:features:read:target.xml:0"), "E01");
  EXPECT_EQ(ask("qXfer:features:write:target.xml:0:aa"), "");
  EXPECT_EQ(ask("qXfer:features:read:target.xml:fffffffff,10"), "l");
}

TEST_F(RspSessionTest, FilesAreReadableAndStayReadOnly) {
  std::string name = to_hex(std::string_view(node_->executable()));
  EXPECT_EQ(ask("vFile:setfs:0"), "F0");
  EXPECT_EQ(ask("vFile:open:" + name + ",0,0"), "F1");
  EXPECT_EQ(ask("vFile:pread:1,4,0"),
            "F4;\x7f"
            "ELF");
  EXPECT_EQ(ask("vFile:fstat:1").substr(0, 4), "F40;");
  EXPECT_EQ(ask("vFile:fstat:1").size(), 4u + 64u);
  EXPECT_EQ(ask("vFile:close:1"), "F0");
  EXPECT_EQ(ask("vFile:close:1"), "F-1,9");
  EXPECT_EQ(ask("vFile:pread:1,4,0"), "F-1,9");
  EXPECT_EQ(ask("vFile:open:" + name + ",1,0"), "F-1,1e");
  EXPECT_EQ(ask("vFile:open:2f6e6f6e65,0,0"), "F-1,2");
  EXPECT_EQ(ask("vFile:open:2f746d70,0,0"), "F-1,d");  // a directory
  EXPECT_EQ(ask("vFile:unlink:" + name), "");
  EXPECT_EQ(ask("vFile:open:zz,0,0"), "F-1,16");
}

TEST_F(RspSessionTest, ProcessOneIsTheNodeAndNotTheMachines) {
  auto open = [&](std::string_view path) { return ask("vFile:open:" + to_hex(path) + ",0,0"); };
  EXPECT_EQ(open("/proc/1/task/1/maps"), "F1");
  EXPECT_THAT(ask("vFile:pread:1,10000,0"), HasSubstr(node_->executable()));
  EXPECT_EQ(ask("vFile:fstat:1").size(), 4u + 64u);
  EXPECT_EQ(ask("vFile:close:1"), "F0");
  for (const char* path :
       {"/proc/1/status", "/proc/self/environ", "/proc/self/mem", "//usr/../proc/version", "/proc/1/exe"})
    EXPECT_THAT(open(path), StartsWith("F-1,")) << path;
}

TEST_F(RspSessionTest, MonitorKillAndDetach) {
  session_->handle("qRcmd," + to_hex(std::string_view("hello")));
  ASSERT_EQ(replies_.size(), 2u);
  EXPECT_EQ(replies_[0], "O" + to_hex(std::string_view("heard: hello\n")));
  EXPECT_EQ(replies_[1], "OK");
  replies_.clear();
  session_->handle("qRcmd," + to_hex(std::string_view("fail")));
  EXPECT_EQ(replies_[0], "O" + to_hex(std::string_view("no such monitor command\n")));
  EXPECT_EQ(ask("qRcmd,123"), "E01");
  EXPECT_EQ(ask("vKill;1"), "E.a recorded node cannot be killed");
  EXPECT_EQ(host_->kills, 1);
  EXPECT_EQ(ask("D;1"), "OK");
  EXPECT_TRUE(session_->closing());
  EXPECT_EQ(ask("g"), "(none)");
  EXPECT_TRUE(node_->alive());
}

TEST_F(RspSessionTest, ThreadLocalAddresses) {
  start("threads", "all_started");
  ask("qSupported:multiprocess+");
  // A program without link_map argument: module 1. The variable's block lies right below the thread pointer.
  auto ask_thread = [&](int number) { return ask(fmt::format("qGetTLSAddr:p1.{},0,0", number)); };
  std::set<std::string> addresses;
  for (int number = 1; number <= 4; ++number) addresses.insert(ask_thread(number));
  EXPECT_EQ(addresses.size(), 4u);
  for (const std::string& address : addresses) EXPECT_THAT(address, StartsWith("7f"));
  EXPECT_THAT(ask("qGetTLSAddr:p1.1,0,8"), StartsWith("E."));  // not a link_map
  EXPECT_THAT(ask("qGetTLSAddr:p1.9,0,0"), StartsWith("E."));
  EXPECT_EQ(ask("qGetTLSAddr:p1.1,0"), "E01");
}

TEST_F(RspSessionTest, AnEndedNodeAnswersInOrder) {
  ASSERT_EQ(node_->continue_and_wait()->status, 7);
  EXPECT_EQ(ask("g"), "E03");
  EXPECT_EQ(ask("m1000,4"), "E14");
  EXPECT_EQ(ask("qfThreadInfo"), "l");
  session_->report({.kind = StopReport::Kind::exited, .status = 7});
  EXPECT_EQ(ask("?"), "W07");
}

// Mutations of good packets and pure noise: each gets a reply or silence, and afterwards the session works.
TEST_F(RspSessionTest, HostilePacketsNeverBreakIt) {
  const char* seeds[] = {"m5555,8",
                         "M5555,2:aabb",
                         "X5555,2:ab",
                         "Z0,5555,1;X3,220127",
                         "z2,5555,8",
                         "vCont;s:p1.1;c",
                         "Hgp1.1",
                         "Tp1.1",
                         "qXfer:features:read:target.xml:0,100",
                         "qXfer:auxv:read::0,10",
                         "p10",
                         "qGetTLSAddr:p1.1,0,5555",
                         "vFile:open:2f,0,0",
                         "vFile:pread:1,2,3",
                         "vFile:fstat:1",
                         "qRcmd,61",
                         "qSupported:a+;b=c",
                         "g",
                         "qThreadExtraInfo,p1.1",
                         "?",
                         "QStartNoAckMode",
                         "qC",
                         "C05",
                         "G0011"};
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string packet = seeds[random() % std::size(seeds)];
    for (int change = random() % 4; change > 0; --change) {
      size_t at = random() % (packet.size() + 1);
      switch (random() % 3) {
        case 0: packet.insert(at, 1, "$#:;,.p-0f\xff\0=X"[random() % 14]); break;
        case 1: packet.erase(at, 1 + random() % 3); break;
        default:
          if (at < packet.size()) packet[at] = static_cast<char>(random());
      }
    }
    replies_.clear();
    session_->handle(packet);
    if (session_->waiting()) session_->report({.kind = StopReport::Kind::step});
    ASSERT_LE(replies_.size(), 2u) << packet;
    if (session_->closing()) connect();  // it became a detach
  }
  EXPECT_EQ(ask("m" + hex_of("outer") + ",6"), "667269646179");
}

// ---- sockets

class Client {
 public:
  explicit Client(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, path.size());
    connected_ = !connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  bool connected() const { return connected_; }
  int fd() const { return socket_.get(); }
  void send(std::string_view bytes) {
    ASSERT_EQ(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Everything that has come; "(closed)" at the end of the stream.
  std::string receive() {
    char buffer[65536];
    ssize_t got = recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got == 0) return "(closed)";
    return got < 0 ? "" : std::string(buffer, static_cast<size_t>(got));
  }
  void close() { socket_.reset(); }

 private:
  UniqueFd socket_;
  bool connected_ = false;
};

class RspEndpointTest : public testing::Test {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/friday-rsp-XXXXXX";
    ASSERT_TRUE(mkdtemp(directory));
    directory_ = directory;
    path_ = directory_ + "/node";
    node_ = PtraceNode::launched({RSP_TARGET, "plain"});
    ASSERT_TRUE(node_->run_to(*node_->symbol("work")));
    host_ = std::make_unique<RspTestHost>(*node_);
    host_->hold = true;
    auto listening = host_->endpoint().listen_unix(path_);
    ASSERT_TRUE(listening) << listening.error().message;
  }
  void TearDown() override {
    host_.reset();
    EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket is left behind";
    rmdir(directory_.c_str());
  }
  std::string exchange(Client& client, std::string_view bytes, size_t at_least) {
    client.send(bytes);
    std::string got;
    host_->serve([&] { return (got += client.receive()).size() >= at_least; }, {client.fd()}, 10);
    return got;
  }
  void settle(const std::function<bool()>& done, std::vector<int> extra = {}) {
    EXPECT_TRUE(host_->serve(done, std::move(extra), 10));
  }

  std::string directory_, path_;
  std::unique_ptr<PtraceNode> node_;
  std::unique_ptr<RspTestHost> host_;
};

TEST_F(RspEndpointTest, AcknowledgesUntilToldNotTo) {
  Client client(path_);
  ASSERT_TRUE(client.connected());
  EXPECT_EQ(exchange(client, "+$qC#b4", 8), "+$QC1#c5");
  EXPECT_EQ(exchange(client, "-", 7), "$QC1#c5");  // sent again
  EXPECT_EQ(exchange(client, "+$qC#00", 1), "-");  // bad checksum
  EXPECT_EQ(exchange(client, "$QStartNoAckMode#b0", 7), "+$OK#9a");
  EXPECT_EQ(exchange(client, "+$qC#b4", 7), "$QC1#c5");
}

TEST_F(RspEndpointTest, OneClientAtATime) {
  Client first(path_);
  EXPECT_EQ(exchange(first, "$qC#b4", 8), "+$QC1#c5");
  Client second(path_);
  EXPECT_THAT(exchange(second, "$qC#b4", 8), HasSubstr("already being debugged by another client"));
  EXPECT_EQ(exchange(first, "$qC#b4", 8), "+$QC1#c5");
  first.close();
  settle([&] { return host_->disconnections == 1; });
  Client third(path_);
  EXPECT_EQ(exchange(third, "$qC#b4", 8), "+$QC1#c5");
}

TEST_F(RspEndpointTest, AClientThatHasGoneKeepsNobodyOut) {
  Client first(path_);
  EXPECT_EQ(exchange(first, "$qC#b4", 8), "+$QC1#c5");
  first.send("$qC#b4");
  first.close();
  Client second(path_);  // the endpoint sees both at once
  EXPECT_EQ(exchange(second, "$qC#b4", 8), "+$QC1#c5");
  EXPECT_EQ(host_->disconnections, 1);
}

TEST_F(RspEndpointTest, AClientThatDisappearsLeavesNothing) {
  Client client(path_);
  std::string packet = fmt::format("Z0,{:x},1", node_->symbol("work")->value);
  EXPECT_EQ(exchange(client, encode_packet(packet, false), 7), "+$OK#9a");
  EXPECT_EQ(exchange(client, "$vCont;c#a8", 1), "+");
  EXPECT_TRUE(host_->endpoint().client_waits());
  EXPECT_EQ(host_->stop_point_count(), 1u);
  client.close();
  settle([&] { return host_->disconnections == 1; });
  EXPECT_EQ(host_->stop_point_count(), 0u);
  EXPECT_FALSE(host_->endpoint().client_waits());
  host_->endpoint().report({.kind = StopReport::Kind::step});  // to nobody
}

TEST_F(RspEndpointTest, InterruptAndReportWhileWaiting) {
  Client client(path_);
  EXPECT_EQ(exchange(client, "$vCont;c#a8", 1), "+");
  client.send("\x03");
  settle([&] { return host_->interrupts == 1; });
  host_->endpoint().report({.kind = StopReport::Kind::interrupted});
  EXPECT_THAT(exchange(client, "+", 10), StartsWith("$T02thread:1;"));
}

TEST_F(RspEndpointTest, FloodOfRequestsFromAClientThatDoesNotRead) {
  Client client(path_);
  EXPECT_EQ(exchange(client, "$QStartNoAckMode#b0", 7), "+$OK#9a");
  std::string many;
  for (int i = 0; i < 2000; ++i) many += encode_packet("g", false);
  client.send(many);
  // Requests must end up answered all, in order, though more is owed than any buffer holds.
  size_t packets = 0;
  settle(
      [&] {
        std::string got = client.receive();
        packets += static_cast<size_t>(std::count(got.begin(), got.end(), '$'));
        return packets >= 2000;
      },
      {client.fd()});
  EXPECT_EQ(packets, 2000u);
}

TEST_F(RspEndpointTest, RefusesADirectoryThatOthersCanEnter) {
  chmod(directory_.c_str(), 0755);
  auto refused = host_->endpoint().listen_unix(directory_ + "/other");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("0700"));
  chmod(directory_.c_str(), 0700);
  EXPECT_FALSE(host_->endpoint().listen_unix(directory_ + "/" + std::string(200, 'x')));
}

TEST_F(RspEndpointTest, LoopbackPort) {
  auto port = host_->endpoint().listen_loopback();
  ASSERT_TRUE(port) << port.error().message;
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(*port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::send(socket.get(), "$qC#b4", 6, 0), 6);
  std::string got;
  host_->serve(
      [&] {
        char buffer[100];
        ssize_t count = recv(socket.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (count > 0) got.append(buffer, static_cast<size_t>(count));
        return got.size() >= 8;
      },
      {socket.get()}, 10);
  EXPECT_EQ(got, "+$QC1#c5");
}

}  // namespace
}  // namespace friday
