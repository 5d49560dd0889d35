// What the processes of one run said to each other: each message that one of them sent or received, in the order of
// logical time, with its first bytes. This is all that a comparison of runs needs, and small, so it is kept when the
// recording of a run is removed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/error.h"
#include "core/study/framing.h"
#include "core/trace/recording.h"

namespace friday {

struct TalkEvent {
  static constexpr uint32_t kOutside = ~uint32_t{0};  // as a partner: somebody who was not recorded
  static constexpr uint32_t kUnknown = ~uint32_t{0};  // as a text: the recording does not have the bytes

  uint32_t role = 0;            // who sends or receives: an index in Talk::roles
  uint32_t partner = kOutside;  // the other end: a role, or kOutside
  uint32_t text = kUnknown;     // the first bytes: an index in Talk::texts, or kUnknown
  uint32_t node = 0;            // the node's id in the recording
  uint64_t event = 0;           // the event of that node at which the message was sent, or had come as a whole
  uint64_t message = 0;         // a number that both ends of a message have in common
  uint64_t length = 0;          // of the message, in bytes
  int64_t ns = 0;               // logical time since the start of the recording
  uint64_t sent = 0;            // 1 or 0: received
};

struct Talk {
  static constexpr size_t kMostBytes = 500;     // that are kept of a message
  static constexpr size_t kMostRoles = 10'000;  // of a run

  std::vector<std::string> roles;
  std::vector<std::string> texts;  // no two are equal
  std::vector<TalkEvent> events;

  // `scope`: a role; then only what descends from the messages of its processes and their children is taken
  // (descent.h). Fails as opening and reading the recording's traces do, if one of its nodes is damaged, and with
  // not_found if no node has the role.
  static Result<Talk> of(const Recording& recording, const Framing& framing = {}, const std::string& scope = "");

  // Fails with unsupported if the run has more messages, or roles, than read() takes.
  Result<void> write(const Beneath& file) const;
  // Fails with bad_input if the file is no such one, or is damaged.
  static Result<Talk> read(const Beneath& file);
};

// What a node is called in all runs: its name without the numbers of its start and of forks and execs. "redis-1#2" is
// "redis-1", and "web/child-17" is "web/child".
std::string role_of(const std::string& node_name);

}  // namespace friday
