// Makes payload again that a recording leaves out (core/trace/regenerable.h): a replay of the whole group, without
// stops, in which each sender copies what it sends into memory that all nodes share, and each receiver takes it from
// there. What it has made is checked by hashes and kept in the recording's cache (core/trace/restored.h); from then on
// the recording reads as if nothing had been left out. And the reverse: leaves out what such a replay is known to make.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/shim/shim_abi.h"
#include "core/trace/recording.h"

namespace friday {

// What the shims do while payload is made again. `place` counts from the beginning of the shared bytes.
struct RestoringTables {
  std::map<NodeId, std::vector<shim::SentPiece>> sent;
  std::map<NodeId, std::vector<shim::ReceivedPiece>> received;
  uint64_t bytes = 0;  // that are shared
};

struct RestoringOptions {
  std::string library_directory;  // directory of friday-stub
  bool unconfined = false;        // as ReplayOptions::unconfined
};

struct Restored {
  size_t nodes = 0;    // that lacked payload
  uint64_t bytes = 0;  // that were made again
};

// Does nothing if the recording lacks nothing. If another process is restoring it, waits for that. Fails with
// unsupported, before anything runs, if senders of some bytes are not in the recording. Keeps what was made again of
// each node whose hashes all hold, however the replay ended, and fails with bad_input if there is another one.
Result<Restored> restore_payload(const Recording& recording, const RestoringOptions& options);

// Opens a recording of which all payload is at hand, for readers of traces: makes it again first if necessary.
Result<Recording> open_complete(const std::string& path, const RestoringOptions& options);

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
