// The single table of all program bytes of a node that Friday has replaced: call-site patches of the shim, store
// patches of watchpoints, and breakpoints. It has two layers: windows (a few bytes each, never overlapping), and above
// them the int3 bytes of breakpoints, each on a byte of the program or on the first byte of a window.
//
// Owned by the node's session; used only by the thread that traces the node. Pure data: it never accesses the node. A
// NodeControl fulfils its rule 4 with two calls: read() passes what it read through show_original(), and write() passes
// what it is going to write through keep_patches().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

inline constexpr std::byte int3{0xcc};  // the instruction of a breakpoint

enum class PatchKind : uint8_t {
  call_site,    // the shim's jump in place of a system call or rdtsc
  watch_store,  // a jump to the patched form of a store (store_patch.h)
  passage,      // a jump to code that counts how often the node comes by (passage_patch.h)
};

struct PatchWindow {
  uint64_t low = 0;
  PatchKind kind = PatchKind::call_site;
  std::vector<std::byte> original;  // the program's own bytes
  std::vector<std::byte> patched;   // the bytes in memory now; as many as `original`
  // Where the processor executes the instructions of `original` from the byte `copied` on, unchanged in length; 0 if
  // nowhere (they are emulated).
  uint64_t copy = 0;
  uint8_t copied = 0;
  // The instruction at `low` is reached only through code of Friday's in front of its copy (a loop site's count).
  bool has_prologue = false;
  // Friday's code behind the copy does what the instruction behind the window does, which is executed only if a branch
  // leads there.
  bool continues = false;
  uint64_t high() const { return low + original.size(); }
};

class PatchedBytes {
 public:
  // Registers a window that is in memory already or about to be written. Fails if it overlaps another window or has a
  // breakpoint after its first byte; registering the same window again is no error.
  Result<void> add_window(PatchWindow window);
  void remove_window(Addr low);
  const PatchWindow* window_at(Addr address) const;  // the window that contains `address`, or nullptr

  // Where the processor executes the program's instruction at `address`: in the copy that belongs to a window, or
  // there.
  Addr executed_at(Addr address) const;
  // A second place at which the instruction at `address` is executed: the end of a copy that continues (PatchWindow).
  std::optional<Addr> also_executed_at(Addr address) const;
  // The reverse of both: what `executed` means in the program. The end of a copy, where Friday's jump back stands,
  // means the program's instruction behind the window.
  Addr program_address(Addr executed) const;
  bool in_copy(Addr executed) const { return copy_of(executed) != nullptr; }
  bool ends_copy(Addr executed) const;

  // Registers a breakpoint at the place where its instruction is executed. `under` is the byte that it replaced, of the
  // program, of a window or of a copy. Fails inside a window after its first byte: an int3 there would change the
  // operand of the window's jump.
  Result<void> add_breakpoint(Addr address, std::byte under);
  void remove_breakpoint(Addr address) { breakpoints_.erase(address.value); }
  std::byte under_breakpoint(Addr address) const { return breakpoints_.at(address.value); }

  // `bytes` were read from the node at `address`: restores the program's own bytes in them.
  void show_original(Addr address, std::span<std::byte> bytes) const;
  // The same, but keeps windows: the result is what the processor would execute without breakpoints.
  void hide_breakpoints(Addr address, std::span<std::byte> bytes) const;
  // `bytes` are to become the program's bytes at `address`: stores them as the originals and puts the patches on top,
  // so that the caller can write the result as it is.
  void keep_patches(Addr address, std::span<std::byte> bytes);

  // Copies the breakpoints and the patches of Friday of `parent`, of whose memory this node's memory is a copy (fork).
  // Call sites are registered separately, by reading the memory; a byte read there may have been an int3.
  void copy_from(const PatchedBytes& parent);

  std::vector<PatchWindow> windows_between(Addr low, Addr high) const;

  bool empty() const { return windows_.empty() && breakpoints_.empty(); }

 private:
  const PatchWindow* copy_of(Addr executed) const;

  std::map<uint64_t, PatchWindow> windows_;
  std::map<uint64_t, uint64_t> copies_;  // PatchWindow::low by PatchWindow::copy
  std::map<uint64_t, std::byte> breakpoints_;
};

}  // namespace friday
