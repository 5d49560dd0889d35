// What the debugger has learned about the code of one node: plans of expressions, the block of an instruction, where a
// frame ends, what a function may change. All of it is forgotten when code comes or goes, since names and addresses may
// then mean something else. SymbolCache owns one for each node and says when it is to be forgotten; the parts that find
// something out by themselves (calls, watches of locals) keep it here, so that it goes with the rest.
#pragma once

#include <string>
#include <unordered_map>

#include "core/debug/programs.h"
#include "core/stop/effects.h"

namespace friday {

// The frame of a function, as seen from one of its instructions.
struct FrameShape {
  bool has_outer = false;  // it returns somewhere
  bool by_base = false;    // its end is counted from rbp; else from rsp
  uint64_t offset = 0;     // of its end
  std::string function;
};

struct NodeCode {
  // Plans by scope, then by expression. One that names a local variable is of its pc alone (where the variable is, or
  // that it is a constant, may change with each instruction), any other holds in the whole block.
  std::unordered_map<uint64_t, CodeScope> scopes;  // by pc
  std::unordered_map<std::string, std::unordered_map<std::string, KnownPlan>> plans;
  std::unordered_map<uint64_t, FrameShape> frames;        // by pc
  std::unordered_map<uint64_t, FunctionEffects> effects;  // by address
  std::unordered_map<uint64_t, Addr> errors;              // where errno is, by the thread pointer

  Layout layout;
  uint64_t layout_epoch = 0;   // of the Focus, when the layout was looked at last
  Program* program = nullptr;  // what is shared with other nodes of this layout, or `unshared`; null: to be found
  Program unshared;            // while the loader changes its list
  bool changing = false;       // it does: what gdb knows of this node is not what another node's gdb knows

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
