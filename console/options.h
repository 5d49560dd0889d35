// The options of all commands that replay a recording.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "console/paths.h"

namespace friday {

inline void add_unconfined_flag(CLI::App& command, bool& unconfined) {
  command.add_flag("--unconfined", unconfined,
                   "Let replayed processes make any system call: for a recording that you trust, where the kernel has "
                   "no seccomp filters");
}

inline void add_replay_options(CLI::App& command, std::string& nodes, std::string& sync, bool& unconfined) {
  command.add_option("--node", nodes, "Only these nodes, e.g. 0-3,!2 or redis-*");
  command.add_option("--sync", sync, "Order of the nodes: clock (full), causal (what caused what), free")
      ->check(CLI::IsMember({"clock", "causal", "free"}));
  add_unconfined_flag(command, unconfined);
}

// The recording that a command is about.
inline CLI::Option* add_recording(CLI::App& command, std::string& recording) {
  return command.add_option("recording", recording, "The recording, or the name of a session (friday ls)")
      ->required()
      ->transform(recording_named);
}

inline void add_recording_options(CLI::App& command, std::string& recording, std::string& nodes, std::string& sync,
                                  bool& unconfined) {
  add_recording(command, recording);
  add_replay_options(command, nodes, sync, unconfined);
}

inline void add_symbols_option(CLI::App& command, std::vector<std::string>& symbols) {
  command
      .add_option(
          "--symbols", symbols,
          "Directory with .build-id/ of separate debug information, searched before /usr/lib/debug; may be repeated")
      ->allow_extra_args(false);
}

}  // namespace friday
