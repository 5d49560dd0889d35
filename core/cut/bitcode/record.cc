#include "core/cut/bitcode/record.h"

#include <cstring>

namespace friday::cut {

uint64_t checksum_of(std::string_view bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (; bytes.size() >= sizeof sum; bytes.remove_prefix(sizeof sum)) {
    uint64_t word;
    memcpy(&word, bytes.data(), sizeof word);
    sum = (sum ^ word) * 0x100000001b3;
    sum ^= sum >> 32;
  }
  for (const char each : bytes) sum = (sum ^ static_cast<uint8_t>(each)) * 0x100000001b3;
  return sum;
}

std::string encode(const Record& record) {
  std::string text;
  const auto add = [&](const std::string& each) { text.append(each).push_back('\0'); };
  add(record.source);
  add(record.directory);
  for (const std::string& argument : record.arguments) add(argument);
  RecordHead head{};
  memcpy(head.magic, kMagic.data(), kMagic.size());
  head.record_bytes = sizeof head + text.size() + record.stored.size();
  head.kind = static_cast<uint32_t>(record.kind);
  head.text_bytes = static_cast<uint32_t>(text.size());
  head.stored_bytes = record.stored.size();
  head.plain_bytes = record.plain_bytes;
  memcpy(head.fingerprint, record.fingerprint.data(), record.fingerprint.size());
  const std::string body = text + record.stored;
  head.checksum = checksum_of(body);
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + body;
}

std::string fingerprint_text(const Record& record) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : record.fingerprint) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace friday::cut
