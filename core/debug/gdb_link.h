// One node's gdb: an MiSession whose target is the node's own remote-serial-protocol endpoint, served by this same
// thread. gdb believes that its target is stopped all the time; whenever the core moved the node, the link has gdb
// forget what it remembers before the next question.
//
// Used on the session's thread; every method that waits does so by pumping.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/debug/client.h"
#include "core/mi/multiplexer.h"
#include "core/replay/node.h"

namespace friday {

class GdbLink {
 public:
  // Makes a gdb for a node; without a pump at once, or not at all (null).
  using Maker = std::function<Result<std::unique_ptr<MiSession>>(ReplayNode&, Pump*)>;

  GdbLink(ReplayNode& node, ClientOwner& owner, std::string sysroot, uint32_t number, MiMultiplexer& gdbs,
          std::string socket_path, Maker maker)
      : node_(&node),
        gdbs_(gdbs),
        socket_path_(std::move(socket_path)),
        maker_(std::move(maker)),
        client_(node, owner, std::move(sysroot), number, false) {}

  // The node was built anew, at its start: gdb stays.
  void rebind(ReplayNode& node);

  // Starts gdb in the background, if it is not there; questions wait until it is connected. Without a pump only what
  // can be done without waiting.
  Result<void> start(Pump* pump = nullptr);
  // Ends a gdb that nobody has asked anything yet.
  void stop_idle();
  Result<void> ensure_ready(Pump& pump);
  bool started() const { return started_; }
  bool connected() const { return connected_; }
  // Whether a gdb that had died was replaced since the last time this was asked.
  bool take_replaced() { return std::exchange(replaced_, false); }

  // The node moved: registers, memory and threads that gdb knows are old. `stopped` becomes gdb's selected thread;
  // none: the one whose turn it is when gdb is asked.
  void moved(std::optional<ThreadId> stopped) {
    stale_ = true;
    thread_ = stopped;
    level_ = 0;
  }
  // The node was changed where it stands: what gdb knows is old, what is selected in it stays.
  void changed() { stale_ = true; }
  // The user has selected a thread and one of its frames in gdb.
  void selected(ThreadId thread, uint32_t level) {
    thread_ = thread;
    level_ = level;
  }

  // The node's libraries are other ones than gdb knows.
  void libraries_changed() { stale_ = libraries_changed_ = true; }

  // MI command in the scope of the stopped thread.
  Result<ResultRecord> run(std::string_view command, Pump& pump);
  // The JSON answer of a -friday- command.
  Result<std::string> ask(std::string_view command, Pump& pump);
  // A command of gdb's command line; what it printed.
  Result<std::string> console(std::string_view command, Pump& pump);
  // Lets gdb run its target (-exec-next and so on); returns when gdb has seen the stop.
  Result<void> execute(std::string_view command, Pump& pump);

  Client& client() { return client_; }
  const std::string& socket_path() const { return socket_path_; }

 private:
  Result<MiSession*> session(Pump& pump);
  Result<void> refresh(MiSession& gdb, Pump& pump);
  Result<MiSession*> refreshed(Pump& pump);
  Result<void> end_command();

  ReplayNode* node_;
  MiMultiplexer& gdbs_;
  std::string socket_path_;
  Maker maker_;
  Client client_;
  bool started_ = false, connected_ = false, stale_ = false, replaced_ = false;
  bool asked_ = false;          // since it was started
  bool threads_known_ = false;  // gdb may know threads besides the first
  bool libraries_changed_ = false;
  size_t patches_known_ = 0;  // of the node when gdb last looked for libraries
  MiToken connecting_ = 0;
  std::optional<ThreadId> thread_;
  uint32_t level_ = 0;
};

}  // namespace friday
