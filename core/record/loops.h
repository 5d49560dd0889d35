// Finds places where the iterations of a waiting loop can be counted (core/shim/loop.cc): loops whose exit depends only
// on memory that the loop itself does not change, or on what a function returns that the loop calls. Whether such a
// loop really waits is a guess, and a wrong guess costs a nanosecond for each iteration. That the chosen instructions
// can be replaced is certain.
#pragma once

#include <Zydis/Zydis.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace friday {

inline constexpr uint64_t kLongestLoop = 2048, kLongestPlainLoop = 128;  // in bytes; plain: without a call

// Consecutive whole instructions, none of which stores or branches, and before which the arithmetic flags are dead; or
// a direct call, which stays a call and gets another target.
struct LoopWindow {
  uint64_t start;
  uint8_t length;        // in bytes: enough for a jump, and at most the size of shim::Patch::original
  uint8_t displacement;  // offset of a rip-relative displacement in the window; 0: none
};

struct LoopSites {
  std::vector<LoopWindow> windows{};  // that every iteration executes, the best first: one is enough
  std::vector<LoopWindow> calls{};    // that some iterations execute: all are needed
  uint64_t size = 0;                  // of the loop, in bytes
};

// A part of a loop: instructions of which either all are executed or none (flow.h).
struct LoopCode {
  uint64_t low;  // its address
  std::string_view bytes;
  bool each_iteration;
};

// Returns where the iterations of a loop can be counted; nothing if it does not look like a waiting loop. `code`: its
// parts in the order of their addresses. `jumps_unknown`: the function contains indirect jumps, so windows of several
// instructions are not safe.
LoopSites loop_sites(const ZydisDecoder& decoder, std::span<const LoopCode> code, bool jumps_unknown);

// Returns the window that begins with the `pause` at address `low`, if what follows it can move with it. `code`: from
// there to the end of what is known to be code.
std::optional<LoopWindow> pause_window(const ZydisDecoder& decoder, std::string_view code, uint64_t low);

}  // namespace friday
