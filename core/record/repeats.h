// Finds, block by block, what programs receive for the second time and more often, and keeps it once
// (core/trace/kept_once.h). Only whole memory parts of events are compared: a program that reads a file again usually
// reads it in the same steps. Owned by the packer's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/trace/kept_once.h"
#include "core/trace/left_out.h"

namespace friday {

class Repeats {
 public:
  // `recording`: its directory. `uuid`: of the file there that holds what is found.
  Repeats(std::string recording, const Uuid& uuid);

  // What of a block of whole records, which begins at `offset` in its trace, is kept once already, but for what
  // overlaps with `left_out`; in rising order. What is found is on the disk. Finds nothing more after a failure to
  // store.
  std::vector<LeftOut> find(std::span<const std::byte> block, uint64_t offset, std::span<const LeftOut> left_out);
  uint64_t bytes() const { return kept_ ? kept_->bytes() : 0; }  // that are stored

 private:
  static constexpr uint64_t kLeast = 1024;      // bytes of a part that is worth it
  static constexpr size_t kMostSeen = 1 << 20;  // parts that are remembered as seen once

  using Hash = std::pair<uint64_t, uint64_t>;  // XXH3-128, with a seed that senders of crafted bytes do not know
  struct HashOfHash {
    size_t operator()(const Hash& hash) const { return hash.first; }
  };

  std::optional<uint64_t> piece(std::span<const std::byte> bytes);

  std::string recording_;
  Uuid uuid_;
  std::optional<KeptOnceWriter> kept_;
  bool failed_ = false;
  uint64_t seed_ = 0;
  std::unordered_set<uint64_t> seen_;
  std::unordered_map<Hash, uint64_t, HashOfHash> pieces_;  // their numbers
};

}  // namespace friday
