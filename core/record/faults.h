// Faults as events of a group: what a fault between named programs means for the links of their network, and a plan of
// faults that is drawn by chance. Values and pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/record/group_spec.h"

namespace friday {

// From one program to another, by name: one direction.
using NamedLink = std::pair<std::string, std::string>;

// The links in both directions between all programs, which are on different hosts. Programs on one host have none.
std::vector<NamedLink> links_between(const GroupSpec& group, std::span<const std::string> programs);
// The links in both directions between programs of different sides.
std::vector<NamedLink> links_between_sides(std::span<const std::vector<std::string>> sides);

// The host of a program, which must be one of the group.
const std::string& host_of(const GroupSpec& group, const std::string& program);

// An event that changes these links; `change` says how. `programs` and `detail` of the event are set too: `detail` is
// `between` ("n1 | n2") and what the change says ("50 ms").
EventSpec network_event(const GroupSpec& group, std::span<const NamedLink> links, const LinkChange& change,
                        const std::string& between);

// The events of the random faults that the group asks for: each fault and its end (heal, restart, continue), one after
// the other, ordered by time. The same group and seed give the same events, on each machine.
std::vector<EventSpec> draw_faults(const GroupSpec& group, uint64_t seed);

}  // namespace friday
