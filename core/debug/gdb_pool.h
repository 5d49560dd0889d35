// The gdbs of a replayed group, and the reactor that serves them. Each node has a link to a gdb of its own, which is
// started when it is needed, or earlier in the background. In a group of many nodes, one gdb for each program (a
// zygote) loads the symbols and is copied for each node that needs a gdb. A node can also have a second endpoint, to
// which a gdb of the user connects.
//
// The pool owns the links, the zygotes, the endpoints and the sysroots. It passes the requests that gdbs make of the
// group to its ClientOwner, the Runner. It knows nothing of expressions or stop points.
//
// Use on the session's thread only, except interrupt(). A function that waits for a gdb must wait in pump_once(),
// because this thread serves the endpoint that the gdb talks to.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/debug/client.h"
#include "core/debug/focus.h"
#include "core/debug/gdb_link.h"
#include "core/debug/sysroots.h"
#include "core/mi/multiplexer.h"
#include "core/mi/zygote.h"

namespace friday {

// When a node gets its gdb: when it starts (in the background), or when it is first needed. In a group of more than
// kManyNodes nodes, `background` starts only the zygotes, and nodes get copies of them when they need a gdb.
enum class GdbStart { background, lazy };
constexpr size_t kManyNodes = 16;

struct GdbPoolOptions {
  GdbStart start = GdbStart::background;
  std::vector<std::string> symbols{};  // directories with .build-id/, which gdb searches before /usr/lib/debug
  bool confined = true;                // restrict what gdbs can access (core/mi/session.h)
};

class GdbPool final : public Pump {
 public:
  GdbPool(ReplaySession& session, Focus& focus, GdbPoolOptions options);
  // Sets who carries out the requests of gdbs. Must be called before the first node starts.
  void set_owner(ClientOwner& owner) { owner_ = &owner; }
  // Ends all gdbs and endpoints, while the nodes and the owner still exist.
  void close();

  // ---- the reactor
  std::vector<int> fds() const;
  // Serves Friday's own gdbs once, waiting at most `timeout_ms` (-1: without limit). Fails with `interrupted` if
  // interrupt() was called.
  Result<void> pump_once(int timeout_ms) override { return pump(timeout_ms, false); }
  // The same for all gdbs, including those of the user, which may run the group. Call only while no command of Friday
  // waits for an answer.
  Result<void> pump_with_users(int timeout_ms) { return pump(timeout_ms, true); }
  // Makes the next or current pump_once() fail with `interrupted`. Safe on any thread and in signal handlers.
  void interrupt() { interrupted_ = true; }
  // Whether interrupt() was called and has not taken effect yet; cancels it.
  bool take_interrupt() { return interrupted_.exchange(false); }

  // ---- when gdbs start
  size_t count() const { return gdbs_.count() + zygotes_.size(); }
  GdbStart start() const { return options_.start; }
  // `background` also starts missing gdbs now; `lazy` also ends those that have not been given a command yet.
  void set_start(GdbStart when);
  // Starts the gdbs of these nodes, so that they connect at the same time. Call before asking several nodes.
  Result<void> prepare(const std::vector<NodeId>& nodes);

  // ---- the gdb of one node
  // Returns the link of a node, with a gdb that is connected and knows the node's libraries. Starts the gdb if
  // necessary, which takes up to seconds.
  Result<GdbLink*> connect(NodeId node);
  bool is_connected(NodeId node) const;
  // Creates an endpoint for a gdb of the user, or another front end, and returns the path of its socket, for `target
  // remote PATH`. It serves one client at a time.
  Result<std::string> make_endpoint(NodeId node);
  // Lets the changes of the user's gdbs take effect, and gives up functions that they have called and that have not
  // returned.
  Result<void> end_users_commands();
  // The nodes in which gdbs of the user have stored since this was last asked. `settled`: while one of them may be
  // preparing a call (ClientView::take_settled()).
  enum class Stores { all, settled };
  std::vector<NodeId> take_users_stores(Stores which);
  // Asks gdb which frame is selected in it, and updates the Focus.
  void update_selection(NodeId node, GdbLink& link);

  // ---- what gdbs must be told
  // Call when the process of a node was built. The node's link and endpoint then serve the new process.
  void node_started(ReplayNode& node);
  // Call when the group has gone back to a time at which the node has no process. gdbs of other nodes are kept, because
  // names and addresses are the same in the new processes.
  void node_gone(NodeId node);
  // While a gdb of this node waits for what it has requested of the group, its link and its endpoint stay, even if the
  // node has no process for a time.
  void set_served(std::optional<NodeId> node) { served_ = node; }
  // Call when the group has run. gdb selects `thread` in the node `here`, and in other nodes the thread that holds the
  // token. `mover` is the client whose gdb requested the run; if it is one of Friday's own, it learns of the stop by
  // itself.
  void group_moved(NodeId here, ThreadId thread, const Client* mover = nullptr);
  // Call when only this node has run. Its gdb selects `thread`.
  void node_moved(NodeId node, ThreadId thread);
  // Call when memory of the node has changed but the node has not run. A gdb of the user need not be told of what it
  // has changed itself.
  enum class Changer { friday, user };
  void node_changed(NodeId node, Changer changer);
  // Tells all gdbs of the user but `mover` that the group begins to run, or stands again. Call when others than a gdb
  // of the user's run the group, too.
  void tell_users(const std::string& what, const Client* mover = nullptr);
  // Call when the loader has changed its list of libraries.
  void libraries_changed(NodeId node);

  // Restricts the reactor to one node's gdb, until it is called without a node. Needed while a node starts: the rest of
  // the group may be running, and a command for another node would stop that node. interrupt() then has no effect on
  // the pump, but only on the run.
  void serve_only(std::optional<NodeId> node) { only_ = node; }
  std::optional<NodeId> serves_only() const { return only_; }
  // True while all gdbs are being ended. The stop points that they remove meanwhile need not be removed.
  bool is_closing() const { return closing_; }

  // Messages for the user about gdbs that have died and were replaced, each returned once.
  std::vector<std::string> take_notices();

 private:
  struct NodeGdbs {
    std::unique_ptr<GdbLink> own;
    std::unique_ptr<Client> users;   // for a gdb of the user; null until make_endpoint()
    bool libraries_changed = false;  // since gdb was last given a command
    bool libraries_differ = false;   // from those of the node's start image
  };

  Result<void> pump(int timeout_ms, bool users);
  void serve(NodeId id, bool users, int fd);
  void serve_zygote(const std::string& file);
  bool many() const { return session_.nodes().size() > kManyNodes; }
  void start_in_background(ReplayNode& node);
  GdbZygote* zygote(ReplayNode& node);
  Result<std::unique_ptr<MiSession>> make_gdb(ReplayNode& node, Pump* pump);

  ReplaySession& session_;
  Focus& focus_;
  GdbPoolOptions options_;
  ClientOwner* owner_ = nullptr;
  Sysroots sysroots_;
  MiMultiplexer gdbs_;
  std::map<std::string, std::unique_ptr<GdbZygote>> zygotes_;  // by the program's file; null if it cannot be started
  std::map<NodeId, NodeGdbs> nodes_;
  uint32_t next_client_ = 1;
  bool has_users_ = false;  // there is an endpoint for a gdb of the user
  std::optional<NodeId> only_;
  std::optional<NodeId> served_;
  bool closing_ = false;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace friday
