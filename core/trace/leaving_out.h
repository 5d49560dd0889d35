// Writes the compressed form of a trace without payload that a replay of the senders makes again (regenerable.h).
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/packed.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"
#include "core/trace/regenerable.h"

namespace friday {

// Of what is regenerable, what is worth leaving out. These bytes are kept: the first kKeptOfStream of each direction of
// a connection, which tell connections apart, the first `heads` of each receive, which people want to read, and what
// would not pay: pieces of less than kLeastPiece, and runs without a gap that are shorter than kLeastRun. The ranges
// rise.
inline constexpr uint64_t kKeptOfStream = 4096, kKeptOfMessage = 32, kLeastRun = 64, kLeastPiece = 16;
std::vector<LeftOut> choose_left_out(std::span<const Regenerable> regenerable, uint64_t heads = kKeptOfMessage);

// What of the bytes [from, to) of a trace nobody in the recording has sent: all that is not in `known`, which rises.
// Each piece is handed to add(from, to).
void for_each_foreign(std::span<const Regenerable> known, uint64_t from, uint64_t to,
                      const std::function<void(uint64_t from, uint64_t to)>& add);

// Whether one of the patterns (fnmatch(3)) names a channel with these names: its kind, its local and its remote
// address.
bool is_named(std::span<const std::string> patterns, std::span<const std::string> names);

// Fails if the node cannot be read, or is still being recorded: then its trace must not be replaced.
Result<void> check_ended(const NodeInfo& node);

// How many bytes the trace takes, in both its forms.
uint64_t stored_bytes(const Beneath& trace);

// Writes the whole trace to `file`, which must not exist, without the payload in `ranges`. The trace must be complete.
Result<void> write_without(const TraceReader& trace, std::span<const LeftOut> ranges, const Beneath& file);

}  // namespace friday
