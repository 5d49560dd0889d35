// What a recording holds of its programs and their world: for a person who has to decide whether it may be handed to
// somebody else. It is a survey of kinds and amounts, with the names that help to judge; it shows no values. One
// thread.
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
  std::vector<std::string> environment;  // names of its variables
  uint64_t memory_bytes = 0;  // of the program's memory as it began; all later memory can be computed from it
  std::map<std::string, uint64_t> file_bytes;  // read from files: path ("?": unknown) -> bytes
  std::map<std::string, uint64_t> peer_bytes;  // received: peer ("pipes and local sockets" for those) -> bytes
  uint64_t device_bytes = 0;                   // terminals and devices
  uint64_t other_bytes = 0;                    // other results of calls: names, times, random numbers
  uint64_t sent_bytes = 0;                     // not stored, but computed again at replay
  std::vector<std::string> paths;              // that calls named
  std::string problem;                         // why the trace could not be read to its end
};

struct CopyContents {
  std::string path;  // as the programs knew it; "?" if no trace says
  uint64_t bytes;
  bool is_code;  // an ELF file
};

struct Contents {
  std::vector<NodeContents> nodes;
  std::vector<CopyContents> copies;        // of mapped files, whole
  uint64_t symbol_bytes = 0;               // debug information that `friday pack` added
  std::map<std::string, uint64_t> others;  // further files in the directory, such as the output of a group's programs
  uint64_t total_bytes = 0;
  bool readable_by_others = false;
};

Result<Contents> survey(const Recording& recording);

// Whether a name suggests a secret: of an environment variable, a file, or an argument.
bool sounds_secret(const std::string& name);

}  // namespace friday
