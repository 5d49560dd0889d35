// The gdbs of a replayed group, and the reactor that serves them. Each node has a link to a gdb of its own, which is
// started when it is needed, or earlier in the background; a group of many nodes has one gdb a program that loads the
// symbols (a zygote) and is copied for a node that needs one. A node can have a second endpoint, where a gdb of the
// user's connects.
//
// The pool owns the links, the zygotes, the endpoints and the sysroots. What a gdb asks of the group it hands to its
// ClientOwner, which is the runner. It knows nothing of expressions and of stop points.
//
// Used on the session's thread, interrupt() aside. Whatever waits for a gdb does so in pump_once(), since this thread
// must serve the endpoint that the gdb talks to.
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

// When a node gets its gdb: at once, or when it is first asked something that needs one. A group of more than
// kManyNodes nodes has one gdb a program that loads the symbols, at once, and copies of it when they are needed.
enum class GdbStart { background, lazy };
constexpr size_t kManyNodes = 16;

struct GdbPoolOptions {
  GdbStart start = GdbStart::background;
  std::vector<std::string> symbols{};  // directories with .build-id/, looked in before /usr/lib/debug
  bool confined = true;                // gdbs may reach nothing but what they need (core/mi/session.h)
};

class GdbPool final : public Pump {
 public:
  GdbPool(ReplaySession& session, Focus& focus, GdbPoolOptions options);
  // Who does what gdbs ask of the group; set before the first node starts.
  void set_owner(ClientOwner& owner) { owner_ = &owner; }
  // Ends all gdbs and endpoints, while the nodes and the owner still exist.
  void close();

  // ---- the reactor
  std::vector<int> fds() const;
  // Serves Friday's own gdbs once. The error `interrupted` says that the user has interrupted what is waited for.
  Result<void> pump_once(int timeout_ms) override { return pump(timeout_ms, false); }
  // The same while nobody waits for an answer of Friday's: gdbs of the user's are served too, and may run the group.
  Result<void> pump_with_users(int timeout_ms) { return pump(timeout_ms, true); }
  // Ends the question that a gdb is busy with. Safe on any thread and in a signal handler.
  void interrupt() { interrupted_ = true; }
  // Whether the user has interrupted since this was asked last.
  bool take_interrupt() { return interrupted_.exchange(false); }

  // ---- when gdbs start
  size_t count() const { return gdbs_.count() + zygotes_.size(); }
  GdbStart start() const { return options_.start; }
  // From now on; `lazy` also ends those that nobody has asked yet.
  void set_start(GdbStart when);
  // Makes the gdbs of these nodes, which then connect at the same time: for a question to all of them.
  Result<void> prepare(const std::vector<NodeId>& nodes);

  // ---- the gdb of one node
  // The link of a node whose gdb is connected and knows the node's libraries; starts the gdb if need be, which takes
  // up to seconds.
  Result<GdbLink*> connect(NodeId node);
  bool is_connected(NodeId node) const;
  // A socket for `target remote`, where a gdb of the user's, or another front end, finds the node. One client at a
  // time.
  Result<std::string> make_endpoint(NodeId node);
  // What gdbs of the user's have changed takes effect; a function that one has called and that has not come back is
  // given up.
  Result<void> end_users_commands();
  // Asks gdb which frame is selected in it, and tells the focus.
  void update_selection(NodeId node, GdbLink& link);

  // ---- what gdbs must be told
  // The node's process was built: its link and its endpoint serve the new one from now on.
  void node_started(ReplayNode& node);
  // Before the group is built anew: gdbs stay, since names and addresses are the same in the new processes. Those of
  // forked nodes go, since their nodes are gone until they are forked again.
  void before_restart();
  // The group has moved: what gdbs know of registers and memory is old. They select `thread` in the node `here`, and in
  // any other node the thread whose turn it is. `mover` is the client whose gdb had the group run: if that is a gdb of
  // Friday's own, it learns of the stop by itself.
  void group_moved(NodeId here, ThreadId thread, const Client* mover = nullptr);
  // One node has moved, and its gdb selects `thread`.
  void node_moved(NodeId node, ThreadId thread);
  // Memory of the node has changed where it stands.
  void node_changed(NodeId node);
  // The loader has changed its list of libraries.
  void libraries_changed(NodeId node);

  // While a node starts the group may be running. Then only this node's gdb is served, since the questions of another
  // stop its node, and an interrupt is left to the run. None: all are served again.
  void serve_only(std::optional<NodeId> node) { only_ = node; }
  std::optional<NodeId> serves_only() const { return only_; }
  // All gdbs are about to end: what they take back on their way need not be taken back.
  bool is_closing() const { return closing_; }

  // Gdbs that died and were replaced since this was asked last, in sentences for the user.
  std::vector<std::string> take_notices();

 private:
  struct NodeGdbs {
    std::unique_ptr<GdbLink> own;
    std::unique_ptr<Client> users;   // where a gdb of the user's connects, once it was asked for
    bool libraries_changed = false;  // since gdb was asked something
    bool libraries_differ = false;   // from those that the node was built with
  };

  Result<void> pump(int timeout_ms, bool users);
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
  std::map<std::string, std::unique_ptr<GdbZygote>> zygotes_;  // by the program's file; null when there can be none
  std::map<NodeId, NodeGdbs> nodes_;
  uint32_t next_client_ = 1;
  std::optional<NodeId> only_;
  bool closing_ = false;
  std::atomic<bool> interrupted_ = false;
};

}  // namespace friday
