// Runs the group backward: to the previous hit of a stop point of the user, in the order of time.
//
// A replay runs forward only, so a hit that lies back is searched for forward: from the last checkpoint before the
// place where the group stands, up to that place, remembering the last hit; if there was none, from the checkpoint
// before to that one, and so on. No part of the past is searched twice. Then the group returns to the last checkpoint
// before the hit and runs to it. A search judges hits as a forward run does, with their conditions, but counts none and
// runs no handlers.
//
// Both need a place inside the code between two events to be recognised when a run comes by again. That code is
// deterministic, so a place is the same if the registers and the memory of its node are. A hit is named by its number
// among the hits of its node since the node's last event.
//
// Owned by the Debugger; uses the Runner, the stop points and the History. Use on the session's thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/debug/debug_stop.h"
#include "core/debug/runner.h"
#include "core/history/history.h"
#include "core/trace/index.h"

namespace friday {

// Brings the group back, and sets everything that depends on its processes anew. The Debugger does.
class Returner {
 public:
  virtual ~Returner() = default;
  virtual Result<void> go_to_start() = 0;
  virtual Result<void> go_back(const GroupCheckpoint& checkpoint) = 0;
};

// The owner of the breakpoint at the place where the group stood.
inline constexpr BreakpointOwner kPlaceOwner{BreakpointOwner::Kind::internal, 4};

class Backward final : public PastRuns {
 public:
  Backward(ReplaySession& session, Focus& focus, GroupStopPoints& stop_points, Runner& runner, History& history,
           Returner& returner)
      : session_(session),
        focus_(focus),
        stop_points_(stop_points),
        runner_(runner),
        history_(history),
        returner_(returner) {}

  // Decides whether a hit counts. It is called while the group stands at the hit.
  using Accepts = std::function<Result<bool>(const DebugStop&)>;
  // Runs back to the last hit before the place where the group stands. Hits of the stop points in `passed` do not
  // count, nor those that `accepts`, if there is one, does not accept. None if nothing was hit before; the group stands
  // where it was then, as it does after an interrupt (a stop of the kind `interrupt`). Fails with unsupported in
  // another order than `clock`, and if the user has altered the group, and as `accepts` fails.
  Result<std::optional<DebugStop>> run(std::set<uint32_t> passed, const Accepts& accepts = {});

  // Brings the group back to where it stood before the last instruction of this thread. None if the thread has executed
  // none before; the group stands where it stood then. Fails as run() does.
  Result<std::optional<DebugStop>> step(NodeId node, ThreadId thread) override;
  // The last instructions that the thread has executed before the place where the group stands, the latest last: at
  // most some hundred. With `least` it tries to give as many. Empty if it has executed none before. The group stands
  // where it stood then, but a thread that stood in a system call stands before it. Fails as run() does. Of each the
  // registers when it began.
  Result<std::vector<user_regs_struct>> last_executed(NodeId node, ThreadId thread, size_t least = 1);
  // Brings the group to before the instruction with this index of the last answer. Call before any other run.
  Result<void> go_to_executed(size_t index);

  // As run(), but to the last stop that is wanted; stop points of the user are passed over.
  Result<std::optional<DebugStop>> run_to_wanted(const Wanted& wanted) override;

  // Brings the group to an earlier checkpoint, runs to where it stands now, and calls `each` at each hit of a stop
  // point on the way, and at each end of a node. Nothing is counted. The group stands where it stood then. Fails as
  // run() does, and with interrupted.
  Result<void> come_again(const std::shared_ptr<const GroupCheckpoint>& from,
                          const std::function<void(const DebugStop&)>& each);

  // How many events the node has done, and one more if it stands in the middle of a call, which has written what is
  // watched.
  uint64_t events_begun(ReplayNode& node) const;
  // Where the group stands. Runs the group from the last event of the node that moved last to here again. Fails as
  // run() does, and with interrupted; the group stands where it stood then.
  Result<Position> position();
  // Brings the group to a mark, over all stop points; nothing is altered any more then. The kind of the stop is
  // `reached`, `exit` at the end of the node, or what has stopped the group before. Fails with not_found if the
  // recording has no such place, and with unsupported in another order than `clock`.
  Result<DebugStop> go_to(const Mark& mark);

 private:
  // Where the group stands, as it can be recognised again.
  struct Place {
    enum class How {
      start,    // nothing has run yet
      waiting,  // the node waits before its next event
      inside,   // the node is in its code
      calling,  // the node is in a call that has changed watched memory
      ended,    // the node has just ended
      over,     // all nodes have ended
    };
    How how = How::start;
    uint64_t events = 0;  // that all nodes together have completed
    Mark mark;            // the node that moved last, after its last event
    ThreadId thread{};
    user_regs_struct registers{};
    uint64_t hash = 0;  // of the node's memory
  };

 public:
  // A place to come back to, without a run if a checkpoint could be made there.
  class Remembered {
   public:
    // Processes that it keeps.
    size_t twins() const { return kept_ ? kept_->twins().size() : 0; }

   private:
    friend class Backward;
    Place place_;
    std::shared_ptr<const GroupCheckpoint> kept_;
  };
  Result<Remembered> remember();
  // Goes to a remembered place. What the user has altered since is undone.
  Result<DebugStop> go_back_to(const Remembered& remembered);

  // Call when the process of a node exists.
  void node_started(ReplayNode& node);

 private:
  struct Found {
    uint64_t events = 0;   // that all nodes together had completed
    Mark mark;             // the node that hit it, after its last event
    uint64_t ordinal = 0;  // its number among the node's hits since that event, from 1
  };
  // The hits of a node since its last event, in one run.
  struct Count {
    uint64_t event = 0, hits = 0;
  };
  enum class Ending { arrived, interrupted };

  Result<Place> here(bool with_hash = true);
  Result<Place> place_of(NodeId node, ThreadId thread, bool with_hash = true);
  bool has_registers_of_place();
  Result<void> check_can_go_back() const;
  bool is_at_mark(Stop& stop);
  bool is_place(const Stop& stop, const std::optional<Found>& last);
  bool is_recognised(const Stop& stop, const std::optional<Found>& last);
  bool is_at_breakpoint(const Stop& stop, Addr pc);
  NodeId mover(const Stop& stop) const { return stop.writer ? stop.writer->node : stop.node; }
  Result<void> return_to(const GroupCheckpoint* checkpoint);
  Found count(const Stop& stop);
  Result<DebugStop> run_on(std::optional<Mark> target, const std::optional<Found>& last, bool& is_hit,
                           bool hits_first = false);
  Result<Ending> run_to(std::optional<Mark> target, std::optional<Found>& last, bool hits_first = false);
  Result<Ending> run_to_place(std::optional<Found>& last);
  Result<Ending> run_to_place_from(const GroupCheckpoint* from, std::optional<Found>& last);
  Result<Ending> search(std::shared_ptr<const GroupCheckpoint>& from, std::optional<Found>& last);
  Result<DebugStop> run_to_event(const Mark& event);
  std::shared_ptr<const GroupCheckpoint> nearest(const Found& hit, const std::shared_ptr<const GroupCheckpoint>& from);
  Result<std::optional<DebugStop>> go_to_hit(const Found& hit, const std::shared_ptr<const GroupCheckpoint>& from);
  Result<void> return_to_place(const GroupCheckpoint* kept);
  void stand_at_place();
  std::optional<Mark> event_of(NodeId node, uint64_t index) const;
  void stop_at_passage(ReplayNode& node, Addr at, const PassageCounter::Wanted& wanted);
  void mark_place(ReplayNode& node);
  void forget_place();

  // backward_marks.cc
  std::shared_ptr<const GroupCheckpoint> last_before(NodeId node, std::optional<EventIndex> event, uint64_t done = 0);
  Result<uint64_t> count_passages();
  Result<DebugStop> run_to_passage(const Mark& mark);
  Result<DebugStop> run_to_end_of(NodeId node);

  // backward_steps.cc
  // How a place inside a node's code is reached exactly: by so many single steps of a thread from a checkpoint.
  struct Trail {
    std::shared_ptr<const GroupCheckpoint> from;
    NodeId node;
    ThreadId thread{};
    uint64_t steps = 0;
    uint64_t moves = 0;  // ReplaySession::moves() where the group stands at its end
  };
  // The single steps from a place of the thread on.
  struct Walk {
    uint64_t steps = 0;
    bool arrived = false;      // at the place
    std::set<uint64_t> heads;  // the instructions to which the thread has jumped
  };
  struct Pass {
    uint64_t hits = 0;  // how often the thread came by a head
    // Checkpoints on the way, with the number of hits then.
    std::vector<std::pair<uint64_t, std::shared_ptr<const GroupCheckpoint>>> kept;
  };
  Result<std::shared_ptr<const GroupCheckpoint>> keep();
  bool is_repeating(ReplayNode& node, uint64_t before);
  Result<void> unpatch(ReplayNode& node);
  bool pass_over(const Stop& stop);
  Result<bool> step_once();
  Result<Walk> walk();
  Result<bool> go_behind(std::optional<uint64_t> event);
  std::optional<uint64_t> event_before(uint64_t index);
  Result<bool> lay_trail(uint64_t spare_heads);
  Result<void> shorten_trail(Walk walked, uint64_t spare_heads);
  Result<Pass> pass_heads(const GroupCheckpoint& from, const std::set<uint64_t>& heads, uint64_t most);
  bool is_on_trail(NodeId node, ThreadId thread) const;
  Result<bool> trail_to_here(NodeId node, ThreadId thread, uint64_t spare_heads = 0);
  void stand_on_trail();
  Result<DebugStop> follow_trail();

  ReplaySession& session_;
  Focus& focus_;
  GroupStopPoints& stop_points_;
  Runner& runner_;
  History& history_;
  Returner& returner_;

  const Wanted* wanted_ = nullptr;                               // during run_to_wanted()
  const std::function<void(const DebugStop&)>* each_ = nullptr;  // during come_again()
  const Accepts* accepts_ = nullptr;                             // during run() with one
  Place place_;                                                  // where the group stood when the search began
  bool near_ = false;                    // its node has completed the events that it had completed there
  bool arrived_ = false;                 // the group has come by it
  uint64_t similar_ = 0;                 // how often the registers were those of the place
  std::optional<Found> before_similar_;  // the last hit before that
  // If the last stop was that of a watch, in front of the instruction of the place: the last hit before it, if any.
  struct InFront {
    std::optional<Found> before;
  };
  std::optional<InFront> in_front_;
  // How often the node has come by the instruction of the place since its last event: so far, and when the registers
  // were those of the place.
  uint64_t passages_ = 0, passages_then_ = 0;
  bool counted_ = false;     // the last stop has counted as one
  bool counting_ = false;    // the node counts them itself (PassageCounter), instead of passages_
  bool by_counter_ = false;  // the last stop was made by the PassageCounter
  Addr counted_at_{};
  std::set<Addr> uncountable_;  // at which the PassageCounter has lost its count once
  std::optional<Trail> trail_;
  std::map<NodeId, TraceIndex> indexes_;  // of nodes that were stepped back
  std::map<NodeId, Count> counts_;        // in this run
};

}  // namespace friday
