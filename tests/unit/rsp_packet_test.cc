// Framing, byte by byte.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "core/rsp/packet.h"
#include "core/rsp/registers.h"
#include "core/rsp/signals.h"
#include "core/rsp/text.h"

#include <signal.h>

namespace friday {
namespace {

using Kind = PacketEvent::Kind;

std::vector<PacketEvent> read_all(PacketReader& reader, std::string_view bytes, size_t piece) {
  std::vector<PacketEvent> events;
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    while (auto event = reader.next(part)) events.push_back(*event);
    EXPECT_TRUE(part.empty());
  }
  return events;
}

std::vector<PacketEvent> read_all(std::string_view bytes, size_t piece = 1, size_t limit = 1000) {
  PacketReader reader(limit);
  return read_all(reader, bytes, piece);
}

TEST(RspPacket, KnownBytes) {
  EXPECT_EQ(encode_packet("", false), "$#00");
  EXPECT_EQ(encode_packet("OK", false), "$OK#9a");
  EXPECT_EQ(encode_packet("a$b#c}d*e", false),
            "$a}\x04"
            "b}\x03"
            "c}]d}\x0a"
            "e#" +
                std::string("51"));
}

TEST(RspPacket, ReadsPacketsInPiecesOfAnySize) {
  std::string wire = "+$m4000,8#95\x03-junk$X1,2:a}\x03#02$#00";
  for (size_t piece : {1u, 2u, 3u, 7u, 100u}) {
    auto events = read_all(wire, piece);
    ASSERT_EQ(events.size(), 6u) << piece;
    EXPECT_EQ(events[0].kind, Kind::ack);
    EXPECT_EQ(events[1].kind, Kind::packet);
    EXPECT_EQ(events[1].payload, "m4000,8");
    EXPECT_EQ(events[2].kind, Kind::interrupt);
    EXPECT_EQ(events[3].kind, Kind::nack);
    EXPECT_EQ(events[4].kind, Kind::packet);
    EXPECT_EQ(events[4].payload, "X1,2:a#");
    EXPECT_EQ(events[5].payload, "");
  }
}

TEST(RspPacket, InterruptByteInsideAPacketIsData) {
  auto events = read_all(std::string("$X\x03#5b"));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::packet);
  EXPECT_EQ(events[0].payload, "X\x03");
}

TEST(RspPacket, BadChecksumsAndGarbage) {
  EXPECT_EQ(read_all("$OK#9b")[0].kind, Kind::bad_checksum);
  EXPECT_EQ(read_all("$OK#zz")[0].kind, Kind::bad_checksum);
  EXPECT_TRUE(read_all("OK#9a\n\r\xff#00").empty());
  EXPECT_TRUE(read_all("$never ends").empty());
  auto restarted = read_all("$half of it$OK#9a");
  ASSERT_EQ(restarted.size(), 1u);
  EXPECT_EQ(restarted[0].payload, "OK");
}

TEST(RspPacket, TooLongPacketsAreDroppedAndTheNextOneIsRead) {
  auto events = read_all("$" + std::string(5000, 'a') + "#00$OK#9a", 64, 1000);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::oversized);
  EXPECT_EQ(events[1].payload, "OK");
}

// What gdb does with a reply: undo the run lengths, then the escapes.
std::string decode_like_gdb(std::string_view wire) {
  std::string expanded;
  std::string_view body = wire.substr(1, wire.size() - 4);
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '*') expanded += body[i];
    else expanded.append(static_cast<size_t>(static_cast<uint8_t>(body[++i]) - 29), expanded.back());
  }
  std::string plain;
  for (size_t i = 0; i < expanded.size(); ++i)
    plain += expanded[i] == '}' ? static_cast<char>(expanded[++i] ^ 0x20) : expanded[i];
  return plain;
}

TEST(RspPacket, RunLengthsAreLosslessAndHideNoFraming) {
  EXPECT_EQ(encode_packet("0000", true), "$0* #7a");
  for (size_t run = 1; run < 320; ++run) {
    for (char c : {'0', '}', '$', 'x'}) {
      std::string payload = "ab" + std::string(run, c) + "cd";
      std::string wire = encode_packet(payload, true);
      ASSERT_EQ(decode_like_gdb(wire), payload) << run;
      ASSERT_EQ(wire.find('#'), wire.size() - 3) << run;
      ASSERT_EQ(wire.rfind('$'), 0u) << run;
    }
  }
}

TEST(RspPacket, RoundTripsAllBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::string payload(random() % 300, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    auto events = read_all(encode_packet(payload, false), 1 + random() % 9);
    ASSERT_EQ(events.size(), 1u);
    ASSERT_EQ(events[0].kind, Kind::packet);
    ASSERT_EQ(events[0].payload, payload);
  }
}

TEST(RspPacket, NoiseNeverBreaksTheReader) {
  std::mt19937 random(2);
  PacketReader reader(100);
  for (int round = 0; round < 2000; ++round) {
    std::string noise(random() % 50, '\0');
    for (char& c : noise)
      c = "$#}*+-\x03"
          "09afz\xff"[random() % 13];
    read_all(reader, noise, 1 + random() % 5);
  }
  read_all(reader, "$#", 1);
  read_all(reader, "00", 1);  // whatever state the noise left behind ends here
  auto events = read_all(reader, "$OK#9a", 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].payload, "OK");
}

TEST(RspText, HexAndCursor) {
  EXPECT_EQ(to_hex(std::string_view("\x00\xff", 2)), "00ff");
  EXPECT_FALSE(from_hex("abc"));
  EXPECT_FALSE(from_hex("zz"));
  EXPECT_EQ(from_hex("00fF")->at(1), std::byte{0xff});
  TextCursor cursor("deadbeef,10:rest");
  EXPECT_EQ(cursor.hex(), 0xdeadbeefu);
  EXPECT_FALSE(cursor.hex());
  EXPECT_TRUE(cursor.take(","));
  EXPECT_EQ(cursor.until(':'), "10");
  EXPECT_FALSE(cursor.chars(5));
  EXPECT_EQ(cursor.chars(4), "rest");
  EXPECT_TRUE(cursor.at_end());
  EXPECT_FALSE(TextCursor("12345678901234567").hex());
  EXPECT_EQ(TextCursor("ffffffffffffffff").hex(), ~0ull);
}

TEST(RspSignals, BothWays) {
  EXPECT_EQ(gdb_signal(SIGUSR1), 30);
  EXPECT_EQ(gdb_signal(SIGBUS), 10);
  EXPECT_EQ(gdb_signal(34), 46);
  EXPECT_EQ(gdb_signal(16), 143);  // SIGSTKFLT has no number in gdb
  EXPECT_EQ(linux_signal(0), 0);
  EXPECT_EQ(linux_signal(143), 0);
  for (int number = 1; number <= 64; ++number) {
    if (gdb_signal(number) != 143) {
      EXPECT_EQ(linux_signal(gdb_signal(number)), number);
    }
  }
}

TEST(RspRegisters, SizesFollowTheDescription) {
  const std::string& xml = target_description();
  unsigned count = 0;
  for (size_t at = 0; (at = xml.find("regnum=\"", at)) != xml.npos; ++at) {
    EXPECT_EQ(std::stoul(xml.substr(at + 8)), count++);
  }
  EXPECT_EQ(count, static_cast<unsigned>(kRegisterCount));
  EXPECT_EQ(register_size(kRegisterCount), 0u);
}

TEST(RspRegisters, SetsAndReadsEveryRegister) {
  RegisterFile file;
  file.extended.resize(832);
  for (unsigned number = 0; number < kRegisterCount; ++number) {
    std::vector<std::byte> value(register_size(number));
    // Control registers are narrower than gdb shows them: only their low bytes exist.
    bool control = number >= 32 && number < 40;
    for (size_t i = 0; i < (control ? 1 : value.size()); ++i) value[i] = static_cast<std::byte>(number + i + 1);
    if (number == 34) value = {std::byte{0xff}, std::byte{0xff}, std::byte{0}, std::byte{0}};  // all empty
    ASSERT_TRUE(file.set(number, value)) << number;
    std::string text;
    file.append(text, number);
    EXPECT_EQ(text, to_hex(value)) << number;
    EXPECT_FALSE(file.set(number, std::span(value).first(1))) << number;
  }
}

TEST(RspRegisters, WithoutExtendedStateTheyAreUnavailable) {
  RegisterFile file;
  std::string text;
  file.append(text, 40);
  EXPECT_EQ(text, std::string(32, 'x'));
  file.extended.resize(576);
  text.clear();
  file.append(text, kRegisterFirstYmmHigh);
  EXPECT_EQ(text, std::string(32, 'x'));
}

TEST(RspRegisters, TagsOfARotatedStack) {
  RegisterFile file;
  file.extended.resize(832);
  file.extended[3] = std::byte{0x30};  // top of stack: physical register 6
  file.extended[4] = std::byte{0xc0};  // registers 6 and 7 in use: st0 and st1
  file.extended[32 + 7] = std::byte{0x80};
  file.extended[32 + 8] = std::byte{0xff};
  file.extended[32 + 9] = std::byte{0x3f};  // st0 = 1.0, st1 = 0.0
  std::string text;
  file.append(text, 34);
  EXPECT_EQ(text, "ff4f0000");  // physical 7 (st1): zero = 1, physical 6 (st0): valid = 0, the others empty = 3
}

TEST(RspRegisters, InitialStateIsFilledIn) {
  std::vector<std::byte> area(832, std::byte{0xee});
  memset(&area[512], 0, 8);
  fill_initial_state(area);
  EXPECT_EQ(area[0], std::byte{0x7f});
  EXPECT_EQ(area[1], std::byte{0x03});
  EXPECT_EQ(area[32], std::byte{0});
  EXPECT_EQ(area[160], std::byte{0});
  EXPECT_EQ(area[576], std::byte{0});
  EXPECT_EQ(area[24], std::byte{0xee});  // mxcsr is always stored
}

}  // namespace
}  // namespace friday
