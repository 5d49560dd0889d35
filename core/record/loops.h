// Finds where a loop that may wait can be counted (core/shim/loop.cc): one whose end depends on nothing but memory that
// its own instructions leave alone. Whether a loop does wait is a guess, which costs a nanosecond an iteration where it
// is wrong; that its instructions may stand elsewhere is none.
#pragma once

#include <Zydis/Zydis.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace friday {

inline constexpr uint64_t kLongestLoop = 128;  // bytes

// Whole instructions in straight line, executed in every iteration, of which none stores or branches, and in front of
// which the program has no use for the arithmetic flags.
struct LoopWindow {
  uint64_t start;
  uint8_t length;        // room for a jump, and not more than shim::Patch::original
  uint8_t displacement;  // where in it a displacement to rip stands; 0: none
};

// `code` is the loop's, from the target of the branch at its end to behind that branch, at address `low`. In order of
// preference; none if it does not look like one that waits. `jumps_unknown`: the function has jumps to who knows where,
// so that windows of more than one instruction are out.
std::vector<LoopWindow> loop_windows(const ZydisDecoder& decoder, std::string_view code, uint64_t low,
                                     bool jumps_unknown);

}  // namespace friday
