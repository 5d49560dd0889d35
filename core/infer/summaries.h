// Which functions of a replayed process are library functions that the solver knows by what they do (Function in
// protocol.h). Compilers' libraries have several of each, for different processors; which one a process uses, the
// dynamic linker has written into its tables (R_X86_64_JUMP_SLOT, GLOB_DAT and IRELATIVE of the x86-64 ABI).
#pragma once

#include <map>

#include "core/infer/protocol.h"
#include "core/stop/node_control.h"

namespace friday::infer {

// By address of the first instruction. Files that cannot be read are left out, as their functions are then executed
// instruction by instruction.
std::map<uint64_t, Function> find_summaries(NodeControl& node);

}  // namespace friday::infer
