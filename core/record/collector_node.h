// The collector's data on one node: its trace and socket, what is known of its process and of its end, and which work
// is due. Private to the files of class Collector, and like the collector used by one thread.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/refusals.h"
#include "core/record/collector.h"
#include "core/record/packer.h"
#include "core/trace/record.h"

namespace friday {

inline int64_t now_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec * 1000000000ll + now.tv_nsec;
}

struct Collector::Node {
  uint32_t id = 0;
  NodeOrigin origin;
  Beneath directory{"", ""};
  uint8_t uuid[16]{}, parent_uuid[16]{};
  UniqueFd trace, socket, peer;  // `peer` is the program's end of the socket until it is handed out
  format::FileHeader* header = nullptr;
  Packer::Trace* packed = nullptr;
  pid_t pid = 0;
  bool forked = false;       // its trace begins as a copy of its parent
  uint32_t launched_as = 0;  // the id of the first node of its process
  bool late = false;         // its process ran, unrecorded, before it
  bool on_standby = false;   // its process runs unrecorded
  bool schedule = false;     // of it only communication is kept
  // Of a process that has mapped what others may have mapped, too, and shall go on in another trace
  // (collector_cuts.cc).
  bool shares = false;         // it has said so
  uint32_t cut = 0;            // the attempt to do that together with others, in which it takes part; 0: none
  uint32_t ended_in_cut = 0;   // the one that has succeeded; 0: none
  uint32_t began_in_cut = 0;   // the one with which this node, or the part of its ancestor, has begun; 0: none
  bool shared_memory = false;  // in_group(), once it is closed
  int64_t call_again = 0;      // CLOCK_MONOTONIC before which it is not called once more after attempts in vain,
  int64_t call_pause = 0;      // and the pause in ns before that
  int64_t obstacle_since = 0;  // CLOCK_MONOTONIC since when something prevents that; 0: nothing does
  bool direct_child = false, hello = false, spawned = false, closed = false, hung_up = false;
  int64_t room_given = 0;  // CLOCK_MONOTONIC when room was last given
  bool waits_for_room = false, dropped = false, replaced = false;
  uint64_t events = 0, bytes = 0;  // final values, once the node is closed
  int64_t started_ns = 0;
  int64_t began_ns = now_ns(CLOCK_MONOTONIC);
  int wait_status = -1;
  int64_t ended_ns = 0;  // CLOCK_MONOTONIC when its process was seen to have ended
  uint32_t end_reason = 0;
  int end_detail = 0;
  std::string end_text;
  int forked_children = 0;
  uint64_t generation = 0;   // Collector::generations_ when it was made
  unsigned part = 1;         // which part of the process's recording this node is
  uint64_t image_bytes = 0;  // room in its trace for an image that a copy of the process writes
  UniqueFd image;            // while that is written: readable when it is complete or never will be
  bool close_when_imaged = false;
  ImageRoom room_ahead;       // for the next part
  Node* next_part = nullptr;  // has been given to the process, which may not have begun it yet
  // The program that the node was going to execute when it had recorded `execution_event` events, and the reason if
  // that program cannot be recorded.
  std::string executes, execution_problem;
  // Remarks for readers of the recording, by who made them.
  std::string shim_notice, outsiders_notice, module_notice, children_notice, cut_notice;
  uint64_t execution_event = 0;
  std::string steps;  // the contents of its steps.jsonl
  // When work is due, in ns of CLOCK_MONOTONIC; 0: none.
  int64_t describe_at = 0;  // write node.json, which is out of date
  int64_t close_at = 0;     // close the node: its process has ended, but somebody still holds its socket

  // Whether it shares memory with other recorded processes, or could have.
  bool in_group() const { return header ? header->features & format::kFeatureSharedMemory : shared_memory; }

  std::string notice() const {
    std::string text = shim_notice;
    for (const std::string& more : {cut_notice, outsiders_notice, module_notice, children_notice})
      text += (text.empty() || more.empty() ? "" : "; ") + more;
    return text;
  }
};

// Sends a message, with descriptors, to a process (collector_requests.cc). False: it cannot be sent.
bool send_reply(int socket, const void* data, size_t size, const int* fds, unsigned fd_count);

inline std::unexpected<Error> cannot_write(int error, const std::string& path) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG)
    return refused(Refusal::disk, fmt::format("{}: {}", path, strerror(error)));
  return fail_errno(error, fmt::format("cannot write {}", path));
}

}  // namespace friday
