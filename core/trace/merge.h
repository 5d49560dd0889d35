// Joins recordings that were made apart, as a rule one a host, into one that every command takes. Nodes are numbered
// anew and may get a prefix to their names; traces are copied as they are, copies of mapped files and debug information
// once by content.
//
// The output appears whole or not at all: it is put together beside its place, checked as a reader would, written
// through to the disk and renamed. The inputs are only read. One thread; nothing is printed.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/base/progress.h"

namespace friday {

struct MergeInput {
  std::string path;
  std::string prefix;  // empty: names stay; else NODE becomes PREFIX.NODE
};

// "web1=REC", or just a path. A path that exists is one, whatever it holds.
Result<MergeInput> parse_merge_input(const std::string& text);

struct MergeOptions {
  std::string output;  // must not exist
  std::vector<MergeInput> inputs;
  // Equal boot ids do not mean one clock: each input is a host of its own. For copies of one virtual machine.
  bool separate_hosts = false;
  // Nodes whose traces cannot be used are left out. Without it the first of them is an error.
  bool leave_out_damaged = false;
  Progress::Tell tell;  // who is told how far it has come, if that takes long; may be empty
};

struct MergeReport {
  struct Node {
    NodeId id;
    std::string name;
    size_t input;     // in MergeOptions::inputs
    NodeId original;  // its id there
  };
  std::vector<Node> nodes;
  std::vector<Error> left_out;                          // damaged nodes
  std::vector<std::pair<size_t, size_t>> share_a_host;  // inputs that have a boot id in common
  size_t hosts = 0;
  uint64_t files = 0, bytes = 0;  // written
};

Result<MergeReport> merge_recordings(const MergeOptions& options);

}  // namespace friday
