// Types of the program as Python sees them: every type that any plan yielded has an id, unique in the session, and a
// JSON entry. Equal types have equal ids, whichever plan they came with. A class that holds itself through a container
// is an entry of kind "forward" where it is met again: it stands for the struct of that name, size and "layout" in the
// same table.
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
  std::optional<uint64_t> address;  // where it is an object in memory
};

class TypeRegistry {
 public:
  // Registers type `index` of a plan, with all it refers to.
  uint32_t add(const ExpressionPlan& plan, uint32_t index) {
    Walk walk{plan, {}, {}};
    return add(walk, index);
  }
  // {"types": {ID: ENTRY}} with the entry of `id` and of what it refers to; empty for an unknown id.
  std::string table(uint32_t id) const;
  uint64_t size_of(uint32_t id) const { return entries_.at(id - 1).size; }
  const std::string& name_of(uint32_t id) const { return entries_.at(id - 1).name; }
  // Whether a value is true in a condition of C or C++; none for what has no truth, as a struct. A std::atomic is what
  // it holds.
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
    std::set<uint32_t> open;            // indexes on the way from the first one
  };
  uint32_t add(Walk& walk, uint32_t index);
  uint32_t add_forward(const ExpressionPlan& plan, const PlanType& type);
  uint32_t intern(std::string json, std::vector<uint32_t> refers, uint64_t size, std::string name = {},
                  Truth truth = Truth::none);

  std::vector<Entry> entries_;           // id - 1
  std::map<std::string, uint32_t> ids_;  // by JSON
};

}  // namespace friday
