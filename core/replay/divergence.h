// A divergence: the replayed program did something else than the recorded one. A result, not a crash; printed like a diff.
#pragma once

#include <string>

#include "core/base/ids.h"
#include "core/shim/shim_abi.h"
#include "core/trace/reader.h"

namespace friday {

struct Divergence {
  NodeId node;
  std::string node_name;
  EventIndex event;
  shim::DivergenceReport report{};
  uint64_t call_site = 0;       // address of the call instruction in the program, 0 if unknown
  std::string where;            // "libc.so.6+0xf81d0", when a module covers it
  std::string expected, actual; // one line each
  std::string neighbours;       // the events around, one a line, the expected one marked
};

// Fills the lines from the report and the trace around the event.
Divergence explain(const TraceReader& reader, const std::string& node_name, const shim::DivergenceReport& report,
                   uint64_t call_site);

// Several lines, ending in a newline.
std::string describe(const Divergence& divergence);

}  // namespace friday
