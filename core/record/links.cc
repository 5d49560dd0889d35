#include "core/record/links.h"

#include <algorithm>

namespace friday {
namespace {

// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): each bit of the result depends on every bit of the input.
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

uint32_t number_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; i++) number = number << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return number;
}

}  // namespace

Links::Links(size_t hosts, const LinkDefaults& defaults, uint64_t seed)
    : hosts_(hosts), defaults_(defaults), seed_(seed), links_(hosts * hosts) {
  for (Link& link : links_) link.does = defaults;
}

void Links::apply(const LinkChange& change) {
  if (change.from >= hosts_ || change.to >= hosts_) return;
  Link& link = at(change.from, change.to);
  switch (change.kind) {
    case LinkChange::Kind::cut: link.cut = true; break;
    case LinkChange::Kind::heal:
      link.cut = false;
      link.does = defaults_;
      break;
    case LinkChange::Kind::delay:
      link.does.delay_ns = change.delay_ns;
      link.does.jitter_ns = change.jitter_ns;
      break;
    case LinkChange::Kind::loss: link.does.percent = change.percent; break;
  }
}

double Links::draw(uint32_t from, uint32_t to, uint64_t packet, uint64_t question) const {
  const uint64_t link = mixed(seed_ ^ mixed(uint64_t{from} << 32 | to));
  return static_cast<double>(mixed(link ^ mixed(packet * 2 + question)) >> 11) * 0x1p-53;
}

std::optional<int64_t> Links::due(uint32_t from, uint32_t to, int64_t now_ns) {
  Link& link = at(from, to);
  const uint64_t packet = link.packets++;
  if (link.cut) return std::nullopt;
  if (link.does.percent > 0 && draw(from, to, packet, 0) * 100 < link.does.percent) return std::nullopt;
  int64_t due_ns = now_ns + link.does.delay_ns;
  if (link.does.jitter_ns > 0)
    due_ns += static_cast<int64_t>(draw(from, to, packet, 1) * static_cast<double>(link.does.jitter_ns));
  return link.last_due_ns = std::max(link.last_due_ns, due_ns);
}

std::optional<uint32_t> destination_of(std::span<const std::byte> frame, uint32_t first_address, size_t hosts,
                                       uint32_t broadcast) {
  constexpr size_t kType = 12, kDestination = 14 + 16, kLeast = 14 + 20;  // of Ethernet and of IPv4 behind it
  if (frame.size() < kLeast || frame[kType] != std::byte{0x08} || frame[kType + 1] != std::byte{0x00}) return {};
  const uint32_t address = number_at(frame, kDestination);
  if (address == broadcast || address == ~0u || address >> 28 == 0xe) return kEveryHost;
  if (address < first_address || address - first_address >= hosts) return {};
  return address - first_address;
}

}  // namespace friday
