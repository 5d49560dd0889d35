// Reads what a group file says of networks and faults: [network], the events that happen to it, and [faults].
// docs/record.md documents the keys. All of it is read behind the nodes, whose names it uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <toml++/toml.h>

#include "core/base/error.h"
#include "core/record/group_spec.h"

namespace friday {

// Gives each node of the group a host with an address.
Result<void> read_network(const std::string& path, const toml::table& table, GroupSpec& group);

// Whether the key of an [[event]] names something that happens to the network: partition, heal, delay or loss.
bool is_network_event(std::string_view key);
// Reads the value of such a key into `event`.
Result<void> read_network_event(const std::string& path, const toml::node& node, std::string_view key,
                                const GroupSpec& group, EventSpec& event);

// Sets what the table does not say to the defaults. The table [group] must have been read before.
Result<void> read_random_faults(const std::string& path, const toml::table& table, GroupSpec& group);

// A seed from 0 to 2^63 - 1; none if the text is no such number.
std::optional<uint64_t> parse_seed(const std::string& text);

// Fails if a text of the file has {address:NODE} for a node that has no address.
Result<void> check_addresses(const std::string& path, const toml::table& document, const GroupSpec& group);

}  // namespace friday
