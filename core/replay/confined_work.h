// Work on files of a stranger, such as the parsing of ELF and DWARF by a library, in a process of its own. That process
// can read files, use memory and answer; it can neither write files nor reach other processes or the network
// (docs/security.md). What goes wrong in it, a crash or a loop without end, costs the answer and nothing else.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace friday {

// Sends a question to the process that has begun the work, and returns its answer. Ends the process of the work if
// there is none any more.
using Ask = std::function<std::string(std::string_view question)>;

// Runs `work` in a forked process and returns what it returned. `answer` is called here, for each question that the
// work asks. What is longer than these limits, in bytes, is cut off. Fails with component_died if the process crashes,
// is not ready after `most` or if the kernel cannot confine it. The calling process may have other threads: the work
// must not wait for them.
//
// The process inherits the caller's memory, but none of its descriptors.
inline constexpr size_t kMostConfinedText = 1 << 20;    // of a question and of the result
inline constexpr size_t kMostConfinedAnswer = 1 << 16;  // of an answer
Result<std::string> run_confined(const std::function<std::string(const Ask&)>& work,
                                 const std::function<std::string(std::string_view)>& answer,
                                 std::chrono::milliseconds most);

}  // namespace friday
