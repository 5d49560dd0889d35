// What the debugger has learned about the code of one node: plans of expressions, the scopes of instructions, where
// frames end, what functions may change. All of it is discarded when the node loads or unloads code, because names and
// addresses may then have another meaning. SymbolCache owns one NodeCode for each node and discards it; other parts
// (Calls, watches of local variables) keep what they find out here, so that it is discarded together.
#pragma once

#include <string>
#include <unordered_map>

#include "core/debug/programs.h"
#include "core/stop/effects.h"

namespace friday {

// How to find the end of a function's frame at one of its instructions.
struct FrameShape {
  bool has_outer = false;  // the function has a caller
  bool by_base = false;    // `offset` is relative to rbp, otherwise to rsp
  uint64_t offset = 0;     // bytes to the end of the frame
  std::string function;    // empty if unknown
};

struct NodeCode {
  std::unordered_map<uint64_t, CodeScope> scopes;  // by pc
  // Plans by scope, then by expression. The scope of a plan that uses a local variable is a single pc, because with
  // each instruction the variable may be in another place or become a constant; any other plan is valid in its whole
  // block.
  std::unordered_map<std::string, std::unordered_map<std::string, KnownPlan>> plans;
  std::unordered_map<uint64_t, FrameShape> frames;        // by pc
  std::unordered_map<uint64_t, FunctionEffects> effects;  // by address of the function
  std::unordered_map<uint64_t, Addr> errors;              // the address of errno, by the thread pointer (fs_base)

  Layout layout;
  uint64_t layout_epoch = 0;   // epoch of the Focus in which `layout` was last read
  Program* program = nullptr;  // shared with other nodes of this layout, or `unshared`; null before it is determined
  Program unshared;            // used while the loader changes its list
  bool changing = false;       // the loader is changing its list, so the gdbs of equal nodes may know different code

  void forget() {
    scopes.clear();
    plans.clear();
    frames.clear();
    effects.clear();
    errors.clear();
    program = nullptr;
  }
};

}  // namespace friday
