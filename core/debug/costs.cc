#include "core/debug/costs.h"

#include <utility>

#include <fmt/format.h>

namespace friday {

const char* name_of(Costs::Way way) {
  switch (way) {
    case Costs::Way::plan: return "plan";
    case Costs::Way::call: return "call";
    case Costs::Way::gdb: return "gdb";
  }
  return "";
}

void Costs::note(const std::string& expression, Way way, const std::string& reason, Time taken) {
  auto found = costs_.find(expression);
  if (found == costs_.end()) found = costs_.try_emplace(costs_.size() < most ? expression : std::string()).first;
  Cost& cost = found->second;
  cost.way = way;
  if (cost.count++ == 0) cost.first = taken;
  else cost.rest += taken;
  if (way != Way::gdb) return;
  if (cost.reason != reason) cost.reason = reason;
  if (cost.told || cost.count < 2 || cost.first + cost.rest < worth_telling || expression.empty()) return;
  cost.told = true;
  notices_.push_back(
      fmt::format("`{}` is evaluated by gdb, {:.1f} ms each time{}{} (`info costs`)", expression,
                  std::chrono::duration<double, std::milli>(cost.rest).count() / static_cast<double>(cost.count - 1),
                  reason.empty() ? "" : ": ", reason));
}

std::vector<std::string> Costs::take_notices() { return std::exchange(notices_, {}); }

}  // namespace friday
