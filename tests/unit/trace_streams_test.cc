// The order of streams that several threads and processes write and read at once: random histories whose truth is
// known.
#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "core/trace/index.h"
#include "core/trace/logical_time.h"
#include "core/trace/messages.h"
#include "core/trace/reader.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::EventSpec;
using testing::Script;
using testing::TemporaryRecording;

// A pipe, its writers and readers, and what each call moved. A call takes place at one moment between its entry and its
// return.
class Pipe {
 public:
  struct Shape {
    uint32_t writers = 1, writer_nodes = 1, readers = 1,
             reader_nodes = 1;  // threads, and processes that they are spread over
    uint64_t spread = 40;       // how long a call lasts; one takes place every ten ticks
    size_t most_sent = 60, most_read = 100;
    bool repeats = false;  // everybody writes the same
    double unseen = 0;     // share of the sends whose bytes nobody saw
  };
  struct Call {
    bool out, unseen = false;
    uint32_t node, thread;
    uint64_t entry, back, taken;  // taken: when its return is logged
    uint64_t start;
    std::string text;
    uint64_t entry_event = 0, back_event = 0;
  };

  Pipe(const Shape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    for (uint32_t n = 0; n < shape.writers; ++n) writers_.push_back({n % shape.writer_nodes, n});
    for (uint32_t n = 0; n < shape.readers; ++n) readers_.push_back({shape.writer_nodes + n % shape.reader_nodes, n});
  }

  void run(size_t sends) {
    for (size_t sent = 0; sent < sends || !unread_.empty();) {
      now_ += 10;
      const bool write = sent < sends && (unread_.empty() || random_() % 2);
      Thread& thread = pick(write ? writers_ : readers_);
      if (thread.busy_until >= now_) continue;
      Call& call = begin(thread, write);
      if (write) {
        call.text = words(1 + random_() % shape_.most_sent);
        call.unseen = static_cast<double>(random_() % 1000) < shape_.unseen * 1000;
        call.start = written_;
        written_ += call.text.size();
        unread_ += call.text;
        ++sent;
      } else {
        call.text = unread_.substr(0, 1 + random_() % shape_.most_read);
        call.start = written_ - unread_.size();
        unread_.erase(0, call.text.size());
      }
    }
  }

  // Bytes from a process that is not recorded.
  void strange(const std::string& text) {
    written_ += text.size();
    unread_ += text;
  }
  // A write that another one of another thread gets into, and a read of all that.
  void cut_up(const std::string& first, const std::string& between, const std::string& last) {
    now_ += 1000;
    Call& whole = begin(writers_.at(0), true);
    whole.text = first + last, whole.start = written_;
    now_ += 1;
    Call& inside = begin(writers_.at(1), true);
    inside.text = between, inside.start = written_ + first.size();
    strange(first + between + last);
    now_ += 1000;
  }

  void save() {
    for (uint32_t node = 0; node < shape_.writer_nodes + shape_.reader_nodes; ++node) {
      nodes_.push_back(std::make_unique<Script>(static_cast<uint8_t>(node)));
      nodes_.back()->channel(1, format::kChannelPipe, 3, {}, {}, 4711);
      log(node);
      recording_.save(nodes_.back()->writer);
    }
    auto opened = Recording::open(recording_.path());
    ASSERT_TRUE(opened);
    recording = *std::move(opened);
    auto computed = Schedule::compute(*recording);
    ASSERT_TRUE(computed) << describe(computed.error());
    schedule = *std::move(computed);
    EXPECT_TRUE(schedule.broken().empty());
  }

  // Node and event of both ends, the number of bytes, and where these begin in the send and in the receive.
  using EdgeSet = std::set<std::array<uint64_t, 7>>;
  EdgeSet truth() const {
    EdgeSet set;
    std::vector<const Call*> reads;
    for (const Call& call : calls)
      if (!call.out) reads.push_back(&call);
    for (const Call& send : calls) {
      if (!send.out) continue;
      auto first = std::ranges::upper_bound(reads, send.start, {},
                                            [](const Call* read) { return read->start + read->text.size(); });
      for (; first != reads.end() && (*first)->start < send.start + send.text.size(); ++first) {
        const Call& read = **first;
        const uint64_t end = std::min(send.start + send.text.size(), read.start + read.text.size());
        const uint64_t begin = std::max(send.start, read.start);
        set.insert({send.node, send.entry_event, read.node, read.back_event, end - begin, begin - send.start,
                    begin - read.start});
      }
    }
    return set;
  }
  EdgeSet found() const {
    EdgeSet set;
    for (const Edge& edge : schedule.edges())
      if (edge.kind == EdgeKind::pipe)
        set.insert({edge.from.value, edge.from_event, edge.to.value, edge.to_event, edge.bytes, edge.place.sent_at,
                    edge.place.received_at});
    return set;
  }
  NodeTraffic traffic() const {
    NodeTraffic sum;
    for (NodeId node : schedule.nodes()) {
      const NodeTraffic& some = schedule.traffic_of(node);
      sum.sends += some.sends, sum.receives += some.receives;
      sum.unmatched_sends += some.unmatched_sends, sum.unmatched_receives += some.unmatched_receives;
      sum.unplaced_sends += some.unplaced_sends, sum.unplaced_receives += some.unplaced_receives;
    }
    return sum;
  }

  std::deque<Call> calls;
  std::optional<Recording> recording;
  Schedule schedule;

 private:
  struct Thread {
    uint32_t node, thread;
    uint64_t busy_until = 0;
  };

  Thread& pick(std::vector<Thread>& threads) { return threads[random_() % threads.size()]; }
  Call& begin(Thread& thread, bool out) {
    const uint64_t since = std::max(thread.busy_until + 1, now_ > shape_.spread ? now_ - random_() % shape_.spread : 1);
    const uint64_t back = now_ + 1 + random_() % shape_.spread, taken = back + random_() % shape_.spread;
    thread.busy_until = taken;
    return calls.emplace_back(Call{out, false, thread.node, thread.thread, std::min(since, now_), back, taken, 0, ""});
  }
  std::string words(size_t size) {
    std::string text(size, 'w');
    if (!shape_.repeats)
      for (char& c : text) c = static_cast<char>(random_());
    return text;
  }

  void log(uint32_t node) {
    Script& script = *nodes_[node];
    std::vector<std::pair<uint64_t, Call*>> points;
    for (Call& call : calls)
      if (call.node == node) points.push_back({call.entry, &call}), points.push_back({call.taken, &call});
    std::ranges::stable_sort(points, {}, [](const auto& point) { return point.first; });
    std::set<Call*> entered;
    for (auto [at, call] : points) {
      EventSpec spec = script.call(call->entry, call->out ? SYS_write : SYS_read, {3, 0x1000, call->text.size()}, 0);
      spec.thread = call->thread;
      if (entered.insert(call).second) {
        spec.type = format::kRelease;
        spec.return_ticks = call->entry;
        call->entry_event = script.writer.add(spec);
        continue;
      }
      spec.type = format::kReturn;
      spec.return_ticks = call->back;
      spec.result = static_cast<int64_t>(call->text.size());
      format::TransferPart part = script.out(call->out ? 1 : 2, call->unseen ? "" : call->text, nullptr);
      part.channel = 1;
      part.length = part.true_length = call->text.size();
      if (call->unseen) part.hash = chains_[node], part.representation = format::kHeaderOnly;
      if (call->out) chains_[node] = part.hash, script.set_chain(1, part.hash);
      if (!call->out) {
        part.direction = format::kIn;
        part.representation = format::kInline;
        spec.parts.memory(0x1000, call->text);
      }
      spec.parts.record(format::kTransfer, part);
      call->back_event = script.writer.add(spec);
    }
  }

  Shape shape_;
  std::mt19937_64 random_;
  std::vector<Thread> writers_, readers_;
  std::vector<std::unique_ptr<Script>> nodes_;
  std::map<uint32_t, uint64_t> chains_;
  std::string unread_;
  uint64_t now_ = 1000, written_ = 0;
  TemporaryRecording recording_;
};

class Streams : public ::testing::TestWithParam<Pipe::Shape> {};

TEST_P(Streams, EachReceiveIsMatchedToWhatItGot) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Pipe pipe(GetParam(), seed);
    pipe.run(600);
    pipe.save();
    EXPECT_EQ(pipe.found(), pipe.truth()) << "seed " << seed;
    const NodeTraffic traffic = pipe.traffic();
    EXPECT_EQ(traffic.unmatched_sends + traffic.unmatched_receives, 0u) << "seed " << seed;
  }
}

TEST_P(Streams, TheMessagesOfOneReceiveFollowEachOther) {
  Pipe pipe(GetParam(), 5);
  pipe.run(600);
  pipe.save();
  auto messages = messages_of(*pipe.recording, pipe.schedule);
  ASSERT_TRUE(messages) << describe(messages.error());
  std::map<std::pair<uint32_t, uint64_t>, std::string> texts;
  std::map<uint32_t, std::pair<TraceReader, TraceIndex>> traces;
  for (const NodeId node : pipe.schedule.nodes()) {
    auto reader = TraceReader::open(*pipe.recording, node);
    ASSERT_TRUE(reader);
    auto index = TraceIndex::load_or_build(*pipe.recording, *reader);
    ASSERT_TRUE(index);
    traces.emplace(node.value, std::pair(*std::move(reader), *std::move(index)));
  }
  for (const Message& message : *messages) {
    ASSERT_TRUE(message.received);
    const auto [node, event] = *message.received;
    const auto& [reader, index] = traces.at(node.value);
    auto received = index.event(reader, event);
    ASSERT_TRUE(received);
    const MessageText text = text_of(message, *received);
    ASSERT_EQ(text.missing, "");
    texts[{node.value, event}] += text.bytes;
  }
  for (const Pipe::Call& call : pipe.calls)
    if (!call.out) EXPECT_EQ((texts[{call.node, call.back_event}]), call.text);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Streams,
    ::testing::Values(Pipe::Shape{}, Pipe::Shape{.writers = 2}, Pipe::Shape{.writers = 8, .writer_nodes = 3},
                      Pipe::Shape{.readers = 4, .reader_nodes = 4},
                      Pipe::Shape{.readers = 6, .reader_nodes = 2, .most_sent = 200, .most_read = 60},
                      Pipe::Shape{.writers = 4, .writer_nodes = 2, .readers = 3, .reader_nodes = 3},
                      Pipe::Shape{.writers = 3, .readers = 3, .spread = 300, .most_read = 400},
                      Pipe::Shape{.writers = 16, .writer_nodes = 4, .spread = 150, .most_sent = 20, .most_read = 4000},
                      Pipe::Shape{.unseen = 0.3}));

// Where all say the same nothing tells who was first: any answer will do that could have been.
TEST(Streams, EqualBytesAreMatchedAllTheSame) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Pipe pipe({.writers = 6,
               .writer_nodes = 2,
               .readers = 3,
               .reader_nodes = 3,
               .spread = 100,
               .most_sent = 1,
               .most_read = 1,
               .repeats = true},
              seed);
    pipe.run(600);
    pipe.save();
    const NodeTraffic traffic = pipe.traffic();
    EXPECT_EQ(traffic.sends, 600u);
    EXPECT_EQ(traffic.unmatched_sends + traffic.unmatched_receives, 0u) << "seed " << seed;
    EXPECT_EQ(pipe.found().size(), 600u);
  }
}

// Of several threads that send files the lengths tell.
TEST(Streams, BytesThatNobodySawLieBetweenTheOthers) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Pipe pipe({.writers = 3, .writer_nodes = 3, .most_sent = 500, .most_read = 2000, .unseen = 0.3}, seed);
    pipe.run(400);
    pipe.save();
    const NodeTraffic traffic = pipe.traffic();
    EXPECT_EQ(traffic.unmatched_sends + traffic.unmatched_receives, 0u) << "seed " << seed;
  }
}

TEST(Streams, WhatAStrangerWroteStaysUnknownAndTheRestIsFound) {
  for (uint32_t writers : {1, 3}) {
    Pipe pipe({.writers = writers, .writer_nodes = writers, .most_sent = 100}, 7);
    pipe.run(100);
    pipe.strange("bytes of somebody else, and of no round length");
    pipe.run(100);
    pipe.strange(std::string(3000, 's'));
    pipe.run(100);
    pipe.save();
    EXPECT_EQ(pipe.found(), pipe.truth());
    const NodeTraffic traffic = pipe.traffic();
    EXPECT_EQ(traffic.unmatched_sends, 0u);
    EXPECT_GT(traffic.unplaced_receives, 0u);
    EXPECT_EQ(traffic.unplaced_receives, traffic.unmatched_receives);
  }
}

// A connection whose ends name each other is one also where a process that is not recorded wrote into it.
TEST(Streams, AStrangersAnswerDoesNotTakeTheOthers) {
  Script client(0), server(1);
  client.channel(1, format::kChannelStream, 5, testing::inet("127.0.0.1", 40000), testing::inet("127.0.0.1", 80));
  server.channel(1, format::kChannelStream, 5, testing::inet("127.0.0.1", 80), testing::inet("127.0.0.1", 40000));
  std::vector<std::pair<uint64_t, uint64_t>> messages;
  for (uint64_t round = 0; round < 5; ++round) {
    const uint64_t at = 1000 * (round + 1);
    const std::string asked = fmt::format("request number {}", round),
                      answer = fmt::format("the answer to it is {}", round);
    client.send(at, 1, asked);
    server.receive(at + 100, 1, asked);
    const uint64_t sent = server.send(at + 200, 1, answer);
    messages.emplace_back(sent, client.receive(at + 300, 1, answer));
    if (round == 2) client.receive(at + 400, 1, "what a child by vfork wrote");
  }
  TemporaryRecording recording;
  recording.save(client.writer);
  recording.save(server.writer);
  auto schedule = Schedule::compute(*Recording::open(recording.path()));
  ASSERT_TRUE(schedule);
  for (auto [sent, got] : messages)
    EXPECT_TRUE(std::ranges::any_of(schedule->edges(), [&](const Edge& edge) {
      return edge.kind == EdgeKind::stream && edge.from_event == sent && edge.to_event == got && edge.from == NodeId{1};
    }));
  EXPECT_EQ(schedule->traffic_of(NodeId{0}).unplaced_receives, 1u);
  EXPECT_EQ(schedule->traffic_of(NodeId{0}).unmatched_receives, 1u);
}

TEST(Streams, AWriteThatAnotherGotIntoIsNamedAndTheRestIsFound) {
  Pipe pipe({.writers = 2, .writer_nodes = 2, .most_sent = 100}, 3);
  pipe.run(100);
  pipe.cut_up(std::string(150, 'a') + "xyz", "a line of the other thread's", "zyx" + std::string(300, 'b'));
  pipe.run(100);
  pipe.save();
  Pipe::EdgeSet wrong, truth = pipe.truth();
  for (const auto& edge : pipe.found())
    if (!truth.contains(edge)) wrong.insert(edge);
  EXPECT_TRUE(wrong.empty());
  const NodeTraffic traffic = pipe.traffic();
  EXPECT_EQ(traffic.unplaced_sends, 1u);
  EXPECT_EQ(traffic.unmatched_sends, 1u);
}

}  // namespace
}  // namespace friday
