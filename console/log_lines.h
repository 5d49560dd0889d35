// How `friday log` chooses and prints lines, whether they come from a finished recording or from one that goes on.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "console/say.h"
#include "core/base/counted.h"
#include "core/base/pattern.h"
#include "core/trace/outputs.h"

namespace friday {

struct LineFilter {
  std::optional<Pattern> pattern;

  bool takes(const OutputLine& line) const { return !pattern || pattern->finds(line.text); }
};

class LinePrinter {
 public:
  LinePrinter(const Recording& recording, std::span<const NodeId> nodes, bool as_json)
      : recording_(recording), as_json_(as_json) {
    for (NodeId id : nodes) width_ = std::max(width_, printable(name_of(id)).size());
  }

  void print(NodeId node, double seconds, const OutputLine& line) {
    if (as_json_) return print_json(node, seconds, line);
    // What a program writes is a stranger's text; only its tabs are obeyed.
    std::string text = printable_lines(line.text);
    if (line.missing)
      text += fmt::format("{}[{} that the recording does not have]", text.empty() ? "" : " ",
                          counted(line.missing, "byte"));
    fmt::print("{:>12.6f}  {:<{}}  {}  {}\n", seconds, printable(name_of(node)), width_,
               line.stream == 1 ? "out" : "err", text);
  }

 private:
  std::string name_of(NodeId id) const {
    const NodeInfo* info = recording_.find(id);
    return info ? info->name : fmt::format("{}", id);
  }
  void print_json(NodeId node, double seconds, const OutputLine& line) {
    nlohmann::json out = {{"seconds", seconds},
                          {"mark", fmt::format("{}#{}", node.value, line.event)},
                          {"node", node.value},
                          {"name", name_of(node)},
                          {"stream", line.stream == 1 ? "out" : "err"},
                          {"event", line.event},
                          {"first_event", line.first_event},
                          {"text", line.text},
                          {"whole", line.whole},
                          {"missing_bytes", line.missing}};
    say_json(out, -1);
  }

  const Recording& recording_;
  bool as_json_;
  size_t width_ = 4;
};

}  // namespace friday
