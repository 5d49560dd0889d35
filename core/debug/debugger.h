// The debugger of a replayed group: what console and Python talk to. It ties the replay session, one gdb and one
// endpoint a node, stop points over all nodes, and expressions compiled once and evaluated without gdb.
//
// One thread, one reactor: GdbPool serves gdbs and endpoints; it must be called while a prompt waits. Everything
// that asks a gdb waits by pumping, and everything that runs the group returns when it stands again.
//
// Why this is a directory of its own and not part of core/replay: replay verifies without gdb and must stay able to;
// the knowledge of mi and rsp is kept out of it (docs/architecture.md).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/debug/alterations.h"
#include "core/debug/client.h"
#include "core/debug/focus.h"
#include "core/debug/gdb_pool.h"
#include "core/debug/programs.h"
#include "core/debug/types.h"
#include "core/replay/session.h"
#include "core/stop/chain.h"
#include "core/stop/effects.h"
#include "core/stop/plan.h"
#include "core/stop/stop_points.h"

namespace friday {

// A value read from a node.
struct RawValue {
  uint32_t type = 0;  // id in the TypeRegistry
  std::vector<std::byte> bytes;
  std::optional<uint64_t> address;
};

// A function's frame on a thread's stack.
struct FrameLife {
  ThreadId thread{};
  uint64_t end = 0;   // the stack pointer when it has returned; its return address stands below
  uint64_t back = 0;  // where it returns to
  std::string function;
};

// FUNC and the rest of FUNC::LOCAL...; none when the expression does not look like it.
std::optional<std::pair<std::string, std::string>> split_local(const std::string& expression);

// What one store did to a stop point: the first of its expressions that changed.
struct WatchChange {
  uint32_t id = 0;
  std::string expression;
  std::optional<RawValue> old_value, new_value;  // none: undefined
};

// What a stop of the replay means to the user; of the replay's kinds `started` and `event` are never seen here.
struct DebugStop : Stop {
  std::vector<uint32_t> ids;         // breakpoint, watch, timer: the stop points that were hit
  std::vector<WatchChange> changes;  // watch: of each of `ids`
};

struct DebuggerOptions {
  ReplayOptions replay;
  GdbPoolOptions gdbs{};
  bool patch_stores = true;  // stores that hit watched pages in vain are patched (core/stop/patched_stores.h)
};

class MemoryCopy;

class Debugger final : public ClientOwner {
 public:
  static Result<std::unique_ptr<Debugger>> open(const std::string& recording, DebuggerOptions options);
  ~Debugger() override;

  ReplaySession& session() { return *session_; }
  Focus& focus() { return focus_; }
  GdbPool& gdbs() { return gdbs_; }
  const Alterations& alterations() const { return alterations_; }
  // Serves all gdbs, those of the user's too, which may run the group. To be called while a prompt waits.
  Result<void> serve(int timeout_ms);

  // ---- expressions (expressions.cc)
  Result<RawValue> read(NodeId node, const std::string& expression);
  // The same when gdb is not needed for it; none otherwise.
  Result<std::optional<RawValue>> read_quickly(NodeId node, const std::string& expression);
  Result<void> write(NodeId node, const std::string& target, const std::string& value);
  Result<void> write_bytes(NodeId node, const std::string& target, std::span<const std::byte> data);
  Result<std::string> read_string(NodeId node, uint64_t address);
  Result<void> read_memory(NodeId node, uint64_t address, std::span<std::byte> out);  // all of it, or bad_address
  Result<uint64_t> stage(NodeId node, std::span<const std::byte> data);
  // How long a called function may take.
  // The group stands until further notice: the calling thread may use all processors again.
  void settle() { session_->leave_processor(); }
  std::chrono::milliseconds call_timeout() const { return call_timeout_; }
  void set_call_timeout(std::chrono::milliseconds limit) { call_timeout_ = limit; }
  std::string types(uint32_t id) const { return types_.table(id); }
  Result<std::string> gdb(NodeId node, const std::string& command);
  Result<std::vector<std::string>> complete(NodeId node, const std::string& prefix);
  // What happened beside the questions and the user should know, since the last time.
  std::vector<std::string> take_notices();
  // "process_data at process.c:69", or the address.
  std::string location(NodeId node, uint64_t pc);

  // ---- stop points (stops.cc)
  Result<uint32_t> add_breakpoint(const std::vector<NodeId>& nodes, const std::string& location,
                                  const std::string& condition);
  Result<uint32_t> add_watch(const std::vector<NodeId>& nodes, const std::vector<std::string>& expressions,
                             const std::string& condition);
  Result<uint32_t> add_timer(double seconds);
  Result<void> remove(uint32_t id);
  Result<void> enable(uint32_t id, bool on);
  Result<void> ignore(uint32_t id, uint64_t count);
  Result<void> condition(uint32_t id, const std::string& text);
  Result<void> patch_stores(bool on);
  bool patches_stores() const { return patch_stores_; }
  const StopPoints& stop_points() const { return points_; }

  // ---- running (run.cc)
  Result<DebugStop> resume(std::optional<double> timeout);
  Result<DebugStop> step(NodeId node, const std::string& command);
  // Runs forward until a node stands before an event (`reached`), or to what comes before; without target to the end.
  // Stop points are passed over: they neither stop the group nor count.
  Result<DebugStop> run_to(std::optional<Mark> target, std::optional<double> timeout);
  // Ends a run of the group, or a question that a gdb is busy with (Error interrupted). Safe in a signal handler.
  void interrupt() {
    gdbs_.interrupt();
    session_->interrupt();
  }
  Result<void> restart();
  Result<void> restart(SyncMode sync);

 private:
  struct FrameShape {  // of the frame of a thread that stands at an instruction
    bool has_outer = false, by_base = false;
    uint64_t offset = 0;  // of its end, from the base or the stack pointer
    std::string function;
  };
  struct Watched {
    std::string expression;               // as the user wrote it
    std::optional<FrameLife> frame;       // it lives as long as this one
    std::unique_ptr<NodeControl> frozen;  // where its locals were found
    NodeControl& seen_from(ReplayNode& node) const;
    std::unique_ptr<ChainWatch> chain;
    uint32_t type = 0;  // of the value, in the TypeRegistry
  };
  // What the debugger knows of one node.
  struct NodeContext {
    std::map<uint32_t, std::vector<Watched>> watches;  // by stop point: one an expression, of locals one an activation
    std::unordered_map<uint64_t, FrameShape> frames;   // by pc
    uint64_t r_debug = 0;                              // of the node's loader
    bool loader_missed = false;                        // it changed its list while gdb could not be asked
    bool loading = false;     // it is changing its list: what gdb knows of it is not what another node's gdb knows
    uint32_t next_index = 0;  // of a watched range
    // Plans by scope, then by expression. One that names a local variable is of its pc alone (where the variable is, or
    // that it is a constant, may change with each instruction), any other holds in the whole block.
    std::unordered_map<uint64_t, CodeScope> scopes;  // by pc
    std::unordered_map<std::string, std::unordered_map<std::string, KnownPlan>> plans;
    Program* program = nullptr;  // of `layout`: in programs_, or `unshared`
    Program unshared;            // while `loading`
    Layout layout;
    uint64_t layout_epoch = 0;
    std::unordered_map<uint64_t, FunctionEffects> effects;  // by address
    std::unordered_map<uint64_t, Addr> errors;              // where errno is, by the thread pointer
    uint64_t workspace = 0, staged = 0;
    // Code came or went: names and addresses may mean something else now.
    void forget_code() {
      scopes.clear();
      plans.clear();
      frames.clear();
      effects.clear();
      errors.clear();
      program = nullptr;
    }
  };
  struct Timer {
    int64_t period = 0, next = 0;  // ns of logical time
    bool enabled = true;
  };

  Debugger(std::unique_ptr<ReplaySession> session, DebuggerOptions options);
  void node_started(ReplayNode& node);
  // The group stopped: focus and gdbs hear of it.
  void note_stop(const Stop& stop);
  std::optional<DebugStop> take_pending();
  std::optional<DebugStop> take_pending_end();
  NodeContext& state(NodeId node) { return states_[node]; }

  // places.cc
  Result<NodeContext*> placed(NodeId node);
  Result<std::pair<GdbLink*, const Layout*>> knowing_link(NodeId node);
  Result<std::vector<CodeLocation>> locate(NodeId node, const std::string& location);
  uint64_t address_of(NodeId node, const CodeLocation& location) {
    return location.place ? state(node).layout.address(*location.place) : location.address;
  }
  Result<std::vector<CodeLocation>> ask_locations(NodeId node, const std::string& command, bool anywhere);
  Result<std::vector<CodeLocation>> locate_once(NodeId node, const std::string& command);
  Result<std::vector<CodeLocation>> locate_local(NodeId node, const std::string& function, const std::string& variable);
  Result<std::string> ask_source(NodeId node, uint64_t pc);

  // calls.cc
  class CallUndo;
  const FunctionEffects& effects(ReplayNode& node, uint64_t function);
  std::optional<Addr> error_number(ReplayNode& node, ThreadId thread, uint64_t thread_pointer);
  void resync_watches(ReplayNode& node);
  Error failed_call(ReplayNode& node, const std::string& what, const Result<void>& undone);
  bool left_no_trace(ReplayNode& node, ThreadId thread, const MemoryCopy& before);
  Result<Stop> run_guarded(ReplayNode& node, ThreadId thread, const Client& client);
  Result<void> enter_call(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call, const CallValues& values,
                          const ReplayNode::Standing& from, uint64_t stack);
  Result<uint64_t> call_result(ReplayNode& node, ThreadId thread, const ExpressionPlan::Call& call);
  Result<RawValue> call_by_plan(ReplayNode& node, const KnownPlan& plan);
  // gdb's failure of a call, as the core knows it.
  template <typename T>
  Result<T> explained(Result<T> result) {
    auto error = std::exchange(call_error_, std::nullopt);
    if (!result && error && result.error().code != ErrorCode::interrupted) return std::unexpected(std::move(*error));
    return result;
  }

  // expressions.cc
  Result<KnownPlan> plan(NodeId node, const std::string& expression);
  Result<KnownPlan> make_plan(NodeId node, const std::string& expression);
  Result<KnownPlan> plan_elsewhere(NodeId node, const std::string& expression);
  const KnownPlan* known_plan(NodeId node, const std::string& expression);
  Result<const CodeScope*> find_scope(NodeId node);
  std::optional<KnownPlan> shared_plan(NodeId node, const CodeScope& scope, const std::string& expression);
  void keep_plan(NodeId node, const CodeScope& scope, const std::string& expression, const KnownPlan& plan);
  Result<RawValue> read_by_plan(ReplayNode& node, const KnownPlan& plan);
  Result<std::shared_ptr<const ExpressionPlan>> place_now(NodeId node, const std::string& expression,
                                                          const std::string& reason);
  Result<RawValue> read_through_gdb(NodeId node, const std::string& expression);
  Result<uint64_t> workspace(ReplayNode& node);
  Result<std::string> with_workspace(ReplayNode& node, std::string expression);
  Result<std::optional<uint64_t>> whole_number(ReplayNode& node, const KnownPlan& p);
  Result<bool> assign(ReplayNode& node, const std::string& target, const std::string& value, bool own);

  // stops.cc
  Result<void> arm(StopPoint& point, ReplayNode& node);
  Result<void> arm_breakpoint(StopPoint& point, ReplayNode& node);
  Result<void> arm_watch(StopPoint& point, ReplayNode& node);
  Result<void> any_replayed(const std::vector<NodeId>& nodes);
  bool arm_as_in_parent(StopPoint& point, ReplayNode& node);
  void disarm(StopPoint& point, ReplayNode& node);
  void disarm_all(StopPoint& point);
  Result<void> arm_on_nodes(StopPoint& point);
  void arm_all(ReplayNode& node);
  struct Judgement {  // of the conditions at one stop
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
    std::string failure;  // of the first that could not be evaluated
    size_t more_failed = 0;
    std::string note() const;
  };
  bool holds(const StopPoint& point, NodeId node, Judgement& judgement);
  Result<void> arm_expression(StopPoint& point, ReplayNode& node, const std::string& expression,
                              const std::string& text);
  Result<std::shared_ptr<const ExpressionPlan>> watch_plan(const StopPoint& point, ReplayNode& node,
                                                           const std::string& shown, const std::string& text,
                                                           bool may_ask);
  Result<void> watch_expression(StopPoint& point, ReplayNode& node, const std::string& shown, const std::string& text,
                                bool local, bool may_ask);
  // libraries.cc
  void watch_loader(ReplayNode& node);
  bool follow_loader(Stop& stop, bool may_ask);
  void libraries_changed(ReplayNode& node);
  Result<void> check_place(ReplayNode& node, Addr address, bool typed);
  // frames.cc
  Result<std::optional<FrameLife>> current_frame(ReplayNode& node, bool may_ask);
  static bool lives(ReplayNode& node, const FrameLife& frame);
  Result<void> tie_to_frame(StopPoint& point, ReplayNode& node, Watched& watched, bool may_ask);
  Result<bool> inherit_watches(const StopPoint& point, ReplayNode& node, const std::string& expression);
  bool is_watched(const StopPoint& point, ReplayNode& node, const std::string& expression, bool may_ask);
  Result<void> arm_entries(StopPoint& point, ReplayNode& node, const std::string& function,
                           const std::string& variable);
  void enter_frame(StopPoint& point, ReplayNode& node, bool may_ask);
  void leave_frames(StopPoint& point, ReplayNode& node, const Stop& stop);
  bool follow_frames(Stop& stop, bool may_ask);
  std::optional<DebugStop> judge_breakpoint(Stop stop);
  std::optional<DebugStop> judge_watch(Stop stop);
  bool count(StopPoint& point);

  // run.cc
  void set_next_timer();
  std::optional<DebugStop> judge_timer(Stop stop);
  void park_for_target();
  void forget_target();
  std::optional<DebugStop> judge_target(Stop stop);
  Result<DebugStop> run_group(std::optional<double> timeout);
  DebugStop lost_part(Stop stop);
  std::optional<DebugStop> judge(Stop stop);

  // ClientOwner (host.cc)
  Result<void> resume(Client& client, const ResumeRequest& request) override;
  void interrupt(Client&) override { session_->interrupt(); }
  Result<void> set_stop_point(Client& client, const StopPointRequest& request) override;
  Result<void> clear_stop_point(Client& client, const StopPointRequest& request) override;
  Result<std::string> monitor(Client& client, std::string_view command) override;
  Result<Stop> run_for(Client& client, const ResumeRequest& request, std::optional<ThreadId>& wanted);
  static bool hits(const Client& client, const Stop& stop);
  static void tell_watch(const Client& client, const Stop& stop, StopReport& report);
  void report(Client& client, const Result<Stop>& stop, std::optional<ThreadId> wanted, bool called);
  bool refused(const Stop& stop);
  Result<Stop> run_call(NodeId node, ThreadId thread, const Client* client = nullptr);
  Result<Stop> step_range(NodeId node, ThreadId thread, const ThreadAction& action);

  std::unique_ptr<ReplaySession> session_;
  Focus focus_;
  GdbPool gdbs_;
  Alterations alterations_;
  bool patch_stores_;
  std::map<NodeId, NodeContext> states_;
  TypeRegistry types_;
  StopPoints points_;
  std::shared_ptr<HotStores> hot_stores_ = std::make_shared<HotStores>();
  std::vector<std::string> notices_;  // for take_notices()
  std::map<uint32_t, Timer> timers_;
  std::optional<NodeId> timer_node_;         // parked for the next timer
  bool passing_ = false;                     // run_to runs
  std::optional<Mark> target_;               // of run_to
  std::optional<Mark> parked_;               // whose node is parked for it
  std::map<std::string, Program> programs_;  // by the layout's key and the loader's list
  uint32_t next_client_watch_ = 1u << 30;
  // A stop of the user's that came while a gdb ran the group for a step.
  std::optional<Stop> pending_stop_;
  std::deque<Stop> pending_ends_;  // of nodes that ended while a gdb of the user's ran the group
  std::optional<Stop> last_client_stop_;
  std::optional<std::string> lost_part_;  // what a part of Friday that died has kept from being asked
  std::optional<Error> call_error_;       // of a call that gdb made
  std::chrono::milliseconds call_timeout_{5000};
};

}  // namespace friday
