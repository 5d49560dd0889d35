// The bytes of transfers as a provider gives them, for events as the shim writes them and for a representation that
// only this test knows.
#include "core/trace/payload.h"

#include <sys/syscall.h>

#include <optional>
#include <string>

#include "core/trace/reader.h"
#include "tests/unit/trace_support.h"

namespace friday {
namespace {

using testing::EventSpec;
using testing::Script;
using testing::TemporaryRecording;

std::string text_of(const Payload& payload) {
  const std::vector<std::byte> bytes = payload.joined();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

format::TransferPart part_of(format::Representation representation, uint64_t length) {
  format::TransferPart part{};
  part.channel = 1;
  part.length = part.true_length = length;
  part.direction = format::kIn;
  part.representation = representation;
  return part;
}

// An event of node 0 with these transfers and, before them as the shim does it, these memory parts.
class OneEvent {
 public:
  OneEvent(const std::vector<format::TransferPart>& transfers, const std::vector<std::string>& memory,
           uint16_t call = SYS_recvmmsg) {
    Script script(0);
    EventSpec spec = script.call(100, call, {0, 0x1000, 2}, 2);
    for (const std::string& text : memory) spec.parts.memory(0x1000, text);
    for (const format::TransferPart& part : transfers) spec.parts.record(format::kTransfer, part);
    script.writer.add(spec);
    script.end();
    recording_.save(script.writer);
    auto recording = Recording::open(recording_.path());
    EXPECT_TRUE(recording);
    auto reader = TraceReader::open(*recording, NodeId{0});
    EXPECT_TRUE(reader);
    reader_.emplace(std::move(*reader));
    RecordCursor cursor = reader_->records();
    while (cursor.next())
      if (cursor.record().is_event() && cursor.record().event()->call == call) event_ = cursor.record().event();
  }
  EventView event() const { return event_; }

 private:
  TemporaryRecording recording_;
  std::optional<TraceReader> reader_;
  EventView event_;
};

TEST(Payload, inline_bytes_are_found_for_each_transfer_of_an_event) {
  // The first message lies in two buffers; what follows the messages is another output of the call.
  const OneEvent one({part_of(format::kInline, 5), part_of(format::kInline, 3)}, {"he", "llo", "you", "more"});
  const PayloadProvider& provider = trace_payloads();
  const PayloadAnswer first = provider.read(one.event(), 0), second = provider.read(one.event(), 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->pieces.size(), 2u);
  EXPECT_EQ(text_of(*first), "hello");
  ASSERT_TRUE(second);
  EXPECT_EQ(text_of(*second), "you");
}

// Earlier recorders noted the full length of a datagram that the buffer, of two bytes, was too small for.
TEST(Payload, a_datagram_that_was_cut_ends_with_its_buffer) {
  const OneEvent one({part_of(format::kInline, 9)}, {"he", "its sender"}, SYS_recvfrom);
  ASSERT_TRUE(trace_payloads().read(one.event(), 0));
  EXPECT_EQ(text_of(*trace_payloads().read(one.event(), 0)), "he");
}

TEST(Payload, what_is_not_stored_is_a_gap_with_a_reason) {
  const OneEvent one({part_of(format::kHashOnly, 5), part_of(format::kHeaderOnly, 5), part_of(format::kInline, 3)},
                     {"you", "more"});
  const PayloadProvider& provider = trace_payloads();
  ASSERT_FALSE(provider.read(one.event(), 0));
  EXPECT_EQ(gap_text(provider.read(one.event(), 0).error()), "only its hash was kept");
  ASSERT_FALSE(provider.read(one.event(), 1));
  EXPECT_EQ(gap_text(provider.read(one.event(), 1).error()), "only its length was kept");
  // They take none of the event's memory parts from the transfer behind them.
  ASSERT_TRUE(provider.read(one.event(), 2));
  EXPECT_EQ(text_of(*provider.read(one.event(), 2)), "you");
  EXPECT_EQ(provider.known(part_of(format::kInline, 1)), PayloadKnown::bytes);
  EXPECT_EQ(provider.known(part_of(format::kHashOnly, 1)), PayloadKnown::hash);
  EXPECT_EQ(provider.known(part_of(format::kHeaderOnly, 1)), PayloadKnown::length);
}

// As a schedule has them: each long message with its first bytes.
TEST(Payload, the_beginning_of_a_message_is_found_for_each_transfer) {
  format::TransferPart cut = part_of(format::kBeginning, 5000), last = part_of(format::kBeginning, 70);
  cut.kept = 6;
  last.kept = 3;
  last.hash = 42;  // a datagram's
  const OneEvent one({cut, part_of(format::kInline, 2), last}, {"four", "ty", "to", "you"});
  const PayloadProvider& provider = trace_payloads();
  for (const auto& [ordinal, text] : {std::pair(0u, "fourty"), std::pair(1u, "to"), std::pair(2u, "you")}) {
    ASSERT_TRUE(provider.read(one.event(), ordinal));
    EXPECT_EQ(text_of(*provider.read(one.event(), ordinal)), text);
  }
  EXPECT_EQ(provider.known(cut), PayloadKnown::length);
  EXPECT_EQ(provider.known(last), PayloadKnown::hash);
}

TEST(Payload, a_representation_that_nobody_serves_is_a_gap_too) {
  for (const uint8_t number : {uint8_t{0}, uint8_t{format::kPeerReference}, uint8_t{8}, uint8_t{255}}) {
    format::TransferPart part = part_of(format::kInline, 4);
    part.representation = number;
    const OneEvent one({part}, {"data"});
    EXPECT_EQ(trace_payloads().known(part), PayloadKnown::length);
    const PayloadAnswer answer = trace_payloads().read(one.event(), 0);
    ASSERT_FALSE(answer) << unsigned{number};
    EXPECT_EQ(answer.error(), PayloadGap::unknown_representation);
  }
}

// The bytes stand somewhere else, except for the first three.
class Elsewhere : public PayloadSource {
 public:
  explicit Elsewhere(std::string rest) : rest_(std::move(rest)) {}
  PayloadKnown known(const format::TransferPart&) const override { return PayloadKnown::bytes; }
  uint64_t bytes_in_event(const format::TransferPart&) const override { return 3; }
  PayloadAnswer read(const format::TransferPart&, Payload head) const override {
    head.pieces.push_back(std::as_bytes(std::span(rest_)));
    return head;
  }

 private:
  std::string rest_;
};

TEST(Payload, a_new_representation_is_one_source_and_who_asks_sees_no_difference) {
  PayloadProvider provider;
  provider.serve(format::kFileReference, std::make_shared<Elsewhere>("lo, world"));
  const OneEvent one({part_of(format::kFileReference, 12), part_of(format::kInline, 3)}, {"hel", "you"});
  const PayloadAnswer first = provider.read(one.event(), 0), second = provider.read(one.event(), 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(text_of(*first), "hello, world");
  ASSERT_TRUE(second);
  EXPECT_EQ(text_of(*second), "you");
  EXPECT_FALSE(trace_payloads().read(one.event(), 0));
}

}  // namespace
}  // namespace friday
