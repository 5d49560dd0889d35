// A survey of what a recording contains of its programs and their surroundings, for somebody who must decide whether it
// may be handed to another person. It lists kinds, amounts and names that help to judge, but no values. Call it from
// one thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/trace/recording.h"

namespace friday {

struct NodeContents {
  NodeId id;
  std::string name, host, program, cwd;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // names of the environment variables, without their values
  // Program memory at the node's first event. Replay computes all later memory from it.
  uint64_t memory_bytes = 0;
  std::map<std::string, uint64_t> file_bytes;  // bytes read from each file, by path; "?" if the path is unknown
  std::map<std::string, uint64_t>
      peer_bytes;  // bytes received from each peer; pipes and local sockets together under "pipes and local sockets"
  uint64_t device_bytes = 0;       // read from terminals and devices
  uint64_t other_bytes = 0;        // other results of system calls: names, times, random numbers
  uint64_t left_out = 0;           // bytes received that the recording leaves out; a replay makes them again
  uint64_t sent_bytes = 0;         // bytes sent; they are not stored, replay computes them again
  std::vector<std::string> paths;  // paths that appear in system calls
  std::string problem;             // why the trace could not be read to its end; empty if it could
};

struct CopyContents {
  std::string path;  // as the programs knew the file; "?" if no trace names it
  uint64_t bytes;
  bool is_code;  // the file is in ELF format
};

struct Contents {
  std::vector<NodeContents> nodes;
  std::vector<CopyContents> copies;  // whole copies of mapped files
  uint64_t symbol_bytes = 0;         // separate debug information that `friday pack` added
  std::map<std::string, uint64_t>
      others;  // other files in the directory, such as the output of a group's programs, by path
  uint64_t total_bytes = 0;
  bool readable_by_others = false;
};

Result<Contents> survey(const Recording& recording);

// Whether the name of an environment variable, a file or an argument suggests that its value is a secret.
bool sounds_secret(const std::string& name);

}  // namespace friday
