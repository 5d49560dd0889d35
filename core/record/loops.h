// Finds places where the iterations of a waiting loop can be counted (core/shim/loop.cc): loops whose exit depends only
// on memory that the loop itself does not change. Whether such a loop really waits is a guess, and a wrong guess costs
// a nanosecond for each iteration. That the chosen instructions can be moved is certain.
#pragma once

#include <Zydis/Zydis.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace friday {

inline constexpr uint64_t kLongestLoop = 128;  // in bytes

// Consecutive whole instructions that every iteration executes, none of which stores or branches, and before which the
// arithmetic flags are dead.
struct LoopWindow {
  uint64_t start;
  uint8_t length;        // in bytes: enough for a jump, and at most the size of shim::Patch::original
  uint8_t displacement;  // offset of a rip-relative displacement in the window; 0: none
};

// Returns the possible windows of a loop, the best first; none if the loop does not look like a waiting loop. `code` is
// the loop at address `low`, from the target of its final branch to the end of that branch. `jumps_unknown`: the
// function contains indirect jumps, so windows of several instructions are not safe.
std::vector<LoopWindow> loop_windows(const ZydisDecoder& decoder, std::string_view code, uint64_t low,
                                     bool jumps_unknown);

// Returns the window that begins with the `pause` at address `low`, if what follows it can move with it. `code`: from
// there to the end of what is known to be code.
std::optional<LoopWindow> pause_window(const ZydisDecoder& decoder, std::string_view code, uint64_t low);

}  // namespace friday
