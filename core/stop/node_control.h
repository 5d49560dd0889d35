// The operations on one node that the stop engine (core/stop) and the remote serial protocol (core/rsp) may use.
// core/replay implements this interface over ptrace; tests implement it over a plain traced child.
//
// Callers and implementations rely on these rules:
//  1. All calls are made by the one thread that traces the node.
//  2. Calls are made only while the node is stopped: at a trap, or parked at a consistent cut. For a running node they
//     fail with component_died or unsupported; they never return stale data.
//  3. Registers are the program's: a thread that is parked inside the shim appears to stand after its system call
//     instruction (rax = call number or result, other registers and vector state as the program left them).
//  4. read() and write() show the program's own bytes: read() restores what breakpoints, call-site patches and watch
//     patches replaced, and write() keeps those patches on top of the new bytes. read_raw() and write_raw() access the
//     real bytes and ignore page protections.
//  5. Addresses are those of the recording; this interface relocates nothing.
#pragma once

#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/debug_registers.h"

namespace friday {

struct ThreadInfo {
  ThreadId id;          // thread number in the node
  uint32_t tid = 0;     // tid as the program sees it, which differs from the real one
  std::string name;     // comm; may be empty
  bool parked = false;  // waits inside the shim for its turn
};

// A mapping of the node as the program sees it: with the program's protection, not the one that Friday may have set.
struct Mapping {
  uint64_t low = 0, high = 0;
  uint32_t protection = 0;  // PROT_ bits
  bool shared = false;
  bool stack = false;   // contains some thread's stack pointer, or is the main stack
  std::string path;     // of the mapped file on this machine
  uint64_t offset = 0;  // file offset of `low`
};

class NodeControl {
 public:
  virtual ~NodeControl() = default;

  virtual NodeId id() const = 0;
  // The number of events that the node has completed; 0 where there is no replay.
  virtual uint64_t events_done() const { return 0; }

  // Threads alive at this point of the replay. The thread that stopped, or that holds the token, comes first. Never
  // empty while the node is alive.
  virtual std::vector<ThreadInfo> threads() = 0;

  virtual Result<void> read(Addr address, std::span<std::byte> out) = 0;
  virtual Result<void> write(Addr address, std::span<const std::byte> data) = 0;
  virtual Result<void> read_raw(Addr address, std::span<std::byte> out) = 0;
  virtual Result<void> write_raw(Addr address, std::span<const std::byte> data) = 0;

  virtual Result<user_regs_struct> registers(ThreadId thread) = 0;
  virtual Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) = 0;
  // The XSAVE area in the standard (non-compacted) format: at least 576 bytes (legacy area and header).
  virtual Result<std::vector<std::byte>> extended_state(ThreadId thread) = 0;
  virtual Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) = 0;

  // Executes one system call in the node for Friday (mprotect, mmap). The program and the trace do not see it. Returns
  // the kernel's result: a negative errno if the call failed.
  virtual Result<int64_t> inject(long number, std::span<const uint64_t> arguments) = 0;

  // Executes one instruction of `thread`, which must not stand on a breakpoint. Other threads do not run.
  virtual Result<void> single_step(ThreadId thread) = 0;

  // Whether the processor reports what debug registers watch. On some virtual machines it does not.
  virtual bool has_debug_registers() { return true; }
  // Sets what the processor watches in all threads, including those created later; takes effect when they resume.
  virtual Result<void> set_debug_slots(const DebugSlots&) {
    return fail(ErrorCode::unsupported, "this node has no debug registers to offer");
  }
  // Which slots `thread` has hit since the last call, one bit for each; other bits for slots that are used for
  // something else since. The thread stands after the store.
  virtual uint32_t take_debug_hits(ThreadId) { return 0; }

  virtual Result<std::vector<Mapping>> mappings() = 0;
  virtual Result<std::vector<std::byte>> auxv() = 0;
  virtual std::string executable() = 0;            // path of the program's file, as the program's own system names it
  virtual bool is_fridays(Addr) { return false; }  // true for Friday's own code and data in the process
};

}  // namespace friday
