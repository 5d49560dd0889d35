// Makes payload again that a recording leaves out (core/trace/regenerable.h): a replay of its senders, without stops,
// in which each copies what it sends into memory that all of them share, and takes what it lacks itself from there.
// What it has made is checked by hashes and kept in the recording's cache (core/trace/restored.h); from then on the
// recording reads as if nothing had been left out. And the reverse: leaves out what such a replay is known to make.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/shim/shim_abi.h"
#include "core/trace/inferred.h"
#include "core/trace/recording.h"

namespace friday {

class ReplaySession;

// What the shims do while payload is made again. `place` counts from the beginning of the shared bytes.
struct RestoringTables {
  std::map<NodeId, std::vector<shim::SentPiece>> sent;
  std::map<NodeId, std::vector<shim::ReceivedPiece>> received;
  uint64_t bytes = 0;                 // that are shared
  std::set<NodeId> may_be_unchecked;  // nodes with missing bytes
};

// Payload that was let go for good (LeftOut::is_let_go()): with its event `event` the node got it at `address`.
// Among the bytes that the nodes share it has its place as what is made again has.
struct MissingBytes {
  NodeId node{};
  uint64_t event = 0, address = 0, size = 0, place = 0;
};

// What was inferred of a node's missing bytes. The bytes themselves have been put to their places.
struct InferredNode {
  std::vector<Sureness> sureness;  // of the node's missing bytes, in their order
  std::vector<uint64_t> unchecked, touched;
  std::vector<InferredSpan> spans;
};

// Runs the session, which stands at its start, to its end, and finds out on the way what the missing bytes may have
// been (core/infer). Fails if that cannot be found out.
using Infer = std::function<Result<std::map<NodeId, InferredNode>>(ReplaySession& session,
                                                                   std::span<const MissingBytes> missing)>;

struct RestoringOptions {
  std::string library_directory;  // directory of friday-stub
  bool unconfined = false;        // as ReplayOptions::unconfined
  Infer infer;                    // as ReplayOptions::infer
};

struct Restored {
  size_t nodes = 0;    // that lacked payload
  uint64_t bytes = 0;  // that were made again
  // Of what nobody has any more, by Sureness: how many bytes. `received` are those that a hash proves.
  std::array<uint64_t, 4> inferred{};
};

// Makes what these nodes lack; does nothing if that is nothing. Replays only the senders, and theirs where they lack
// something themselves, and makes again what these lack, too. If another process is restoring the recording, waits for
// that. Fails with unsupported, before anything runs, if senders of some bytes are not in the recording, and without
// RestoringOptions::infer if some were let go. Keeps what was
// made again of each node whose hashes all hold, however the replay ended, and fails with bad_input if there is another
// one.
Result<Restored> restore_payload(const Recording& recording, const std::set<NodeId>& nodes,
                                 const RestoringOptions& options);

// How sure the bytes are that had to be inferred, as a sentence; empty if there are none.
std::string inferred_text(const Restored& restored);

// All nodes whose traces can be read.
std::set<NodeId> all_readable(const Recording& recording);

// The recording, of which these nodes' payload is at hand, for readers of traces.
Result<Recording> completed(Recording recording, const std::set<NodeId>& nodes, const RestoringOptions& options);

struct LeftOutReport {
  struct Node {
    NodeId id;
    uint64_t before, after;  // bytes of its trace as it is stored
    uint64_t left_out;       // bytes of payload
  };
  std::vector<Node> nodes;  // those of which something was left out
};

// Leaves out payload. The recording is changed only after a replay has made all of it again from what will be left, so
// nothing can be lost; its nodes must have ended. Needs room for a second copy of the traces meanwhile.
Result<LeftOutReport> leave_out_payload(const Recording& recording, const RestoringOptions& options);

}  // namespace friday
