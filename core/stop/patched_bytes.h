// The one table of every program byte of a node that Friday replaced: call-site patches of the shim, store patches of
// watchpoints, and breakpoints. Two layers: windows (a few bytes each, never overlapping) and, above them, int3 bytes
// of breakpoints, each on a byte of the program or on the first byte of a window.
//
// Owned by the node's session; used only by the thread that traces the node. Pure data: it never touches the node.
// A NodeControl keeps its rule 4 with two calls: read() passes what it read through show_original(), write() passes
// what it is about to write through keep_patches().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

enum class PatchKind : uint8_t {
  call_site,    // the shim's jump over a system call or rdtsc
  watch_store,  // a store that was sent to a patch
};

struct PatchWindow {
  uint64_t low = 0;
  PatchKind kind = PatchKind::call_site;
  std::vector<std::byte> original;  // the program's own bytes
  std::vector<std::byte> patched;   // what stands there now; as long as original
  uint64_t high() const { return low + original.size(); }
};

class PatchedBytes {
 public:
  // Registers a window that is already in memory, or about to be written. An overlap with another window is refused, so
  // is a window with a breakpoint behind its first byte; registering the same window again is no error.
  Result<void> add_window(PatchWindow window);
  void remove_window(Addr low);
  const PatchWindow* window_at(Addr address) const;  // the window that holds `address`, or nullptr

  // Breakpoint bytes. `under` is the byte that stood there (of the program, or of a window). Refused strictly inside a
  // window: an int3 there would change the operand of the jump that stands there.
  Result<void> add_breakpoint(Addr address, std::byte under);
  void remove_breakpoint(Addr address) { breakpoints_.erase(address.value); }
  bool has_breakpoint(Addr address) const { return breakpoints_.contains(address.value); }
  std::byte under_breakpoint(Addr address) const { return breakpoints_.at(address.value); }

  // `bytes` were read from the node at `address`: puts the program's own bytes back in.
  void show_original(Addr address, std::span<std::byte> bytes) const;
  // The same, but windows stay: what the processor would execute if there were no breakpoints.
  void hide_breakpoints(Addr address, std::span<std::byte> bytes) const;
  // `bytes` are to become the program's bytes at `address`: remembers them as the originals and puts the patches over
  // them, so that the result can be written as it is.
  void keep_patches(Addr address, std::span<std::byte> bytes);

  // Takes over the breakpoints and the patched stores of `parent`, of whose node this one's memory is a copy (fork).
  // Call sites are read from memory, where an int3 may have stood.
  void copy_from(const PatchedBytes& parent);

  std::vector<PatchWindow> windows_between(Addr low, Addr high) const;

  bool empty() const { return windows_.empty() && breakpoints_.empty(); }

 private:
  std::map<uint64_t, PatchWindow> windows_;
  std::map<uint64_t, std::byte> breakpoints_;
};

}  // namespace friday
