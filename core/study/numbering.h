// Consecutive numbers for keys, in the order in which these come. It is for the words of messages, of which a run has
// as many as events: a hash table without an allocation for each key, since those took more time than what was counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace friday {

class Numbering {
 public:
  explicit Numbering(size_t expected = 0) {
    size_t size = kLeast;
    while (size < 2 * expected) size *= 2;
    table_.resize(size, kFree);
    keys_.reserve(expected);
  }

  // The number of the key, which is the next one if the key is new.
  uint32_t operator()(uint64_t key) {
    uint32_t* place = place_of(key);
    if (*place != kFree) return *place;
    if (2 * (keys_.size() + 1) > table_.size()) {
      grow();
      place = place_of(key);
    }
    *place = static_cast<uint32_t>(keys_.size());
    keys_.push_back(key);
    return *place;
  }
  size_t count() const { return keys_.size(); }

 private:
  static constexpr size_t kLeast = 16;
  static constexpr uint32_t kFree = ~uint32_t{0};

  uint32_t* place_of(uint64_t key) {
    const size_t mask = table_.size() - 1;
    size_t at = mixed(key) & mask;
    while (table_[at] != kFree && keys_[table_[at]] != key) at = (at + 1) & mask;
    return &table_[at];
  }

  // The finalizer of MurmurHash3, which spreads keys that differ in a few bits.
  static uint64_t mixed(uint64_t key) {
    key = (key ^ key >> 33) * 0xff51afd7ed558ccd;
    key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53;
    return key ^ key >> 33;
  }

  void grow() {
    table_.assign(2 * table_.size(), kFree);
    for (uint32_t i = 0; i < keys_.size(); i++) *place_of(keys_[i]) = i;
  }

  std::vector<uint32_t> table_;  // numbers, by hash; kFree
  std::vector<uint64_t> keys_;
};

}  // namespace friday
