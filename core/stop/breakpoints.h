// The breakpoint instances of one node: int3 bytes, counted by owner, and stepping over them without a single step.
//
// A hit costs the tracer one look-up. To go on, the displaced instruction runs natively, out of line, in a *pad*: the
// instruction relocated (rip-relative operands, branches and calls rewritten), followed by a jump back. Plain jumps are
// done in the registers. What cannot be moved (no pad area within 2 GB, xbegin, syscall, ...) is stepped in place with
// its byte written back; the caller need not know which way was taken.
//
// Not owned threads: everything on the tracing thread, with the node stopped (see node_control.h). The session does
//   SIGTRAP:  regs -> hit(regs)             rip is set back onto the breakpoint, owners are returned
//   resume:   step_over(thread, regs)       when the thread stands on a breakpoint that was reported; then, if told so,
//                                           set_registers and continue
//   any other stop of a thread: program_address(rip), or leave_pad(thread) to bring it out of a pad
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

// Who wants a breakpoint: a stop point of Friday, a client of the remote serial protocol, or the session itself.
struct BreakpointOwner {
  enum class Kind : uint8_t { stop_point, rsp_client, internal };
  Kind kind = Kind::stop_point;
  uint32_t id = 0;
  auto operator<=>(const BreakpointOwner&) const = default;
};

// Executable memory of the node that Friday may fill with pads (readable by the program, never written by it).
struct PadArea {
  Addr base{};
  uint64_t size = 0;
};

enum class StepOver : uint8_t {
  in_registers,  // `registers` were changed: set them and continue
  stepped,       // the instruction was executed already: the thread stands behind it, `registers` are up to date
};

class Breakpoints {
 public:
  Breakpoints(NodeControl& node, PatchedBytes& patches) : node_(node), patches_(patches) {}

  void add_pad_area(PadArea area);
  bool in_pad_area(Addr address) const;
  // Puts other code of Friday's into a pad area near `near_to`, with the same promises as a pad: program_address() and
  // leave_pad() know it. `build` is given the place and returns the code, at most `size` bytes of it; none: nothing is
  // done. The answer is where it stands, or none when there is no room or no code.
  Result<std::optional<Addr>> place_code(Addr near_to, size_t size,
                                         const std::function<std::optional<PadCode>(Addr place, Addr data)>& build);

  PatchedBytes& patches() { return patches_; }
  // Told before a breakpoint is set or a thread is stepped inside a window of kind watch_store: it must be taken away.
  std::function<void(Addr low)> take_away;

  // The same owner may insert at one address several times; it counts once. Fails on memory that cannot be written, and
  // inside a patch of Friday's own.
  Result<void> insert(Addr address, BreakpointOwner owner);
  // Removing what is not there is no error. The last owner gone, the byte is put back.
  Result<void> remove(Addr address, BreakpointOwner owner);
  Result<void> remove_all(BreakpointOwner owner);
  Result<void> clear();  // all, whoever owns them

  bool contains(Addr address) const { return sites_.contains(address.value); }
  std::span<const BreakpointOwner> owners_at(Addr address) const;  // in order of insertion; empty when none
  size_t size() const { return sites_.size(); }

  // A SIGTRAP stop with these registers: when an int3 of ours caused it, sets rip back onto it and returns its owners
  // (which may be empty: the breakpoint was removed while the trap was on its way). None when the trap is not ours.
  std::optional<std::span<const BreakpointOwner>> hit(user_regs_struct& registers) const;

  // Takes `thread`, which stands at a breakpoint, past the instruction under it. Without a breakpoint at rip nothing
  // changes and the answer is in_registers.
  Result<StepOver> step_over(ThreadId thread, user_regs_struct& registers);

  // Executes the one instruction at rip of `thread` in place, with the breakpoint under it (if any) lifted meanwhile,
  // and leaves no trace of the step in the program (pushf and popf would show the trap flag). One iteration of a rep.
  Result<void> step_one(ThreadId thread);

  // The program's address of a pc: itself outside pads; inside, that of the instruction which stands or comes next
  // there. None in the middle of a rewritten call, where no address of the program says what is done (leave_pad helps).
  std::optional<Addr> program_address(Addr pc) const;
  bool in_pad(Addr pc) const;
  // Steps `thread` until its rip means a program address and sets rip to that.
  Result<void> leave_pad(ThreadId thread);

  // The program has changed mappings in [low, high): what no longer stands there is forgotten, patches too. contains()
  // says what is left.
  void forget_gone(Addr low, Addr high);
  // Bounds of all breakpoints but internal ones, empty when there are none.
  std::pair<uint64_t, uint64_t> bounds() const;

  // Takes over the state of `parent`, of which this node's memory is a copy (fork, checkpoint), with the breakpoints in
  // the table of patched bytes.
  void copy_from(const Breakpoints& parent);

 private:
  struct Pad {
    uint64_t size = 0;
    // Offsets in the pad where a pc means an address of the program.
    std::vector<std::pair<uint64_t, uint64_t>> meaning;
  };
  // How to get past the instruction under a breakpoint; decided at the first step over, again when the code has
  // changed.
  enum class Way : uint8_t { undecided, jump, branch, pad, in_place };
  struct Code {
    Instruction instruction;
    Way way = Way::undecided;
    uint64_t pad = 0;  // of Way::pad
  };
  struct Area {
    PadArea area;
    uint64_t used = 0;
    std::optional<Addr> data;  // a page at its end that the code in it may write
  };

  Area* area_near(uint64_t address, size_t size);
  Result<void> make_data_page(Area& area);
  void clear_window(Addr address, bool first_byte_too);
  Result<void> refresh(Addr address, Code& code);
  Result<void> choose_way(Code& code);
  Result<bool> make_pad(Code& code);
  Result<void> step_clean(ThreadId thread, const user_regs_struct& before);
  Result<void> write_byte(Addr address, std::byte byte);
  std::map<uint64_t, Pad>::const_iterator pad_of(uint64_t pc) const;

  NodeControl& node_;
  PatchedBytes& patches_;
  std::unordered_map<uint64_t, std::vector<BreakpointOwner>> sites_;
  std::unordered_map<uint64_t, Code> codes_;  // of all addresses that were stepped over, breakpoint or not
  std::map<uint64_t, Pad> pads_;              // by base; they stay when breakpoints go, since a thread may stand in one
  std::vector<Area> areas_;
};

}  // namespace friday
