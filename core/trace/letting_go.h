// Lets payload go for good that came from programs which are not in the recording: for a recording within a budget, or
// one that is handed on and must not hold it. What the programs computed from it can afterwards only be inferred
// (core/infer).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/left_out.h"
#include "core/trace/recording.h"

namespace friday {

struct LetGo {
  NodeId node{};
  uint64_t bytes = 0;              // of payload that were let go
  uint64_t before = 0, after = 0;  // bytes of its trace as it is stored
};

// Patterns are those of fnmatch(3), compared with the kind of a channel ("stream", "datagram", "seqpacket", "pipe"),
// its local and its remote address. Of each receive the first kKeptOfMessage bytes stay, and what a recorded node has
// sent stays, too. All nodes must have ended, and must lack nothing. A trace is replaced at once or stays as it was.
Result<std::vector<LetGo>> let_payload_go(const Recording& recording, std::span<const std::string> patterns);

}  // namespace friday
