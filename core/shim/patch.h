// The program's code: the call sites, loops and instructions that are patched in it, and the vector state that some of
// these instructions store.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- patch.cc
struct ModuleView {
  uint64_t low, high, offset;  // executable mapping
  uint64_t protection;         // PROT_ bits
  const char* path;
};
struct PatchedModule {
  uint64_t stubs = 0;                 // a kPadSize area near the module; 0: none was free
  uint32_t patched = 0, trapped = 0;  // call sites, and those left to the catch-all
  uint32_t done = 0;                  // sites of all kinds that are patched
};
// Applies `sites`, and moves those that it could to their front.
PatchedModule patch_module(const ModuleView& module, Site* sites, uint32_t count);
// The same sites again, with stubs at the same place.
void repatch_module(const ModuleView& module, const Site* sites, uint32_t count, uint64_t stubs);
const Patch* patch_of_resume(uint64_t address);  // by stub continuation
void find_site(CallFrame* frame);                // fills in CallFrame::site
const Patch* patch_of_return(uint64_t address);  // by address behind the syscall instruction
uint64_t loop_original(uint64_t address);  // of a moved instruction in the program; of anything else the address itself
bool in_stub(uint64_t address);            // of a call or a loop: code that is executed in place of the program's own
uint64_t loop_moved(uint64_t address);     // the reverse, for what lies behind the first byte of a window
void vdso_redirect(uint64_t low, uint64_t high, const HelloReply& offsets);
extern uint64_t vdso_was_at;  // where the first of the mappings was that are at kVdsoAddress now; 0: none are
bool code_give_back();        // all code is as in its files again; false: not everywhere
extern bool catch_all_only;
extern uint64_t stack_top;                                 // end of the main thread's stack; 0: not known
uint64_t* register_of(CallFrame* frame, unsigned number);  // as instructions number them

// ---- vector state (xsave.cc); `state` is the program's, as the kernel put it into a signal frame, in the standard
// form
void emulate_xsave(const uint8_t* code, bool compact, CallFrame* frame, const uint8_t* state);
// Of the components `wanted` x87, SSE, and those others whose values are not the initial ones.
uint64_t state_in_use(const uint8_t* state, uint64_t wanted);
// Stores the components `wanted` at `to`, marked as in use if they are so.
void store_state(uint8_t* to, const uint8_t* state, uint64_t wanted, bool compact);
bool writes_gs(uint64_t address);  // an `ud2` planted for wrgsbase, which is not carried out
bool emulate_instruction(CallFrame* frame,
                         const uint8_t* state);  // an `ud2` planted for rdtsc and friends; false: not ours
void instructions_give_back();                   // and they run by themselves again

}  // namespace friday::shim
