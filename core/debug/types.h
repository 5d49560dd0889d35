// The types of the program, for Python. Every type of every plan has an id that is unique in the session, and an entry
// in JSON. Equal types have equal ids, whichever plan they come from. If a class contains itself through a container,
// its inner occurrence is an entry of kind "forward", which refers to the struct with this name, size and "layout" in
// the same table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/stop/plan.h"

namespace friday {

// A value read from a node.
struct RawValue {
  uint32_t type = 0;  // id in the TypeRegistry
  std::vector<std::byte> bytes;
  std::optional<uint64_t> address;  // none if the value is not an object in memory
};

class TypeRegistry {
 public:
  // Registers type `index` of a plan, with all types that it refers to, and returns its id.
  uint32_t add(const ExpressionPlan& plan, uint32_t index) {
    Walk walk{plan, {}, {}};
    return add(walk, index);
  }
  // {"types": {ID: ENTRY}} with the entries of `id` and of all types that it refers to; empty for an unknown id.
  std::string table(uint32_t id) const;
  uint64_t size_of(uint32_t id) const { return entries_.at(id - 1).size; }
  const std::string& name_of(uint32_t id) const { return entries_.at(id - 1).name; }
  // Whether a value is true as a condition in C or C++; none if its type cannot be a condition, for example a struct. A
  // std::atomic is treated like the value that it contains.
  std::optional<bool> truth_of(uint32_t id, std::span<const std::byte> value) const;
  size_t count() const { return entries_.size(); }

 private:
  enum class Truth : uint8_t { none, always, bytes, ieee32, ieee64, ieee128, x87 };  // how a value is compared with 0
  static Truth truth_in(const PlanType& type);
  struct Entry {
    std::string json;
    std::vector<uint32_t> refers;
    uint64_t size;
    std::string name;
    Truth truth = Truth::none;
  };
  struct Walk {
    const ExpressionPlan& plan;
    std::map<uint32_t, uint32_t> done;  // index -> id
    std::set<uint32_t> open;            // types that contain the current one
  };
  uint32_t add(Walk& walk, uint32_t index);
  uint32_t add_forward(const ExpressionPlan& plan, const PlanType& type);
  uint32_t intern(std::string json, std::vector<uint32_t> refers, uint64_t size, std::string name = {},
                  Truth truth = Truth::none);

  std::vector<Entry> entries_;           // indexed by id - 1
  std::map<std::string, uint32_t> ids_;  // by JSON
};

}  // namespace friday
