// Friday's own gdb of one node: an MiSession whose target is the node's endpoint, which the same thread serves. gdb
// believes that its target is always stopped. After the core has run or changed the node, the link makes gdb discard
// its caches before the next command.
//
// Use on the session's thread only. Every method that waits for gdb serves the pump meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/debug/client.h"
#include "core/mi/multiplexer.h"
#include "core/mi/typed.h"
#include "core/replay/node.h"

namespace friday {

class GdbLink {
 public:
  // Starts a gdb for a node. Without a pump it must not wait, and may return null instead.
  using Maker = std::function<Result<std::unique_ptr<MiSession>>(ReplayNode&, Pump*)>;

  GdbLink(ReplayNode& node, ClientOwner& owner, std::string sysroot, uint32_t number, MiMultiplexer& gdbs,
          std::string socket_path, Maker maker)
      : node_(&node),
        gdbs_(gdbs),
        socket_path_(std::move(socket_path)),
        maker_(std::move(maker)),
        client_(node, owner, std::move(sysroot), number, false) {}

  // Call when the node was rebuilt. gdb is kept.
  void rebind(ReplayNode& node);

  // Starts gdb in the background, if it is not running. Commands wait until it is connected. Without a pump, does
  // nothing if starting it would require waiting.
  Result<void> start(Pump* pump = nullptr);
  // Ends a gdb that has not been given a command yet.
  void stop_idle();
  // Waits until gdb is connected; starts it if necessary.
  Result<void> ensure_ready(Pump& pump);
  bool started() const { return started_; }
  bool connected() const { return connected_; }
  // Whether a gdb that had died was replaced since the last call.
  bool take_replaced() { return std::exchange(replaced_, false); }

  // Call when the node has run, so that gdb's caches are out of date. `stopped` becomes gdb's selected thread; if it is
  // empty, the thread that holds the token at the next command.
  void moved(std::optional<ThreadId> stopped) {
    stale_ = true;
    thread_ = stopped;
    level_ = 0;
  }
  // Call when the node was changed but has not run. gdb's caches are out of date; its selected frame stays.
  void changed() { stale_ = true; }
  // Call when the user has selected a thread and a frame in gdb. Level 0 is the innermost frame.
  void selected(ThreadId thread, uint32_t level) {
    thread_ = thread;
    level_ = level;
  }

  // Call when the loader's list of libraries has changed.
  void libraries_changed() { stale_ = libraries_changed_ = true; }

  // Executes an MI command, in the selected thread and frame.
  Result<ResultRecord> run(std::string_view command, Pump& pump);
  // Executes a -friday- command (core/mi/gdb_friday.py) and returns its answer, which is JSON.
  Result<std::string> ask(std::string_view command, Pump& pump);
  // Executes a command of gdb's command line and returns what it printed.
  Result<std::string> console(std::string_view command, Pump& pump);
  // Executes an MI command that runs the target, such as -exec-next. Returns when gdb has seen the stop, as
  // gdb reports it.
  Result<MiStop> execute(std::string_view command, Pump& pump);

  Client& client() { return client_; }
  const std::string& socket_path() const { return socket_path_; }

 private:
  Result<MiSession*> session(Pump& pump);
  std::string connect_command() const;
  Result<void> connect(MiSession& gdb, Pump& pump);
  Result<void> refresh(MiSession& gdb, Pump& pump);
  Result<MiSession*> refreshed(Pump& pump);
  Result<void> end_command();

  ReplayNode* node_;
  MiMultiplexer& gdbs_;
  std::string socket_path_;
  Maker maker_;
  Client client_;
  bool started_ = false, connected_ = false, stale_ = false, replaced_ = false;
  bool executes_ = false;       // gdb waits for a stop that it has requested
  bool asked_ = false;          // gdb was given a command since it was started
  bool threads_known_ = false;  // gdb may know threads besides the first
  bool libraries_changed_ = false;
  size_t patches_known_ = 0;           // number of the node's patches when gdb last looked for libraries
  std::optional<MiToken> connecting_;  // the command that connects it, until its answer was seen
  std::optional<ThreadId> thread_;
  uint32_t level_ = 0;
};

}  // namespace friday
