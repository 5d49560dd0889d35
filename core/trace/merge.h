// Joins recordings that were made separately, usually one on each host, into one recording that every command accepts.
// Nodes are renumbered and their names may get a prefix. Traces are copied unchanged; file copies and debug information
// are copied once for equal contents.
//
// The output appears completely or not at all: it is built next to its final place, checked as a reader would check it,
// written to disk with fsync and renamed. The inputs are only read. Use from one thread; the progress callback is the
// only output.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/progress.h"

namespace friday {

struct MergeInput {
  std::string path;
  std::string prefix;  // empty: node names stay as they are; otherwise NODE becomes PREFIX.NODE
};

// Parses "web1=REC" or a path. If the whole text is an existing path, it is taken as a path.
Result<MergeInput> parse_merge_input(const std::string& text);

struct MergeOptions {
  std::string output;  // must not exist yet
  std::vector<MergeInput> inputs;
  // Treat every input as a host of its own even if boot ids are equal. Needed for copies (clones) of one virtual
  // machine.
  bool separate_hosts = false;
  // Leave out nodes whose traces cannot be used; without this option the first such node is an error.
  bool leave_out_damaged = false;
  Progress::Tell tell;  // called with the progress of a long merge; may be empty
};

struct MergeReport {
  struct Node {
    NodeId id;
    std::string name;
    size_t input;     // index into MergeOptions::inputs
    NodeId original;  // id of the node in that input
  };
  std::vector<Node> nodes;
  std::vector<Error> left_out;                          // the error of each damaged node
  std::vector<std::pair<size_t, size_t>> share_a_host;  // pairs of inputs with a common boot id
  size_t hosts = 0;
  uint64_t files = 0, bytes = 0;  // how many files and bytes were written
};

Result<MergeReport> merge_recordings(const MergeOptions& options);

}  // namespace friday
