// The plan of a cut: what the compiler's instrumentation has to know of a chosen cut, module by module, by the numbers
// that the facts of a module give to its functions, objects, accesses and calls. Written by `friday cut choose --plan
// FILE`, read where the program is instrumented; a plan fits only the bitcode whose fingerprints it has.
//
// The file is JSON:
//   {"friday_cut_plan": 1, "program": NAME, "fingerprint": 32 hex digits, "target": TEXT, "modules": [MODULE, ...]}
//   MODULE: {"name": NAME, "fingerprint": ..., LIST: {"count": N, FLAG: [numbers below N, rising], ...}, ...}
// The lists are "functions", "objects", "accesses" and "calls", and their flags are those of the enumerations below;
// what no flag names is outside, or needs no instrumentation. Stateless; any thread may call.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/cut/choose.h"

namespace friday::cut {

struct Plan {
  // Bits of a function. It is wholly inside, or outside.
  enum FunctionFlag : uint8_t { kInside = 1, kTarget = 2 };
  // Bits of an object. One with both bits stands for several pieces of memory on different sides (a maker's variables).
  // Of memory that a call allocates, the call has the side.
  enum ObjectFlag : uint8_t { kObjectInside = 1, kObjectOutside = 2 };
  // Bits of an access. What is not set needs nothing.
  enum AccessFlag : uint8_t {
    kLogsRead = 1,      // inside: it may read memory outside, so the value that it reads is logged
    kEntersMemory = 2,  // outside: it may write memory inside, so what it writes there is logged
    kLeavesMemory = 4,  // inside: it may write memory outside, which is not there at replay
  };
  // Bits of a call, which count for all functions that it may reach.
  enum CallFlag : uint16_t {
    kCallsInside = 1,  // from outside: it may enter a function inside, itself or by a callback
    kCallsOutside =
        2,  // from inside: it may leave to a function outside, which is not called at replay; its result is logged
    kCallLogsRead = 4,  // from inside: a deterministic function without code, such as memcpy, may read memory outside
    kCallEntersMemory =
        8,  // a function without code may write memory inside, and does not run at replay, or runs outside
    kCallLeavesMemory = 16,  // from inside: a deterministic function without code may write memory outside
    kAllocatesInside = 32,
    kAllocatesOutside = 64,
  };

  struct Module {
    std::string name, fingerprint;
    std::vector<uint8_t> functions, objects, accesses;
    std::vector<uint16_t> calls;
    bool operator==(const Module&) const = default;
  };
  std::string program, fingerprint, target;
  std::vector<Module> modules;
  bool operator==(const Plan&) const = default;

  // The module with this fingerprint. Fails with bad_input, naming the module, if the plan is of another build.
  Result<const Module*> module(std::string_view name, std::string_view of_fingerprint) const;
};

Plan make_plan(const LinkedProgram& program, const PointsTo& points_to, const DataFlow& graph, const Choice& choice);

Result<void> write_plan(const Plan& plan, const std::string& path);
// Every number and flag is checked, since the file may be damaged.
Result<Plan> read_plan(const std::string& path);
std::string plan_text(const Plan& plan);
Result<Plan> parse_plan(std::string_view text, const std::string& path);

}  // namespace friday::cut
