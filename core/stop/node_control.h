// What the stop engine (core/stop) and the remote-serial-protocol endpoint (core/rsp) may do to one node, and nothing
// more. core/replay implements it over ptrace; tests implement it over a plain traced child.
//
// The contract, which both sides rely on:
//  1. All calls come from the one thread that traces the node.
//  2. Calls are made only while the node is stopped: at a trap, or parked at a consistent cut. A node that runs answers
//     component_died or unsupported, never stale data.
//  3. Registers are the program's: a thread that is parked inside the shim looks as if it stood at its system call site
//     (rip after the call instruction, rax = call number or result, general and vector state as the program left them).
//  4. read() and write() show the program's own bytes: what breakpoints, call-site patches and watch patches replaced
//  is
//     put back in what read() returns, and write() keeps those patches in force above the new bytes.
//     read_raw() and write_raw() show and change what is really there, protections notwithstanding.
//  5. Addresses are those of the recording; nothing here is relocated.
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
  ThreadId id;          // number in the node
  uint32_t tid = 0;     // tid as the program sees it (virtual)
  std::string name;     // comm, may be empty
  bool parked = false;  // inside the shim, waiting for its turn
};

// A mapping of the node, as the program sees it (protections that Friday changed are shown as the program's).
struct Mapping {
  uint64_t low = 0, high = 0;
  uint32_t protection = 0;  // PROT_ bits
  bool shared = false;
  bool stack = false;   // holds a thread's stack pointer, or is the main stack
  std::string path;     // of the file on this machine
  uint64_t offset = 0;  // in it, of `low`
};

class NodeControl {
 public:
  virtual ~NodeControl() = default;

  virtual NodeId id() const = 0;

  // Threads alive at this point of the replay, the one that stopped (or holds the token) first. Never empty while the
  // node is alive.
  virtual std::vector<ThreadInfo> threads() = 0;

  virtual Result<void> read(Addr address, std::span<std::byte> out) = 0;
  virtual Result<void> write(Addr address, std::span<const std::byte> data) = 0;
  virtual Result<void> read_raw(Addr address, std::span<std::byte> out) = 0;
  virtual Result<void> write_raw(Addr address, std::span<const std::byte> data) = 0;

  virtual Result<user_regs_struct> registers(ThreadId thread) = 0;
  virtual Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) = 0;
  // The XSAVE area in the standard (non-compacted) format, at least 576 bytes (legacy area and header).
  virtual Result<std::vector<std::byte>> extended_state(ThreadId thread) = 0;
  virtual Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) = 0;

  // Runs one system call in the node on Friday's behalf (mprotect, mmap): never seen by the program or the trace.
  // Returns the kernel's result, negative errno included.
  virtual Result<int64_t> inject(long number, std::span<const uint64_t> arguments) = 0;

  // Executes one instruction of `thread`, with no breakpoint under it. Other threads do not move.
  virtual Result<void> single_step(ThreadId thread) = 0;

  // What the processor shall watch in all threads, those of later too, from when they next go on.
  virtual Result<void> set_debug_slots(const DebugSlots&) {
    return fail(ErrorCode::unsupported, "this node has no debug registers to offer");
  }
  // Slots that `thread` has written to since the last time this was asked, a bit each. It stands behind the store.
  virtual uint32_t take_debug_hits(ThreadId) { return 0; }

  virtual Result<std::vector<Mapping>> mappings() = 0;
  virtual Result<std::vector<std::byte>> auxv() = 0;
  virtual std::string executable() = 0;            // path of the program's file, as gdb shall open it (below sysroot())
  virtual bool is_fridays(Addr) { return false; }  // code or data of Friday's own in the process
  virtual std::string sysroot() = 0;               // directory that gdb uses as `set sysroot`; "/" for live processes
};

}  // namespace friday
