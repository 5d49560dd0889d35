// The program's code: the sites that are patched in it (shim_abi.h, Site and Patch), the instructions that the shim
// carries out itself, and the extended state that some of those store.
#pragma once

#include "core/shim/runtime.h"

namespace friday::shim {

// ---- patch.cc
// A mapping of a file.
struct ModuleView {
  uint64_t low, high, offset;  // its addresses, and where in the file it begins
  uint64_t protection;         // PROT_ bits
  const char* path;
};
struct PatchedModule {
  uint64_t stubs = 0;                 // address of kPadSize bytes near the module; 0: no room was found
  uint32_t patched = 0, trapped = 0;  // sites that could and that could not be patched, without loop sites
  uint32_t done = 0;                  // sites of all kinds that are patched
};
// Patches what it can of `sites`, and moves those to the front of the array.
PatchedModule patch_module(const ModuleView& module, Site* sites, uint32_t count);
// At replay: patches the same sites, with the stubs at the same addresses.
void repatch_module(const ModuleView& module, const Site* sites, uint32_t count, uint64_t stubs);
const Patch* patch_of_resume(uint64_t address);  // the one with this Patch::resume, or null
const Patch* patch_of_return(uint64_t address);  // the one whose system call instruction ends here, or null
void find_site(CallFrame* frame);                // fills in CallFrame::site
// Translate between an instruction of a loop site and its copy in the stub. Other addresses are returned as they are;
// so is, by loop_moved, the address of the site's first byte, where the jump to the stub begins.
uint64_t loop_original(uint64_t address);
uint64_t loop_moved(uint64_t address);
bool in_stub(uint64_t address);  // whether it is code of a stub, which runs in place of the program's own
bool code_give_back();           // restores the original bytes of all code; false: some could not be restored
extern bool catch_all_only;      // HelloFlag
extern uint64_t stack_top;       // end of the main thread's stack; 0: not known
// The general register with this number in instructions (Intel SDM volume 2, section 2.1).
uint64_t* register_of(CallFrame* frame, unsigned number);

// ---- vdso.cc
// Moves the kernel's vdso to kVdsoAddress and maps a patched copy in its place.
void vdso_redirect(uint64_t low, uint64_t high, const HelloReply& offsets);
extern uint64_t vdso_was_at;  // the former address of what is at kVdsoAddress; 0: the vdso was not moved

// ---- xsave.cc: extended state. `state` is the program's, in the standard form, as the kernel stores it in the frame
// of a signal. Components are bits of XCR0.
void emulate_xsave(const uint8_t* code, bool compact, CallFrame* frame, const uint8_t* state);
// The components among `wanted` that must be stored: x87, SSE, and all others that are not in their initial state.
uint64_t state_in_use(const uint8_t* state, uint64_t wanted);
// Stores the components `wanted` at `to`, and in its header (XSTATE_BV) which of them are in use.
void store_state(uint8_t* to, const uint8_t* state, uint64_t wanted, bool compact);

// ---- Planted instructions (is_planted()), in patch.cc
bool writes_gs(uint64_t address);  // whether it is a planted write to the base of %gs, which is not carried out
// Carries out the planted instruction at frame->rip. False: none is planted there.
bool emulate_instruction(CallFrame* frame, const uint8_t* state);
void instructions_give_back();  // restores all planted instructions

}  // namespace friday::shim
