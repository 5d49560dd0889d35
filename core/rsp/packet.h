// Framing of the GDB Remote Serial Protocol: `$payload#checksum`, acknowledgements, and the interrupt byte. Pure byte
// shuffling: no I/O, any thread, one reader a connection.
//
// A PacketReader takes bytes in pieces of any size and yields what they hold. It trusts nothing: what is not part of a
// packet is skipped, a packet longer than the limit is swallowed up to its end and reported as oversized, and a `$`
// inside a packet (which a correct peer escapes) starts a new one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace friday {

struct PacketEvent {
  enum class Kind {
    packet,        // `payload`, unescaped
    bad_checksum,  // `payload` as it came; in no-ack mode a client never repeats it, so it may as well be used
    oversized,     // a packet beyond the limit was dropped
    interrupt,     // the byte 0x03 between packets
    ack,           // '+'
    nack,          // '-': the peer wants the last packet again
  };
  Kind kind;
  std::string payload{};
};

class PacketReader {
 public:
  explicit PacketReader(size_t limit) : limit_(limit) {}

  // Consumes bytes from the front of `bytes` up to and including the next event; empty when more bytes are needed.
  std::optional<PacketEvent> next(std::string_view& bytes);

 private:
  enum class State { idle, payload, escaped, checksum_high, checksum_low };

  std::optional<PacketEvent> take(uint8_t byte);
  std::optional<PacketEvent> take_idle(uint8_t byte);
  PacketEvent finish(uint8_t low_digit);
  void append(uint8_t byte);

  size_t limit_;
  State state_ = State::idle;
  std::string payload_;
  bool too_long_ = false;
  uint8_t sum_ = 0;
  char high_digit_ = 0;
};

// The bytes on the wire for `payload`. `run_length` shortens runs of four and more equal characters ("0* " is four
// zeros), which gdb always accepts from a stub; a stub must not expect it from gdb.
std::string encode_packet(std::string_view payload, bool run_length);

}  // namespace friday
