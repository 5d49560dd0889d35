#include "core/record/group_network.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "core/base/counted.h"
#include "core/record/faults.h"
#include "core/record/placeholders.h"
#include "core/record/toml_reading.h"

namespace friday {
namespace {

using Action = EventSpec::Action;

constexpr double kLongestDelayMs = 600'000;

int64_t nanoseconds(double ms) { return static_cast<int64_t>(ms * 1e6); }

bool is_node(const GroupSpec& group, const std::string& name) {
  return std::ranges::count(group.programs, name, &ProgramSpec::name) > 0;
}

Result<void> check_nodes(const std::string& path, const toml::node& node, std::string_view key, const GroupSpec& group,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (!is_node(group, name))
      return fail(ErrorCode::bad_input, "{}: {} names {}, which is no node of this group", place(path, node), key,
                  name);
  return {};
}

// "10.77.0.0/24".
Result<void> read_subnet(const std::string& path, const toml::node& node, NetworkSpec& network) {
  std::string text;
  FRIDAY_TRY_VOID(read(path, node, "subnet", "a string such as \"10.77.0.0/24\"", text));
  const size_t slash = text.find('/');
  in_addr address{};
  unsigned prefix = 0;
  const char* end = text.data() + text.size();
  const bool parsed = slash != std::string::npos && inet_pton(AF_INET, text.substr(0, slash).c_str(), &address) == 1 &&
                      std::from_chars(text.data() + slash + 1, end, prefix).ptr == end && prefix >= 8 && prefix <= 30;
  if (!parsed)
    return fail(ErrorCode::bad_input,
                "{}: subnet is \"{}\", but must be an IPv4 address and the number of its fixed bits, from 8 to 30: "
                "\"10.77.0.0/24\"",
                place(path, node), text);
  const uint32_t first = ntohl(address.s_addr), kind = first >> 24;
  if ((first & (~0u >> prefix)) != 0)
    return fail(ErrorCode::bad_input, "{}: subnet is \"{}\", but its address must end with {} bits that are 0",
                place(path, node), text, 32 - prefix);
  if (kind == 0 || kind == 127 || kind >= 224)
    return fail(ErrorCode::bad_input, "{}: subnet is \"{}\", whose addresses cannot belong to hosts", place(path, node),
                text);
  network.first_address = first + 1;
  network.prefix = prefix;
  return {};
}

// Nodes that name no host have one of their own, which is called like them.
Result<void> place_nodes(const std::string& path, const toml::table& table, GroupSpec& group) {
  NetworkSpec& network = group.network;
  for (ProgramSpec& program : group.programs) {
    if (program.host.empty()) program.host = program.name;
    if (!std::ranges::count(network.hosts, program.host)) network.hosts.push_back(program.host);
  }
  const size_t room = network.room();
  if (network.hosts.size() > room)
    return fail(ErrorCode::bad_input, "{}: the subnet has addresses for {}, and this group has {}; {}",
                place(path, table), counted(room, "host"), network.hosts.size(),
                room < NetworkSpec::kMostHosts ? "choose a larger one, such as subnet = \"10.77.0.0/16\""
                                               : "let several nodes name the same `host`");
  return {};
}

// What `between`, or `from` and `to`, say.
struct Ends {
  std::vector<std::string> between, from, to;
  bool everywhere() const { return between.empty() && from.empty(); }
};

// Reads a key of a table that may name the ends of links. False if the key is none of those.
Result<bool> read_end(const std::string& path, const toml::node& node, std::string_view key, const GroupSpec& group,
                      Ends& ends) {
  for (auto [name, list] : {std::pair{"between", &ends.between}, {"from", &ends.from}, {"to", &ends.to}}) {
    if (key != name) continue;
    FRIDAY_TRY_VOID(read_names(path, node, key, *list));
    FRIDAY_TRY_VOID(check_nodes(path, node, key, group, *list));
    return true;
  }
  return false;
}

Result<void> check_ends(const std::string& path, const toml::node& node, std::string_view what, const Ends& ends) {
  if (ends.from.empty() == ends.to.empty() && (ends.between.empty() || ends.from.empty()) && ends.between.size() != 1)
    return {};
  return fail(ErrorCode::bad_input,
              "{}: {} says where by between = [\"n1\", \"n2\"], which means both directions between all of them, or by "
              "from = \"n1\" and to = \"n2\", which means one",
              place(path, node), what);
}

std::string joined(const std::vector<std::string>& names, const char* with) {
  return fmt::format("{}", fmt::join(names, with));
}

// The links that the ends mean, and how to call them.
Result<std::vector<NamedLink>> links_of(const std::string& path, const toml::node& node, std::string_view what,
                                        const GroupSpec& group, const Ends& ends, std::string& called) {
  if (ends.everywhere()) {
    std::vector<std::string> all;
    for (const ProgramSpec& program : group.programs) all.push_back(program.name);
    called = "all";
    return links_between(group, all);
  }
  std::vector<NamedLink> links;
  called = ends.from.empty() ? joined(ends.between, " - ") : joined(ends.from, ", ") + " > " + joined(ends.to, ", ");
  for (const std::string& from : ends.from.empty() ? ends.between : ends.from)
    for (const std::string& to : ends.from.empty() ? ends.between : ends.to)
      if (ends.between.empty() || from != to) links.emplace_back(from, to);
  for (const auto& [from, to] : links)
    if (host_of(group, from) == host_of(group, to))
      return fail(ErrorCode::bad_input, "{}: {}: {} and {} are on the same host, so there is no network between them",
                  place(path, node), what, from, to);
  return links;
}

Result<void> read_amount(const std::string& path, const toml::node& node, std::string_view key, Action action,
                         LinkChange& change, bool& said, bool& known) {
  double ms = 0;
  known = true;
  if (action == Action::delay && key == "ms") {
    FRIDAY_TRY_VOID(read_number(path, node, "ms", 0, kLongestDelayMs, ms));
    change.delay_ns = nanoseconds(ms);
    said = true;
  } else if (action == Action::delay && key == "jitter_ms") {
    FRIDAY_TRY_VOID(read_number(path, node, "jitter_ms", 0, kLongestDelayMs, ms));
    change.jitter_ns = nanoseconds(ms);
  } else if (action == Action::loss && key == "percent") {
    FRIDAY_TRY_VOID(read_number(path, node, "percent", 0, 100, change.percent));
    said = true;
  } else {
    known = false;
  }
  return {};
}

const char* keys_of(Action action) {
  if (action == Action::delay) return "between, from, to, ms, jitter_ms";
  if (action == Action::loss) return "between, from, to, percent";
  return "between, from, to";
}

// delay = { between = ["n1", "n2"], ms = 50 }, and the like.
Result<EventSpec> read_change(const std::string& path, const toml::node& node, std::string_view what, Action action,
                              LinkChange change, const GroupSpec& group) {
  Ends ends;
  bool said = action == Action::partition || action == Action::heal;
  for (const auto& [name, value] : *node.as_table()) {
    FRIDAY_TRY(is_end, read_end(path, value, name.str(), group, ends));
    if (is_end) continue;
    bool known = false;
    FRIDAY_TRY_VOID(read_amount(path, value, name.str(), action, change, said, known));
    if (!known)
      return fail(ErrorCode::bad_input, "{}: unknown key \"{}\" of {}; known: {}", place(path, value), name.str(), what,
                  keys_of(action));
  }
  if (!said)
    return fail(ErrorCode::bad_input, "{}: {} does not say how much: add {}", place(path, node), what,
                action == Action::delay ? "ms = 50, the milliseconds that each packet takes"
                                        : "percent = 30, the share of packets that are lost");
  FRIDAY_TRY_VOID(check_ends(path, node, what, ends));
  std::string called;
  FRIDAY_TRY(links, links_of(path, node, what, group, ends, called));
  return network_event(group, links, change, called);
}

// partition = [["n1"], ["n2", "n3"]]
Result<EventSpec> read_sides(const std::string& path, const toml::node& node, const GroupSpec& group) {
  std::vector<std::vector<std::string>> sides;
  std::vector<std::pair<std::string, std::string>> placed;  // host and the node that brought it to a side
  for (const auto& item : *node.as_array()) {
    std::vector<std::string> side;
    FRIDAY_TRY_VOID(read_names(path, item, "a side of partition", side));
    FRIDAY_TRY_VOID(check_nodes(path, item, "partition", group, side));
    const size_t earlier = placed.size();
    for (const std::string& name : side) {
      const auto other = std::ranges::find(placed, host_of(group, name), &std::pair<std::string, std::string>::first);
      if (static_cast<size_t>(other - placed.begin()) < earlier && other->second == name)
        return fail(ErrorCode::bad_input, "{}: partition has {} on two sides", place(path, item), name);
      if (static_cast<size_t>(other - placed.begin()) < earlier)
        return fail(ErrorCode::bad_input, "{}: partition: {} and {} are on the same host, and cannot be on two sides",
                    place(path, item), other->second, name);
      placed.emplace_back(host_of(group, name), name);
    }
    sides.push_back(std::move(side));
  }
  if (sides.size() < 2)
    return fail(ErrorCode::bad_input, "{}: partition needs at least two sides: [[\"n1\"], [\"n2\", \"n3\"]]",
                place(path, node));
  std::string called;
  for (const auto& side : sides) called += (called.empty() ? "" : " | ") + joined(side, ", ");
  return network_event(group, links_between_sides(sides), {}, called);
}

std::optional<Action> network_action(std::string_view key) {
  for (Action action : {Action::partition, Action::heal, Action::delay, Action::loss})
    if (key == name_of(action)) return action;
  return std::nullopt;
}

LinkChange::Kind kind_of(Action action) {
  switch (action) {
    case Action::heal: return LinkChange::Kind::heal;
    case Action::delay: return LinkChange::Kind::delay;
    case Action::loss: return LinkChange::Kind::loss;
    default: return LinkChange::Kind::cut;
  }
}

}  // namespace

Result<void> read_network(const std::string& path, const toml::table& table, GroupSpec& group) {
  NetworkSpec& network = group.network;
  double ms = 0;
  for (const auto& [key, node] : table) {
    if (key == "subnet") {
      FRIDAY_TRY_VOID(read_subnet(path, node, network));
    } else if (key == "delay_ms") {
      FRIDAY_TRY_VOID(read_number(path, node, "delay_ms", 0, kLongestDelayMs, ms));
      network.links.delay_ns = nanoseconds(ms);
    } else if (key == "jitter_ms") {
      FRIDAY_TRY_VOID(read_number(path, node, "jitter_ms", 0, kLongestDelayMs, ms));
      network.links.jitter_ns = nanoseconds(ms);
    } else if (key == "loss_percent") {
      FRIDAY_TRY_VOID(read_number(path, node, "loss_percent", 0, 100, network.links.percent));
    } else {
      return fail(ErrorCode::bad_input,
                  "{}: unknown key \"{}\" in [network]; known: subnet, delay_ms, jitter_ms, loss_percent",
                  place(path, node), key.str());
    }
  }
  return place_nodes(path, table, group);
}

bool is_network_event(std::string_view key) { return network_action(key).has_value(); }

Result<void> read_network_event(const std::string& path, const toml::node& node, std::string_view key,
                                const GroupSpec& group, EventSpec& event) {
  const Action action = *network_action(key);
  if (group.network.hosts.empty())
    return fail(ErrorCode::bad_input,
                "{}: {} needs a network that the recorder makes: add a table [network] to the file, and let the nodes "
                "reach each other by {{address:NODE}}",
                place(path, node), key);
  LinkChange change;
  change.kind = kind_of(action);
  const double at = event.at;
  if (action == Action::heal && node.value<bool>().value_or(false)) {
    std::string called;
    FRIDAY_TRY(links, links_of(path, node, key, group, Ends{}, called));
    event = network_event(group, links, change, called);
  } else if (node.is_table()) {
    FRIDAY_TRY(read, read_change(path, node, key, action, change, group));
    event = std::move(read);
  } else if (action == Action::partition && node.is_array()) {
    FRIDAY_TRY(read, read_sides(path, node, group));
    event = std::move(read);
  } else {
    const char* example = action == Action::partition
                              ? "[[\"n1\"], [\"n2\", \"n3\"]], or { from = \"n1\", to = \"n2\" }"
                          : action == Action::heal  ? "true, or { between = [\"n1\", \"n2\"] }"
                          : action == Action::delay ? "{ between = [\"n1\", \"n2\"], ms = 50, jitter_ms = 10 }"
                                                    : "{ from = \"n1\", to = \"n2\", percent = 30 }";
    return fail(ErrorCode::bad_input, "{}: {} must be {}", place(path, node), key, example);
  }
  event.at = at;
  return {};
}

namespace {

Result<void> read_kinds(const std::string& path, const toml::node& node, std::vector<Action>& kinds) {
  std::vector<std::string> names;
  FRIDAY_TRY_VOID(read_names(path, node, "kinds", names));
  for (const std::string& name : names) {
    const auto before = kinds.size();
    for (Action action : {Action::kill, Action::stop, Action::partition, Action::delay, Action::loss})
      if (name == name_of(action)) kinds.push_back(action);
    if (kinds.size() == before)
      return fail(ErrorCode::bad_input, "{}: kinds has \"{}\"; known: kill, stop, partition, delay, loss",
                  place(path, node), name);
  }
  return {};
}

// A number that is not negative, or a text that becomes one when its placeholders are filled.
Result<void> read_seed(const std::string& path, const toml::node& node, std::string& out) {
  if (const auto number = node.value_exact<int64_t>(); number && *number >= 0) {
    out = std::to_string(*number);
    return {};
  }
  if (node.is_string()) {
    FRIDAY_TRY_VOID(read_text(path, node, "seed", "a number", out));
    if (auto filled = Placeholders("/", 1).fill(out); filled && parse_seed(*filled)) return {};
  }
  return fail(ErrorCode::bad_input,
              "{}: seed must be a number from 0 to 2^63 - 1, or \"{{run}}\", the number of the run", place(path, node));
}

Result<void> read_fault_key(const std::string& path, const toml::node& node, std::string_view key, GroupSpec& group) {
  RandomFaultsSpec& faults = group.faults;
  if (key == "seed") return read_seed(path, node, faults.seed);
  if (key == "kinds") return read_kinds(path, node, faults.kinds);
  if (key == "nodes") {
    FRIDAY_TRY_VOID(read_names(path, node, key, faults.programs));
    return check_nodes(path, node, key, group, faults.programs);
  }
  if (key == "from") return read_seconds(path, node, key, faults.from);
  if (key == "until") return read_seconds(path, node, key, faults.until);
  if (key == "every") return read_number(path, node, key, 0.05, 1e5, faults.every);
  if (key == "lasts") return read_number(path, node, key, 0.05, 1e5, faults.lasts);
  if (key == "delay_ms") return read_number(path, node, key, 1, kLongestDelayMs, faults.most_delay_ms);
  if (key == "loss_percent") return read_number(path, node, key, 1, 100, faults.most_percent);
  return fail(ErrorCode::bad_input,
              "{}: unknown key \"{}\" in [faults]; known: seed, kinds, nodes, from, until, every, lasts, delay_ms, "
              "loss_percent",
              place(path, node), key);
}

// By default faults happen to the recorded nodes, except for the one whose end is the group's.
void choose_nodes(GroupSpec& group) {
  for (const ProgramSpec& program : group.programs)
    if (program.record && program.name != group.stop_when_ends) group.faults.programs.push_back(program.name);
}

Result<void> check_random_faults(const std::string& path, const toml::table& table, const GroupSpec& group) {
  const RandomFaultsSpec& faults = group.faults;
  std::set<std::string> hosts;
  for (const std::string& name : faults.programs) hosts.insert(host_of(group, name));
  const std::string where = place(path, table);
  if (faults.until == 0)
    return fail(ErrorCode::bad_input,
                "{}: [faults] must say until = 20, the second of the run after which none happens", where);
  if (faults.until <= faults.from)
    return fail(ErrorCode::bad_input, "{}: [faults] ends (until = {:g}) before it begins (from = {:g})", where,
                faults.until, faults.from);
  for (Action kind : faults.kinds) {
    const bool of_network = is_network_event(name_of(kind));
    if (of_network && group.network.hosts.empty())
      return fail(ErrorCode::bad_input, "{}: {} in [faults] needs a network that the recorder makes: add [network]",
                  where, name_of(kind));
    if (of_network && hosts.size() < 2)
      return fail(ErrorCode::bad_input, "{}: {} in [faults] needs nodes on at least two hosts", where, name_of(kind));
  }
  if (faults.programs.empty())
    return fail(ErrorCode::bad_input, "{}: [faults] has no node to which a fault could happen: name some in nodes",
                where);
  return {};
}

}  // namespace

std::optional<uint64_t> parse_seed(const std::string& text) {
  uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, seed);
  if (text.empty() || error != std::errc{} || behind != end || seed >> 63) return std::nullopt;
  return seed;
}

Result<void> read_random_faults(const std::string& path, const toml::table& table, GroupSpec& group) {
  RandomFaultsSpec& faults = group.faults;
  faults.every = faults.lasts = 1;
  faults.most_delay_ms = 200;
  faults.most_percent = 50;
  faults.until = group.stop_after;
  for (const auto& [key, node] : table) FRIDAY_TRY_VOID(read_fault_key(path, node, key.str(), group));
  if (faults.programs.empty()) choose_nodes(group);
  return faults.kinds.empty() ? Result<void>() : check_random_faults(path, table, group);
}

namespace {

// Calls `check` for each string of the document.
Result<void> visit_strings(const toml::node& node, const std::function<Result<void>(const toml::node&)>& check) {
  if (node.is_string()) return check(node);
  if (const auto* list = node.as_array())
    for (const auto& item : *list) FRIDAY_TRY_VOID(visit_strings(item, check));
  if (const auto* table = node.as_table())
    for (const auto& [key, item] : *table) FRIDAY_TRY_VOID(visit_strings(item, check));
  return {};
}

}  // namespace

Result<void> check_addresses(const std::string& path, const toml::table& document, const GroupSpec& group) {
  return visit_strings(document, [&](const toml::node& node) -> Result<void> {
    for (const std::string& name : addresses_in(*node.value<std::string>())) {
      if (group.network.hosts.empty())
        return fail(ErrorCode::bad_input,
                    "{}: {{address:{}}} needs a network that the recorder makes: add a table [network] to the file",
                    place(path, node), name);
      FRIDAY_TRY_VOID(check_nodes(path, node, fmt::format("{{address:{}}}", name), group, {name}));
    }
    return {};
  });
}

}  // namespace friday
