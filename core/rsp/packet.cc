#include "core/rsp/packet.h"

#include <algorithm>

#include "core/rsp/text.h"

namespace friday {
namespace {

constexpr uint8_t kEscape = '}', kEscapeFlip = 0x20, kInterrupt = 0x03;

bool needs_escape(char c) { return c == '$' || c == '#' || c == '}' || c == '*'; }

// How many repetitions of a character the next run can encode. The count is sent as the printable character 29 + count,
// at most '~', and must not be '#' or '$', which would look like framing.
size_t usable_repeats(size_t repeats) {
  constexpr size_t kBase = 29, kMost = '~' - kBase;
  repeats = std::min(repeats, kMost);
  if (repeats + kBase == '#' || repeats + kBase == '$') repeats = '"' - kBase;
  return repeats;
}

}  // namespace

std::optional<PacketEvent> PacketReader::next(std::string_view& bytes) {
  while (!bytes.empty()) {
    auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    if (auto event = take(byte)) return event;
  }
  return {};
}

void PacketReader::append(uint8_t byte) {
  if (payload_.size() < limit_) payload_ += static_cast<char>(byte);
  else too_long_ = true;
}

std::optional<PacketEvent> PacketReader::take_idle(uint8_t byte) {
  switch (byte) {
    case kInterrupt: return PacketEvent{PacketEvent::Kind::interrupt};
    case '+': return PacketEvent{PacketEvent::Kind::ack};
    case '-': return PacketEvent{PacketEvent::Kind::nack};
    default: return {};
  }
}

std::optional<PacketEvent> PacketReader::take(uint8_t byte) {
  if (byte == '$' && state_ != State::checksum_high && state_ != State::checksum_low) {
    payload_.clear();
    too_long_ = false;
    sum_ = 0;
    state_ = State::payload;
    return {};
  }
  switch (state_) {
    case State::idle: return take_idle(byte);
    case State::payload:
      if (byte == '#') {
        state_ = State::checksum_high;
        return {};
      }
      sum_ += byte;
      if (byte == kEscape) state_ = State::escaped;
      else append(byte);
      return {};
    case State::escaped:
      sum_ += byte;
      append(byte ^ kEscapeFlip);
      state_ = State::payload;
      return {};
    case State::checksum_high:
      high_digit_ = static_cast<char>(byte);
      state_ = State::checksum_low;
      return {};
    case State::checksum_low: return finish(byte);
  }
  return {};
}

PacketEvent PacketReader::finish(uint8_t low_digit) {
  state_ = State::idle;
  int high = hex_digit(high_digit_), low = hex_digit(static_cast<char>(low_digit));
  std::string payload = std::move(payload_);
  payload_.clear();
  if (too_long_) return {PacketEvent::Kind::oversized};
  bool good = high >= 0 && low >= 0 && sum_ == (high << 4 | low);
  return {good ? PacketEvent::Kind::packet : PacketEvent::Kind::bad_checksum, std::move(payload)};
}

std::string encode_packet(std::string_view payload, bool run_length) {
  std::string wire = "$";
  wire.reserve(payload.size() + payload.size() / 16 + 8);
  for (size_t i = 0; i < payload.size();) {
    char c = payload[i];
    if (needs_escape(c)) {
      wire += static_cast<char>(kEscape);
      wire += static_cast<char>(c ^ kEscapeFlip);
      ++i;
      continue;
    }
    wire += c;
    size_t end = i + 1;
    while (run_length && end < payload.size() && payload[end] == c) ++end;
    size_t repeats = usable_repeats(end - i - 1);
    i += 1;
    if (repeats < 3) continue;
    wire += '*';
    wire += static_cast<char>(repeats + 29);
    i += repeats;
  }
  uint8_t sum = 0;
  for (size_t i = 1; i < wire.size(); ++i) sum += static_cast<uint8_t>(wire[i]);
  wire += '#';
  append_hex(wire, {reinterpret_cast<const std::byte*>(&sum), 1});
  return wire;
}

}  // namespace friday
