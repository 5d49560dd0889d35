#include "core/cut/sparse_set.h"

namespace friday::cut {

bool SparseSet::insert(uint32_t number) {
  const uint32_t place = number / kBits;
  const size_t at = find(place, 0);
  if (at == places_.size() || places_[at] != place) {
    places_.insert(places_.begin() + static_cast<std::ptrdiff_t>(at), place);
    blocks_.insert(blocks_.begin() + static_cast<std::ptrdiff_t>(at), Block{});
  }
  uint64_t& word = blocks_[at][word_of(number)];
  const bool is_new = (word & bit_of(number)) == 0;
  word |= bit_of(number);
  return is_new;
}

bool SparseSet::add(const SparseSet& other) {
  if (empty()) {
    *this = other;
    return !empty();
  }
  return add_blocks(other.places_, other.blocks_);
}

bool SparseSet::add_blocks(const std::vector<uint32_t>& places, const std::vector<Block>& blocks) {
  size_t missing = 0, at = 0;
  uint64_t added = 0;
  for (size_t i = 0; i < places.size(); i++) {
    at = find(places[i], at);
    if (at == places_.size() || places_[at] != places[i]) {
      missing++;
      continue;
    }
    for (uint32_t word = 0; word < kWords; word++) {
      added |= blocks[i][word] & ~blocks_[at][word];
      blocks_[at][word] |= blocks[i][word];
    }
  }
  if (missing > 0) merge_from_the_end(places, blocks, missing);
  return missing > 0 || added != 0;
}

// Puts in the blocks that are missing; the others are there.
void SparseSet::merge_from_the_end(const std::vector<uint32_t>& places, const std::vector<Block>& blocks,
                                   size_t missing) {
  size_t mine = places_.size(), theirs = places.size(), to = mine + missing;
  places_.resize(to);
  blocks_.resize(to);
  while (theirs > 0 && to > mine) {
    if (mine > 0 && places_[mine - 1] >= places[theirs - 1]) {
      theirs -= places_[mine - 1] == places[theirs - 1] ? 1 : 0;
      places_[--to] = places_[--mine];
      blocks_[to] = blocks_[mine];
    } else {
      places_[--to] = places[--theirs];
      blocks_[to] = blocks[theirs];
    }
  }
}

bool SparseSet::add_unknown(const SparseSet& other, const SparseSet& known) {
  static thread_local std::vector<uint32_t> places;
  static thread_local std::vector<Block> blocks;
  places.clear();
  blocks.clear();
  size_t at = 0;
  for (size_t i = 0; i < other.places_.size(); i++) {
    at = known.find(other.places_[i], at);
    Block left = other.blocks_[i];
    uint64_t any = 0;
    const bool has = at < known.places_.size() && known.places_[at] == other.places_[i];
    for (uint32_t word = 0; word < kWords; word++) {
      if (has) left[word] &= ~known.blocks_[at][word];
      any |= left[word];
    }
    if (any == 0) continue;
    places.push_back(other.places_[i]);
    blocks.push_back(left);
  }
  if (places.empty()) return false;
  if (!empty()) return add_blocks(places, blocks);
  places_ = places;
  blocks_ = blocks;
  return true;
}

bool SparseSet::includes(const SparseSet& other) const {
  size_t at = 0;
  for (size_t i = 0; i < other.places_.size(); i++) {
    at = find(other.places_[i], at);
    if (at == places_.size() || places_[at] != other.places_[i]) return false;
    for (uint32_t word = 0; word < kWords; word++)
      if ((other.blocks_[i][word] & ~blocks_[at][word]) != 0) return false;
  }
  return true;
}

bool SparseSet::intersects(const SparseSet& other) const {
  size_t at = 0;
  for (size_t i = 0; i < other.places_.size() && at < places_.size(); i++) {
    at = find(other.places_[i], at);
    if (at == places_.size() || places_[at] != other.places_[i]) continue;
    for (uint32_t word = 0; word < kWords; word++)
      if ((other.blocks_[i][word] & blocks_[at][word]) != 0) return true;
  }
  return false;
}

uint64_t SparseSet::hash() const {
  uint64_t hash = places_.size();
  const auto mix = [&](uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  };
  for (size_t at = 0; at < places_.size(); at++) {
    mix(places_[at]);
    for (uint64_t word : blocks_[at]) mix(word);
  }
  return hash;
}

}  // namespace friday::cut
