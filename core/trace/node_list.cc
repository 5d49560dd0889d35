#include "core/trace/node_list.h"

#include <fnmatch.h>

#include <algorithm>
#include <set>

namespace friday {
namespace {

bool is_number(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The ids that one item of the list stands for.
Result<std::vector<NodeId>> expand(const Recording& recording, const std::string& item) {
  std::vector<NodeId> ids;
  const size_t dash = item.find('-');
  const std::string low = item.substr(0, dash), high = dash == std::string::npos ? low : item.substr(dash + 1);
  if (is_number(low) && is_number(high) && low.size() < 10 && high.size() < 10) {
    const unsigned from = static_cast<unsigned>(std::stoul(low)), to = static_cast<unsigned>(std::stoul(high));
    for (const auto& node : recording.nodes())
      if (node.id.value >= from && node.id.value <= to) ids.push_back(node.id);
  } else {
    for (const auto& node : recording.nodes())
      if (fnmatch(item.c_str(), node.name.c_str(), 0) == 0) ids.push_back(node.id);
  }
  if (!ids.empty()) return ids;
  std::string known;
  for (const auto& node : recording.nodes())
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", node.id, node.name);
  if (known.size() > 300) known = known.substr(0, 300) + "...";
  return fail(ErrorCode::not_found, "no node matches \"{}\"; the recording has {}", item, known);
}

}  // namespace

Result<std::vector<NodeId>> parse_node_list(const Recording& recording, const std::string& text) {
  std::set<NodeId> chosen;
  bool first = true;
  for (size_t from = 0; from <= text.size();) {
    const size_t to = std::min(text.find(',', from), text.size());
    std::string item = text.substr(from, to - from);
    from = to + 1;
    const bool without = item.starts_with('!');
    if (without) item.erase(0, 1);
    if (item.empty())
      return fail(ErrorCode::usage, "\"{}\" is not a node list; write for example 4,5 or 0-9,!3 or redis-*", text);
    FRIDAY_TRY(ids, expand(recording, item));
    if (without && first)
      for (const auto& node : recording.nodes()) chosen.insert(node.id);
    for (NodeId id : ids) without ? (void)chosen.erase(id) : (void)chosen.insert(id);
    first = false;
  }
  if (chosen.empty()) return fail(ErrorCode::usage, "the node list \"{}\" leaves no node", text);
  return std::vector<NodeId>(chosen.begin(), chosen.end());
}

}  // namespace friday
