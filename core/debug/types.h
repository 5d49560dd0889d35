// Types of the program as Python sees them: every type that any plan yielded has an id, unique in the session, and a JSON
// entry. Equal types have equal ids, whichever plan they came with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/stop/plan.h"

namespace friday {

class TypeRegistry {
 public:
  // Registers type `index` of a plan, with all it refers to.
  uint32_t add(const ExpressionPlan& plan, uint32_t index);
  // {"types": {ID: ENTRY}} with the entry of `id` and of what it refers to; empty for an unknown id.
  std::string table(uint32_t id) const;
  uint64_t size_of(uint32_t id) const { return entries_.at(id - 1).size; }
  size_t count() const { return entries_.size(); }

 private:
  struct Entry {
    std::string json;
    std::vector<uint32_t> refers;
    uint64_t size;
  };
  uint32_t intern(std::string json, std::vector<uint32_t> refers, uint64_t size);

  std::vector<Entry> entries_;           // id - 1
  std::map<std::string, uint32_t> ids_;  // by JSON
};

}  // namespace friday
