// The faults of a group's network, as values: which links between hosts are cut, lose packets or delay them, and what
// becomes of each packet. A link is one direction, from one host to another. Hosts are numbers from 0, in the order of
// the group file. No input and no output: relay.h carries the packets. For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace friday {

// A change of one link. It is sent to the relay's process as these bytes.
struct LinkChange {
  enum class Kind : uint32_t { cut, heal, delay, loss };
  Kind kind = Kind::cut;
  uint32_t from = 0, to = 0;
  int64_t delay_ns = 0, jitter_ns = 0;  // for `delay`: each packet takes delay_ns, and up to jitter_ns more
  double percent = 0;                   // for `loss`: 0 to 100
};

// What a link does when it is healed.
struct LinkDefaults {
  int64_t delay_ns = 0, jitter_ns = 0;
  double percent = 0;
};

class Links {
 public:
  // `seed` decides which packets are lost, and how long a delay with jitter is: the n-th packet of a link has the same
  // fate with the same seed.
  Links(size_t hosts, const LinkDefaults& defaults, uint64_t seed);

  void apply(const LinkChange& change);

  // What becomes of the next packet of a link at the time `now_ns`: when it is to be delivered, or nothing if it is
  // lost. Packets of one link never overtake each other.
  std::optional<int64_t> due(uint32_t from, uint32_t to, int64_t now_ns);

  bool is_cut(uint32_t from, uint32_t to) const { return at(from, to).cut; }

 private:
  struct Link {
    bool cut = false;
    LinkDefaults does;
    uint64_t packets = 0;  // that asked for their fate
    int64_t last_due_ns = 0;
  };
  Link& at(uint32_t from, uint32_t to) { return links_[from * hosts_ + to]; }
  const Link& at(uint32_t from, uint32_t to) const { return links_[from * hosts_ + to]; }
  // A number from 0 to below 1 that depends on the seed, the link, its packet and `question` only.
  double draw(uint32_t from, uint32_t to, uint64_t packet, uint64_t question) const;

  size_t hosts_;
  LinkDefaults defaults_;
  uint64_t seed_;
  std::vector<Link> links_;
};

// The number of the host for which an Ethernet frame is, where host i has the IPv4 address `first_address` + i (in host
// byte order). kEveryHost for broadcast and multicast; nothing if no host has the address, or the frame is not IPv4.
inline constexpr uint32_t kEveryHost = ~0u;
std::optional<uint32_t> destination_of(std::span<const std::byte> frame, uint32_t first_address, size_t hosts,
                                       uint32_t broadcast);

}  // namespace friday
