// Steps of a plan that agent bytecode has no instruction for: checks of containers, searches in trees and hash tables,
// comparisons of texts. core/mi/gdb_layouts.py says what each takes from the stack and puts back. A step fails with
// bad_address and a message that names the container where the expression has no value: an index outside of it, a key
// that it does not hold, an object that is not constructed. The memory is that of a
// recorded program and may be damaged: each search is bounded. Stateless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/base/error.h"
#include "core/stop/memory_reader.h"

namespace friday {

struct PlanStep {
  enum class Kind : uint8_t { span, sane, bounds, require, length, compare, find };
  // Where an object of a class for text has the address of its first character and its length. In libc++ a short text
  // is in the object itself, if `long_bit` of the first byte is not set.
  struct Text {
    uint64_t data = 0, length = 0;
    std::optional<uint8_t> long_bit;
    uint64_t short_data = 0;
    uint64_t size = 0;  // of the object, in bytes
  };
  struct Key {
    uint64_t size = 0;  // of a number, in bytes; 0 for text
    bool is_signed = false;
    std::optional<Text> text;
  };
  struct Found {
    enum class In : uint8_t { tree, hash };
    In in = In::tree;
    Key key;
    uint64_t first = 0;                         // in the object: the address of the tree's root, or of the first node
    uint64_t left = 0, right = 0;               // in a node of a tree: the addresses of its children
    uint64_t item = 0;                          // in a node: the item, which begins with the key
    uint64_t buckets = 0, bucket_count = 0;     // in a hash table
    bool by_value = false;                      // the hash of a number is its value, so its bucket is known
    bool descending = false, repeated = false;  // keys may be repeated
    bool counts = false;  // yields the number of items with the key, instead of the address of the first
  };
  Kind kind = Kind::require;
  std::string of;                          // the container, as the expression names it; for `require` the whole message
  uint64_t size = 1;                       // for `span`: of an item, in bytes
  uint64_t most = 0;                       // for `sane`
  bool end = false;                        // for `bounds`: the index may be the count
  bool only_equal = false;                 // for `compare`: the order of different texts is of no interest
  std::optional<std::string> left, right;  // for `compare`: literals; `left` is also the key that is searched for
  Found found;

  unsigned inputs() const;  // how many values it takes from the stack
};

// Whether a step failed because an object is not constructed, destroyed, damaged, or about to be changed.
bool is_inconsistent(const Error& error);

// Reads the description of a step. Throws nlohmann::json::exception or std::runtime_error if it has another form.
PlanStep parse_step(const nlohmann::json& json);

// Takes a step. `inputs` are inputs() values, the last one from the top of the stack. Returns what it puts back, if
// anything.
Result<std::optional<uint64_t>> take_step(const PlanStep& step, std::span<const uint64_t> inputs, MemoryReader& memory);

}  // namespace friday
