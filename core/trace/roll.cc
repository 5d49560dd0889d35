#include "core/trace/roll.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "core/base/printable.h"
#include "core/trace/json_file.h"

namespace friday {
namespace {

constexpr size_t kMostMissing = 10'000, kMostNamed = 5;

bool is_there(const std::string& recording, NodeId id) {
  struct stat status {};
  return ::stat(fmt::format("{}/nodes/{}", recording, id.value).c_str(), &status) == 0;
}

std::vector<std::string> rolls_of(const std::string& recording) {
  auto files = names_beneath({recording, "roll"});
  if (!files) return {};
  std::erase_if(*files, [](const std::string& name) { return !name.ends_with(".json"); });
  return *std::move(files);
}

Result<void> write(const Beneath& file, const nlohmann::json& roll) {
  return write_beneath(file, roll.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

}  // namespace

Result<void> write_roll(const std::string& recording, const std::string& name, const std::vector<RolledNode>& nodes) {
  nlohmann::json names = nlohmann::json::object();
  for (const RolledNode& node : nodes)
    if (is_there(recording, node.id)) names[std::to_string(node.id.value)] = node.name;
  if (names.empty()) return {};
  return write(Beneath(recording, "roll/" + name + ".json"), names);
}

Result<void> strike_from_rolls(const std::string& recording, const std::vector<std::string>& ids) {
  for (const std::string& file : rolls_of(recording)) {
    FRIDAY_TRY(roll, read_json({recording, "roll/" + file}));
    if (!roll.is_object()) continue;
    size_t struck = 0;
    for (const std::string& id : ids) struck += roll.erase(id);
    if (struck) FRIDAY_TRY_VOID(write(Beneath(recording, "roll/" + file), roll));
  }
  return {};
}

std::vector<RolledNode> missing_nodes(const std::string& recording) {
  std::map<uint32_t, std::string> missing;
  for (const std::string& file : rolls_of(recording)) {
    if (missing.size() >= kMostMissing) break;
    const auto roll = read_json({recording, "roll/" + file});
    if (!roll || !roll->is_object()) continue;
    for (const auto& [number, name] : roll->items()) {
      const bool is_number = !number.empty() && number.size() < 10 &&
                             std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
      if (!is_number || !name.is_string()) continue;
      if (const NodeId id{static_cast<uint32_t>(std::stoul(number))}; !is_there(recording, id))
        missing[id.value] = name;
    }
  }
  std::vector<RolledNode> nodes;
  for (const auto& [id, name] : missing) nodes.push_back({NodeId{id}, name});
  return nodes;
}

std::string missing_text(const std::vector<RolledNode>& missing) {
  if (missing.empty()) return "";
  std::string names;
  for (size_t i = 0; i < std::min(missing.size(), kMostNamed); i++)
    names += fmt::format("{}{} ({})", i ? ", " : "", missing[i].id.value, printable(missing[i].name));
  if (missing.size() > kMostNamed) names += fmt::format(" and {} more", missing.size() - kMostNamed);
  const bool is_one = missing.size() == 1;
  return fmt::format(
      "{} {} {} recorded, but {} not here any more: removed, or not copied; what {} sent comes from "
      "nobody now",
      is_one ? "node" : "nodes", names, is_one ? "was" : "were", is_one ? "is" : "are", is_one ? "it" : "they");
}

}  // namespace friday
