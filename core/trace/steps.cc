#include "core/trace/steps.h"

#include <algorithm>
#include <sstream>

#include <nlohmann/json.hpp>

#include "core/base/beneath.h"

namespace friday {
namespace {

constexpr uint64_t kLargest = 1 << 20;  // bytes of steps.jsonl

// One line of steps.jsonl, which may have been written by a stranger.
bool read_step(const std::string& line, Step& step, int64_t* at_ns) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return false;
  for (const char* key : {"at_ns", "real_ns"})
    if (!json.contains(key) || !json[key].is_number_integer()) return false;
  if (!json.contains("what") || !json["what"].is_string()) return false;
  step.what = json["what"];
  if (json.contains("detail") && json["detail"].is_string()) step.detail = json["detail"];
  step.realtime_ns = json["real_ns"];
  *at_ns = json["at_ns"];
  return true;
}

}  // namespace

std::vector<Step> steps_of(const Recording& recording, const Schedule& schedule) {
  std::vector<Step> steps;
  for (NodeId id : schedule.nodes()) {
    const auto text = read_beneath(recording.node_directory(id).below("steps.jsonl"), kLargest);
    if (!text) continue;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      Step step;
      int64_t at_ns = 0;
      if (!read_step(line, step, &at_ns)) continue;
      step.node = id;
      step.time = {schedule.hosts()[schedule.host_of(id)].map(at_ns), 0, id, 0};
      step.position = schedule.position_at(step.time);
      steps.push_back(std::move(step));
    }
  }
  std::ranges::stable_sort(steps, {}, &Step::time);
  return steps;
}

}  // namespace friday
