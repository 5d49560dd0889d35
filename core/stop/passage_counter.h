// Counts in a node how often it comes by an instruction, without a stop at each passage, and stops it at one of them:
// at the n-th, or where the general registers are given ones. A passage costs some nanoseconds instead of the
// microseconds of a breakpoint.
//
// The instruction is replaced by a jump to code of Friday's (passage_patch.h). That is not possible everywhere; then
// the caller takes a breakpoint. A thread may be interrupted in that code: it is left there, since it would be counted
// again if it were moved back, and contains() tells.
//
// Owned by the node; use only on the tracing thread with the node stopped (node_control.h).
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/breakpoints.h"
#include "core/stop/node_control.h"
#include "core/stop/passage_patch.h"
#include "core/stop/patched_stores.h"

namespace friday {

// Of a stop at a passage.
inline constexpr BreakpointOwner kPassageOwner{BreakpointOwner::Kind::internal, 6};

class PassageCounter {
 public:
  PassageCounter(NodeControl& node, Breakpoints& breakpoints, PatchedStores& stores)
      : node_(node), breakpoints_(breakpoints), stores_(stores) {}

  // What to stop at: the passage with this number, from 1 on, or with these registers.
  struct Wanted {
    uint64_t nth = 0;                           // 0: at none
    std::optional<user_regs_struct> registers;  // of which the general ones are compared
  };
  // Begins to count the passages of `place`, from 0. False if they cannot be counted so.
  Result<bool> start(Addr place, const Wanted& wanted);
  // Ends it. count() stays what it was.
  Result<void> stop();
  // Call before the pad areas are given back.
  Result<void> forget();
  // Until go_on(), passages do not count, and none is wanted: a function that the debugger calls comes by.
  Result<void> pause();
  Result<void> go_on();
  // How often the node has come by since start(), with the passage at which it has stopped.
  Result<uint64_t> count();

  // Call for a SIGTRAP stop with the processor's registers. None if the counting did not cause it. Otherwise sets rip
  // to the place, where the program's own instruction is again, and returns whether this passage is still wanted.
  // pass() goes on to count.
  std::optional<bool> hit(user_regs_struct& registers);
  Result<void> pass(ThreadId thread);
  // Makes a thread stop again that has stopped at a wanted passage, where that cannot be handled now.
  bool undo_hit(user_regs_struct& registers) const;

  // Whether the counting has ended by itself: a displaced instruction has faulted, so all were put back.
  bool is_lost() const;

  // Whether a thread with this pc is in the code that counts.
  bool contains(Addr pc) const;

  // Copies the state of `parent`, of whose memory this node's memory is a copy (fork, checkpoint), and ends it.
  Result<void> copy_from(const PassageCounter& parent);

 private:
  struct Code {
    Addr base{}, copy{}, trap{}, words{};
    uint64_t size = 0;
    std::vector<Instruction> window;
  };

  Result<bool> find_window(Addr place, std::vector<Instruction>& window);
  Result<bool> make_code(Addr place);
  bool is_inside(Addr place, uint64_t high);
  bool redirect();
  const Code* trapped(const user_regs_struct& registers) const;

  NodeControl& node_;
  Breakpoints& breakpoints_;
  PatchedStores& stores_;
  std::unordered_map<uint64_t, Code> codes_;  // by place; it stays, as a thread may be there
  std::optional<Addr> place_;                 // of which passages are counted, or were
  bool active_ = false;
  std::optional<PassageWords> paused_;  // what go_on() puts back
  bool is_at_hit_ = false;              // a thread has stopped at a wanted passage, and pass() was not called
};

}  // namespace friday
