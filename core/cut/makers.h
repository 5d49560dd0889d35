// Finds makers: functions of a program that give their caller new memory and nothing else, as a result or where an
// argument points to. Looks at each function by itself, with what is known of the makers that it calls.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <vector>

#include "core/cut/annotations.h"
#include "core/cut/facts.h"

namespace friday::cut {

// What a maker gives.
struct Makes {
  bool result = false;          // its result is new memory, or one of its arguments
  std::vector<bool> arguments;  // by argument: new memory is stored where it points to, and nothing else is
  bool any() const { return result || std::ranges::find(arguments, true) != arguments.end(); }
};

// By function of the program. `flows_of` and `calls_of` give the flows and calls of a function's body.
std::vector<Makes> find_makers(const Facts& facts, const Annotations& annotations,
                               const std::function<std::span<const Id>(Id)>& flows_of,
                               const std::function<std::span<const Id>(Id)>& calls_of);

}  // namespace friday::cut
