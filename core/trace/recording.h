// A recording on disk: a directory with recording.json, one directory a node, copies of mapped files, and derived data.
// Recording::open reads what is small (the JSON files, each trace's header and first records) and checks it; traces
// themselves are read by TraceReader. A Recording is a value without open files; any thread may read one.
//
// A node whose trace cannot be used is still listed, with `problem` set, so that the others can be replayed without it.
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

using Uuid = std::array<uint8_t, 16>;
std::string hex_text(const Uuid& uuid);
bool is_zero(const Uuid& uuid);

// How a node's recording came to its end.
struct NodeEnd {
  enum class How {
    exit,       // the program exited; detail: code
    signal,     // killed by a signal; detail: its number
    collector,  // ended by `friday record` (group stopped, Ctrl-C); detail: signal or 0
    unhandled,  // the recording ended at a call Friday does not handle, the program went on; detail: call number
    replaced,   // execve: another program took its place, text says which; detail 1: one that is not recorded, and why
    limited,    // disk full, size limit, or something that cannot be recorded; text says what
    running,    // still being recorded
    unknown,    // the collector was killed before it could tell
  };
  How how = How::unknown;
  int64_t detail = 0;
  std::string text;
};
// "exited with 0", "killed by SIGKILL", "recording ended at call io_uring_enter".
std::string describe(const NodeEnd& end);

// Whether the recording ended before the program did. What it did afterwards nobody knows.
bool is_cut_off(const NodeEnd& end);

struct NodeInfo {
  NodeId id;
  std::string name;        // unique: NAME, NAME#2 (the same name started again), NAME/child-1 (forked)
  std::string given_name;  // as the group file or command line had it
  // Where it comes from, at most one of these: a copy of `parent` by fork; executed by a child of `spawned_by` by
  // vfork, as posix_spawn(3) does; executed in the place of `replaces`.
  std::optional<NodeId> parent, spawned_by, replaces;
  bool forked = false;
  Uuid uuid{}, parent_uuid{}, boot_id{};
  std::vector<std::string> lineage;  // names from the first ancestor to this node
  size_t generation = 0;             // how many nodes of the recording it comes from, one by one
  std::string program;               // path of the executable
  std::vector<std::string> argv;
  std::string cwd, host;
  uint32_t pid = 0;
  uint32_t recorder_pid = 0;  // of the `friday record` that recorded it, and that process's start (process_start)
  uint64_t recorder_start = 0;
  int64_t started_ns = 0;  // CLOCK_REALTIME
  int64_t ended_ns = 0;    // CLOCK_MONOTONIC of its host when its recorder saw its process end; 0: it did not
  NodeEnd end;
  std::string notice;  // what its recorder noticed that readers should know; empty: nothing
  bool strict = false;
  uint64_t dropped = 0;
  uint64_t events = 0;           // as the trace's header says
  uint64_t trapped = 0;          // calls from code that was not patched
  uint64_t trace_bytes = 0;      // committed
  uint64_t fork_event = 0;       // of the one it comes from: the event that made it
  std::string build_id;          // of the program, hex; empty if unknown
  std::optional<Error> problem;  // why the trace cannot be used
};

// Whether the node's program, or its recorder, runs on this machine now.
bool program_lives(const NodeInfo& node);
bool recorder_lives(const NodeInfo& node);

class Recording {
 public:
  // Fails when `path` is no recording this version can read, or holds no node.
  static Result<Recording> open(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t created_ns() const { return created_ns_; }
  const std::vector<NodeInfo>& nodes() const { return nodes_; }  // in order of id; ids may have gaps

  // Null if there is none.
  const NodeInfo* find(NodeId id) const;
  // By number, by unique name, or by given name (the latest that carries it).
  Result<NodeId> resolve(const std::string& name) const;
  const NodeInfo* find_uuid(const Uuid& uuid) const;

  // Files are opened by these names, with open_beneath: whoever filled the directory is a stranger.
  Beneath node_directory(NodeId id) const;
  Beneath trace(NodeId id) const;  // in its plain form, which need not be there (packed.h)
  Beneath inside(std::string name) const { return {path_, std::move(name)}; }
  std::string files_directory() const { return path_ + "/files"; }
  // The copy with this XXH3-128.
  Beneath file_copy(const uint8_t (&file)[16]) const;
  // Whether every copy still is what its name says, and no other thing than a file lies there: the programs' code and
  // symbols come from them. Reads them all.
  Result<void> check_copies() const;

  // True if someone other than the owner may read the recording.
  bool readable_by_others() const { return readable_by_others_; }

 private:
  std::string path_;
  int64_t created_ns_ = 0;
  bool readable_by_others_ = false;
  std::vector<NodeInfo> nodes_;
};

}  // namespace friday
