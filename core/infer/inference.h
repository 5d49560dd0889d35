// Infers payload that nobody has any more: during a replay of its receivers, in which the code that computes with such
// bytes is also run symbolically, by the program friday-infer (protocol.h), from each of the node's events to the next.
// What the recording says of the next event decides what the bytes must have been (Altekar and Stoica,
// UCB/EECS-2010-74, section 3: the paper's "just-in-time" inference, for each segment by itself).
//
// Friday's replay stays the judge: with the bytes that were found, the process itself runs the same code, and any event
// that is not as recorded is a divergence, as ever.
#pragma once

#include <chrono>
#include <string>

#include "core/infer/solver_link.h"
#include "core/replay/restoring.h"

namespace friday::infer {

struct InferenceOptions {
  std::string program;                         // path of friday-infer
  SolverLimits limits;                         // for each stretch of code
  std::chrono::milliseconds sureness{10'000};  // for finding out how sure the bytes of a node are
};

// For ReplayOptions::infer and RestoringOptions::infer.
Infer make_infer(InferenceOptions options);
// The same with the limits above, and with the program that lies beside friday-stub.
Infer make_infer(const std::string& library_directory);

}  // namespace friday::infer
