// A recording on disk: a directory with recording.json, one directory for each node, copies of mapped files, and
// derived data. Recording::open reads and checks only small items: the JSON files, and the header and first records of
// each trace. TraceReader reads the traces themselves. A Recording is a value without open files; any thread may read
// it.
//
// A node whose trace cannot be used is still listed, with `problem` set, so that the other nodes can be replayed.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

std::string hex_text(const Uuid& uuid);
bool is_zero(const Uuid& uuid);

// How the recording of a node ended.
struct NodeEnd {
  enum class How {
    exit,       // the program exited; `detail` is the exit code
    signal,     // the program was killed by a signal; `detail` is the signal number
    collector,  // `friday record` ended it (group stopped, Ctrl-C); `detail` is the signal, or 0
    unhandled,  // the program made a system call that Friday does not handle and went on unrecorded; `detail` is the
                // call number
    replaced,   // the program called execve; `text` names the new program. `detail` 1: that program is not recorded,
                // `text` says why
    continued,  // the process went on in another trace, that of the node which continues this one
    limited,    // disk full, size limit, or something that cannot be recorded; `text` says what
    running,    // still being recorded
    unknown,    // the collector was killed before it could store the end
  };
  How how = How::unknown;
  int64_t detail = 0;
  std::string text;
};
// For example "exited with 0", "killed by SIGKILL", "recording ended at call io_uring_enter".
std::string describe(const NodeEnd& end);

// Whether the recording ended before the program did, so that nothing is known of the program's later behaviour.
bool is_cut_off(const NodeEnd& end);

struct NodeInfo {
  NodeId id;
  std::string name;        // unique: NAME, NAME#2 (the same name was started again), NAME/child-1 (forked)
  std::string given_name;  // from the group file or the command line
  // The node that this one was created from; at most one of these is set. `parent`: this node is a copy made by fork.
  // `spawned_by`: it was executed by a vfork child of that node, as posix_spawn(3) does. `replaces`: it was executed in
  // that node's process. `continues`: it is the next part of that node's recording, in the same process.
  std::optional<NodeId> parent, spawned_by, replaces, continues;
  bool on_standby = false;            // its process runs unrecorded: nothing stands in its trace
  bool forked = false, part = false;  // whether its trace begins as a copy of its parent, or goes on where that ended
  bool schedule = false;              // only communication was kept, so that it cannot be replayed
  Uuid uuid{}, parent_uuid{}, boot_id{};
  std::vector<std::string> lineage;  // names from the oldest ancestor down to this node
  size_t generation = 0;             // how many ancestors the node has in the recording
  std::string program;               // path of the executable
  std::vector<std::string> argv;
  std::string cwd, host;
  uint32_t pid = 0;
  // Pid and start time (process_start) of the `friday record` process that recorded the node.
  uint32_t recorder_pid = 0;
  uint64_t recorder_start = 0;
  int64_t started_ns = 0;  // CLOCK_REALTIME
  // CLOCK_MONOTONIC of its host when the recorder saw the process begin, and when it saw that it had ended; 0 if it did
  // not see that.
  int64_t began_ns = 0, ended_ns = 0;
  std::optional<double> ran_seconds() const {
    if (!began_ns || ended_ns < began_ns) return std::nullopt;
    return static_cast<double>(ended_ns - began_ns) / 1e9;
  }
  NodeEnd end;
  std::optional<uint64_t> chaos;  // the seed of `friday record --chaos`, if it was on
  std::string notice;             // a remark of the recorder that readers should see; empty if there is none
  bool strict = false;
  uint64_t dropped = 0;
  uint64_t events = 0;       // count in the trace's header
  uint64_t trapped = 0;      // system calls made by code that was not patched
  uint64_t trace_bytes = 0;  // committed bytes
  // Bytes of the trace that the recording leaves out (LeftOut in packed.h), and whether a replay has made them again.
  uint64_t left_out = 0;
  bool restored = false;
  bool inferred = false;  // what has been made again was inferred in part (core/trace/inferred.h)
  bool is_complete() const { return left_out == 0 || restored; }
  // The event of the creating node (`parent`, `spawned_by`, `replaces` or `continues`) at which this node was created.
  uint64_t fork_event = 0;
  std::string build_id;          // of the program, hexadecimal; empty if unknown
  std::optional<Error> problem;  // why the trace cannot be used; empty if it can
};

// Whether the node's program, or its recorder, is running on this machine now.
bool program_lives(const NodeInfo& node);
bool recorder_lives(const NodeInfo& node);

// Fails unless `path` is a recording that this version can read. Looks at recording.json only, not at the nodes.
Result<void> check_recording(const std::string& path);
// What is said of a recording that has no nodes yet.
Error nothing_recorded(const std::string& path);

class Recording {
 public:
  // Fails if `path` is not a recording that this version can read, or if it has no nodes. Processes on standby are no
  // nodes yet; only who looks at a recording that is being made wants to see them.
  enum class Standby { left_out, shown };
  static Result<Recording> open(const std::string& path, Standby standby = Standby::left_out);

  const std::string& path() const { return path_; }
  int64_t created_ns() const { return created_ns_; }
  const std::vector<NodeInfo>& nodes() const { return nodes_; }  // ordered by id; ids may have gaps

  // Null if there is no such node.
  const NodeInfo* find(NodeId id) const;
  // Accepts a node's number, its unique name, or its given name (then the latest node with that name).
  Result<NodeId> resolve(const std::string& name) const;
  const NodeInfo* find_uuid(const Uuid& uuid) const;

  // Names of files in the recording. Open them with open_beneath, which refuses to leave the directory: whoever filled
  // it is not trusted.
  Beneath node_directory(NodeId id) const;
  Beneath trace(NodeId id) const;  // the plain form, which does not exist once the trace is compressed (packed.h)
  Beneath inside(std::string name) const { return {path_, std::move(name)}; }
  std::string files_directory() const { return path_ + "/files"; }
  // The copy of the file with this XXH3-128.
  Beneath file_copy(const uint8_t (&file)[16]) const;
  // Checks that every file copy is a regular file whose contents match the hash in its name. Replay takes code and
  // symbols from the copies. Reads all of them, so it is slow for large recordings.
  Result<void> check_copies() const;

  // True if users other than the owner may read the recording.
  bool readable_by_others() const { return readable_by_others_; }

 private:
  std::string path_;
  int64_t created_ns_ = 0;
  bool readable_by_others_ = false;
  std::vector<NodeInfo> nodes_;
  std::map<Uuid, size_t> by_uuid_;  // index in nodes_
};

}  // namespace friday
