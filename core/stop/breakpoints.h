// The breakpoint instances of one node: int3 bytes, reference-counted by owner, and how to continue over them without
// single-stepping.
//
// A hit costs the tracer one lookup. To continue, the displaced instruction runs natively and out of line, in a *pad*:
// a relocated copy of the instruction (rip-relative operands, branches and calls are rewritten) followed by a jump
// back. Plain jumps are executed by changing the registers. Instructions that cannot be moved (no pad area within 2 GB,
// xbegin, syscall, ...) are single-stepped in place with the original byte restored; the caller need not know which way
// was used.
//
// An instruction that a call-site patch has moved is executed in a copy (PatchedBytes::executed_at()): the int3 stands
// there, and everything that names a breakpoint takes and gives the program's own address.
//
// Not thread-safe: call everything on the tracing thread with the node stopped (see node_control.h). The session calls
//   SIGTRAP:  hit(registers)                sets rip back onto the breakpoint and returns its owners
//   resume:   step_over(thread, registers)  if the thread stands on a breakpoint that was reported; then set_registers,
//                                           if the answer is in_registers, and continue
//   any other stop of a thread: program_address(rip), or leave_pad(thread) to move the thread out of a pad
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/instruction.h"
#include "core/stop/node_control.h"
#include "core/stop/pad.h"
#include "core/stop/patched_bytes.h"
#include "core/stop/stop_points.h"

namespace friday {

// The owner of a breakpoint: a stop point of Friday, a client of gdb's remote serial protocol, or the session itself.
struct BreakpointOwner {
  enum class Kind : uint8_t { stop_point, rsp_client, internal };
  Kind kind = Kind::stop_point;
  uint32_t id = 0;
  auto operator<=>(const BreakpointOwner&) const = default;
};

// Executable memory of the node that Friday may fill with pads. The program may read it and never writes it.
struct PadArea {
  Addr base{};
  uint64_t size = 0;
};

enum class StepOver : uint8_t {
  in_registers,  // only `registers` were changed: set them and continue
  stepped,       // the instruction has been executed: the thread stands after it, and `registers` are up to date
};

class Breakpoints {
 public:
  Breakpoints(NodeControl& node, PatchedBytes& patches) : node_(node), patches_(patches) {}

  void add_pad_area(PadArea area);
  bool in_pad_area(Addr address) const;
  // Places other code of Friday's into a pad area near `near_to`; program_address() and leave_pad() treat it like a
  // pad. `build` receives the address of the code and of a writable data area, and returns at most `size` bytes of
  // code, or none to cancel. Returns the address of the code; none if there is no room or `build` cancelled.
  Result<std::optional<Addr>> place_code(Addr near_to, size_t size,
                                         const std::function<std::optional<PadCode>(Addr place, Addr data)>& build);

  // The writable data area that place_code() would pass to `build`, if it is there already.
  std::optional<Addr> data_page_near(Addr near_to, size_t size);

  // Puts a jump to `code` in the place of the instructions, which `code` carries out. False if it is too far, or if
  // another patch or a breakpoint behind the first byte is in the way.
  bool redirect(std::span<const Instruction> window, Addr code, PatchKind kind);
  // Takes such a jump away.
  void take_back(Addr low, PatchKind kind);

  // Call before a thread is put to this address: takes away a jump of the kind `passage` in whose middle it is.
  void make_room_for(Addr address) { clear_window(address, false); }

  PatchedBytes& patches() { return patches_; }
  // Called before a breakpoint is set, or a thread is stepped, inside a window of kind watch_store. The callee must
  // remove that window.
  std::function<void(Addr low)> take_away;

  // Inserts a breakpoint. Several insertions by one owner at one address count once. Fails if the memory cannot be
  // written, and in the middle of an instruction that a call-site patch of the shim has replaced.
  Result<void> insert(Addr address, BreakpointOwner owner);
  // Removes the owner's breakpoint; it is no error if there is none. When the last owner is gone, the original byte is
  // restored.
  Result<void> remove(Addr address, BreakpointOwner owner);
  Result<void> remove_all(BreakpointOwner owner);
  Result<void> clear();  // for all owners
  // Gives the pad areas back as they were reserved. There must be no breakpoint.
  Result<void> remove_pad_areas();

  bool contains(Addr address) const { return sites_.contains(patches_.executed_at(address).value); }
  std::vector<Addr> places_of(BreakpointOwner owner) const;

  // Call for a SIGTRAP stop with the processor's registers. If an int3 of ours caused it, sets rip back onto it and
  // returns the owners, which are empty if the breakpoint was removed after the trap. Returns none if the trap is not
  // ours.
  std::optional<std::span<const BreakpointOwner>> hit(user_regs_struct& registers) const;

  // How often the node has come by this address since its last event, with the time at which a thread stands there now.
  // None if there was no breakpoint when that event was completed, so that nobody has counted.
  std::optional<uint64_t> passage(Addr address) const;
  // Whether threads that come by are counted for that. Those that execute a function which the debugger calls are not.
  void count_passages(bool on) { counts_passages_ = on; }

  // Takes `thread`, which stands at a breakpoint, past the instruction there. If there is no breakpoint at rip, changes
  // nothing and returns in_registers.
  Result<StepOver> step_over(ThreadId thread, user_regs_struct& registers);

  // Single-steps the instruction at rip of `thread` in place, lifting a breakpoint there for the duration. Leaves no
  // sign of the step in the program (pushf and popf would otherwise expose the trap flag). Of a rep instruction,
  // executes one iteration.
  Result<void> step_one(ThreadId thread);

  // Translates a pc to an address of the program. Outside pads and copies that is the pc itself; inside it is the
  // instruction that is being executed or comes next. None in the middle of a rewritten call, where no program address
  // describes the state; leave_pad() resolves that.
  std::optional<Addr> program_address(Addr pc) const;
  bool in_pad(Addr pc) const;
  bool is_pad(Addr pc) const { return pads_.contains(pc.value); }  // whether a pad begins there
  // Call for a thread that is put back to a breakpoint before it has executed the instruction there.
  void uncount_passage(Addr address);
  // Steps `thread` until its rip corresponds to a program address, and sets rip to that address.
  Result<void> leave_pad(ThreadId thread);

  // Call when the program has changed mappings in [low, high). Forgets breakpoints and patches whose bytes are no
  // longer in memory; contains() tells which are left.
  void forget_gone(Addr low, Addr high);
  // Address range that contains all breakpoints except internal ones; empty if there are none.
  std::pair<uint64_t, uint64_t> bounds() const;

  // Copies the state of `parent`, of whose memory this node's memory is a copy (fork, checkpoint), including the
  // breakpoints in the table of patched bytes.
  void copy_from(const Breakpoints& parent);

 private:
  struct Pad {
    uint64_t size = 0;
    // (offset in the pad, program address) pairs: where a pc in the pad corresponds to a program address.
    std::vector<std::pair<uint64_t, uint64_t>> meaning;
  };
  // What was counted at a place of execution.
  struct Passages {
    uint64_t since = 0;  // the number of events that the node had completed when there was first a breakpoint
    uint64_t event = 0;  // and when it came by last
    uint64_t count = 0;  // how often it has gone on from there since that event
  };
  // How to get past the instruction under a breakpoint. Chosen when the breakpoint is first stepped over, and again
  // when the code has changed.
  enum class Way : uint8_t { undecided, jump, branch, pad, in_place };
  struct Code {
    Instruction instruction;
    Way way = Way::undecided;
    uint64_t pad = 0;  // for Way::pad, its address
  };
  struct Area {
    PadArea area;
    uint64_t used = 0;
    std::optional<Addr> data;  // a page at the area's end that code in it may write
  };

  Result<bool> is_code(Addr address, bool* is_stack);
  // The same for one place of execution.
  Result<void> insert_at(Addr address, BreakpointOwner owner);
  Result<void> remove_at(Addr address, BreakpointOwner owner);
  Area* area_near(uint64_t address, size_t size);
  Area* area_for_code(Addr near_to, size_t size);
  Result<void> make_data_page(Area& area);
  void clear_window(Addr address, bool first_byte_too);
  Result<void> refresh(Addr address, Code& code);
  Result<void> choose_way(Code& code);
  Result<bool> make_pad(Code& code);
  Result<void> step_in_place(ThreadId thread, const user_regs_struct& registers);
  Result<void> step_clean(ThreadId thread, const user_regs_struct& before);
  Result<void> write_byte(Addr address, std::byte byte);
  void count_passage(uint64_t address);
  std::map<uint64_t, Pad>::const_iterator pad_of(uint64_t pc) const;

  NodeControl& node_;
  PatchedBytes& patches_;
  // All by the address at which the processor executes the instruction (PatchedBytes::executed_at()).
  std::unordered_map<uint64_t, std::vector<BreakpointOwner>> sites_;
  std::unordered_map<uint64_t, Passages> passages_;  // of `sites_`
  bool counts_passages_ = true;
  // for all instructions that were stepped over, with or without a breakpoint
  std::unordered_map<uint64_t, Code> codes_;
  // by base address; pads outlive their breakpoints, since a thread may still stand in one
  std::map<uint64_t, Pad> pads_;
  std::vector<Area> areas_;
};

}  // namespace friday
