#include "core/trace/switches.h"

#include <fnmatch.h>

#include <algorithm>

#include "core/trace/json_file.h"

namespace friday {

NLOHMANN_JSON_SERIALIZE_ENUM(Keeps, {{Keeps::nothing, "nothing"},
                                     {Keeps::schedule, "schedule"},
                                     {Keeps::everything, "everything"}})

namespace {

Beneath file_of(const std::string& recording) { return {recording, "switches.json"}; }

}  // namespace

Result<Switches> Switches::read(const std::string& recording) {
  const Beneath file = file_of(recording);
  FRIDAY_TRY_VOID(open_beneath(file));
  FRIDAY_TRY(value, read_json(file));
  const auto damaged = [&] { return fail(ErrorCode::bad_input, "{} is damaged", file.path()); };
  const auto rules = value.is_object() ? value.find("rules") : value.end();
  if (!value.is_object() || rules == value.end() || !rules->is_array()) return damaged();
  Switches read;
  for (const auto& rule : *rules) {
    if (!rule.is_object() || !rule.contains("nodes") || !rule["nodes"].is_string() || !rule.contains("keeps"))
      return damaged();
    const auto keeps = rule["keeps"].get<Keeps>();
    if (nlohmann::json(keeps) != rule["keeps"]) return damaged();
    read.rules_.push_back({rule["nodes"], keeps});
  }
  return read;
}

Result<void> Switches::write(const std::string& recording) const {
  nlohmann::json rules = nlohmann::json::array();
  for (const Rule& rule : rules_) rules.push_back({{"nodes", rule.nodes}, {"keeps", rule.keeps}});
  const nlohmann::json value = {{"rules", std::move(rules)}};
  return write_beneath(file_of(recording), value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void Switches::remove(const std::string& recording) { remove_beneath(file_of(recording)); }

void Switches::set(const std::string& pattern, Keeps keeps) {
  if (pattern == "*") rules_.clear();
  else std::erase_if(rules_, [&](const Rule& rule) { return rule.nodes == pattern; });
  rules_.push_back({pattern, keeps});
}

Keeps Switches::of(std::span<const std::string> names) const {
  const auto rule = std::ranges::find_if(rules_.rbegin(), rules_.rend(),
                                         [&](const Rule& each) { return one_matches(each.nodes, names); });
  return rule == rules_.rend() ? Keeps::nothing : rule->keeps;
}

bool one_matches(const std::string& pattern, std::span<const std::string> names) {
  return std::ranges::any_of(names,
                             [&](const std::string& name) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

}  // namespace friday
