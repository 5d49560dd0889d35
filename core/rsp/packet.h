// Framing of the GDB remote serial protocol: `$payload#checksum`, acknowledgements, and the interrupt byte. No I/O; any
// thread; use one reader for each connection.
//
// A PacketReader accepts bytes in pieces of any size and returns the events in them. Input is not trusted: bytes
// outside packets are skipped, a packet longer than the limit is consumed and reported as oversized, and an unescaped
// `$` inside a packet starts a new packet.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace friday {

struct PacketEvent {
  enum class Kind {
    packet,  // `payload`, unescaped
    // `payload` as received; in no-ack mode a client never repeats a packet, so the payload may as well be used
    bad_checksum,
    oversized,  // a packet longer than the limit was dropped
    interrupt,  // the byte 0x03 between packets
    ack,        // '+'
    nack,       // '-': the peer requests the last packet again
  };
  Kind kind;
  std::string payload{};
};

class PacketReader {
 public:
  explicit PacketReader(size_t limit) : limit_(limit) {}

  // Removes bytes from the front of `bytes` up to and including the next event. Empty if more bytes are needed.
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

// Encodes `payload` for the wire. `run_length` abbreviates runs of four or more equal characters ("0* " is four zeros).
// gdb always accepts that in replies, but never sends it.
std::string encode_packet(std::string_view payload, bool run_length);

}  // namespace friday
