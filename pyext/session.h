// _friday.Session: one replayed group, with the methods that pyext/friday/backend.py documents. Bound in session.cc,
// its stops in stop.cc, and what follows a value back in origin.cc.
#pragma once

#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/printable.h"
#include "core/infer/inference.h"
#include "core/replay/cuts.h"
#include "core/trace/aliases.h"
#include "core/trace/event_text.h"
#include "core/trace/outputs.h"
#include "core/trace/pack.h"
#include "pyext/bindings.h"
#include "pyext/messages.h"

namespace friday {

namespace py = pybind11;

inline constexpr uint64_t kMostMemory = 64 << 20;  // most bytes that one call may read

// While the group runs without the interpreter lock, Ctrl-C stops the group instead of raising an exception later.
class InterruptGuard {
 public:
  explicit InterruptGuard(Debugger& debugger);
  ~InterruptGuard();

 private:
  struct sigaction before_ {};
};

std::string default_library_directory();

struct PyNode {
  uint32_t id;
  std::string name, program, alias;
  std::optional<uint32_t> parent, previous;
};

class Session;

struct PyStop {
  Session* session;
  py::object keep;
  DebugStop stop;
  uint64_t event;
};

SyncMode sync_mode(const std::string& text);

void leave_idle(const Session* session);  // tells the input hook that the session is gone

class Session {
 public:
  Session(const std::string& recording, std::optional<std::string> nodes, const std::string& sync,
          const std::vector<std::string>& symbols, bool unconfined) {
    DebuggerOptions options;
    for (const std::string& directory : symbols) {
      std::error_code error;
      const auto whole = std::filesystem::canonical(directory, error);
      if (error) raise({ErrorCode::usage, fmt::format("no symbols in {}: {}", directory, error.message())});
      if (!std::filesystem::is_directory(whole / ".build-id", error))
        raise({ErrorCode::usage,
               fmt::format("no symbols in {}: it has no directory .build-id; `friday pack` takes files of any name",
                           directory)});
      options.gdbs.symbols.push_back(whole.string());
    }
    symbols_ = options.gdbs.symbols;
    options.replay.library_directory = default_library_directory();
    options.replay.infer = infer::make_infer(default_library_directory());
    options.replay.sync = sync_mode(sync);
    options.replay.unconfined = unconfined;
    options.gdbs.confined = !unconfined;
    if (nodes) {
      auto opened = value_or_raise(Recording::open(recording));
      options.replay.nodes = value_or_raise(parse_node_list(opened, *nodes));
    }
    Result<std::unique_ptr<Debugger>> result;
    {
      py::gil_scoped_release release;
      result = Debugger::open(recording, std::move(options));
    }
    debugger_ = value_or_raise(std::move(result));
    origin_ = debugger_->session().schedule().origin();
  }

  Debugger& debugger() {
    if (!debugger_) raise({ErrorCode::usage, "the session is closed"});
    return *debugger_;
  }
  ReplaySession& replay() { return debugger().session(); }
  // A Ctrl-C that has ended one command must not interrupt the next run, nor the next question to a gdb.
  void clear_interrupt() {
    replay().clear_interrupt();
    (void)debugger().gdbs().take_interrupt();
  }
  // Runs a function that may take long, without the interpreter lock. Raises if the session is closed.
  template <typename Function>
  auto unlocked(Function&& function) {
    Debugger& d = debugger();
    py::gil_scoped_release release;
    return function(d);
  }
  // The same for functions that Ctrl-C interrupts.
  template <typename Function>
  auto interruptible(Function&& function) {
    return unlocked([&](Debugger& d) {
      InterruptGuard guard(d);
      return function(d);
    });
  }

  // (expression, way, reason, count, seconds of the first time, seconds of the others) for each expression.
  std::vector<std::tuple<std::string, std::string, std::string, uint64_t, double, double>> costs() {
    std::vector<std::tuple<std::string, std::string, std::string, uint64_t, double, double>> list;
    const auto seconds = [](Costs::Time time) { return std::chrono::duration<double>(time).count(); };
    for (const auto& [text, cost] : debugger().expressions().costs().all())
      list.emplace_back(printable(text), name_of(cost.way), printable(cost.reason), cost.count, seconds(cost.first),
                        seconds(cost.rest));
    return list;
  }

  // Ids of nodes without debug information.
  std::vector<uint32_t> undescribed() {
    std::vector<std::string> directories = symbols_;
    directories.push_back("/usr/lib/debug");
    std::vector<uint32_t> ids;
    for (NodeId id : nodes_without_debug_information(replay().recording(), directories)) ids.push_back(id.value);
    return ids;
  }

  std::vector<PyNode> nodes() {
    std::vector<PyNode> list;
    std::map<std::string, uint32_t> last;
    const auto aliases = aliases_of(replay().recording().nodes());
    for (const NodeInfo& info : replay().recording().nodes()) {
      PyNode node{info.id.value, printable(info.name), printable(info.program), {}, {}, {}};
      if (const auto alias = aliases.find(info.id); alias != aliases.end()) node.alias = printable(alias->second);
      if (info.parent) node.parent = info.parent->value;
      if (auto it = last.find(info.given_name); it != last.end() && !info.parent) node.previous = it->second;
      if (!info.parent) last[info.given_name] = info.id.value;
      list.push_back(std::move(node));
    }
    return list;
  }

  std::vector<std::string> states() {
    std::vector<std::string> list;
    for (const NodeInfo& info : replay().recording().nodes()) {
      ReplayNode* node = replay().find(info.id);
      if (!node || !debugger().focus().has_started(info.id)) list.push_back("not started");
      else if (node->state() != NodeState::ended) list.push_back("alive");
      else
        list.push_back(node->outcome().how == NodeOutcome::How::diverged ? "diverged"
                       : node->outcome().how == NodeOutcome::How::failed ? "failed"
                                                                         : "ended");
    }
    return list;
  }

  std::vector<uint32_t> alive() {
    std::vector<uint32_t> list;
    for (NodeId id : replay().nodes()) {
      ReplayNode* node = replay().find(id);
      if (node->state() == NodeState::live && debugger().focus().has_started(id)) list.push_back(id.value);
    }
    return list;
  }

  PyTime logical_time() { return {debugger().focus().group_time(), origin_}; }
  // The time of the node's last event; before its first event, the time of that event.
  PyTime time_of(NodeId node, uint64_t done) { return {debugger().focus().time_of(node, done), origin_}; }
  PyTime time_of_end(NodeId node) { return {replay().time(node), origin_}; }
  double real_time(uint32_t node) {
    value_or_raise(replay().readable(known_node(node)));
    return static_cast<double>(replay().realtime_ns({node})) / 1e9;
  }
  uint64_t events_done() { return debugger().focus().events_done(); }
  int64_t event(uint32_t node) { return static_cast<int64_t>(replay().mark({node}).event.value) - 1; }

  std::pair<double, double> progress() {
    const uint64_t total = replay().schedule().event_count(), done = replay().events_done();
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - progress_time_).count();
    if (seconds > 0.05 && done >= progress_events_) {
      rate_ = static_cast<double>(done - progress_events_) / seconds;
      progress_time_ = now;
      progress_events_ = done;
    }
    return {total ? static_cast<double>(done) / static_cast<double>(total) : 1.0, rate_};
  }

  const std::vector<OutputWrite>& writes_of(uint32_t node) {
    auto known = writes_.find(node);
    if (known == writes_.end())
      known = writes_.emplace(node, value_or_raise(outputs_of(replay().recording(), trace(node)))).first;
    return known->second;
  }
  const TraceReader& trace(uint32_t node) {
    ReplayNode* found = replay().find(known_node(node));
    if (!found) raise({ErrorCode::usage, fmt::format("node {} is not replayed", node)});
    return found->reader();
  }
  // Returns (index, text) of each event.
  std::vector<std::pair<uint64_t, std::string>> events(uint32_t node, uint64_t first, uint64_t count) {
    std::vector<std::pair<uint64_t, std::string>> list;
    for (RecordCursor cursor = trace(node).records(); list.size() < count && cursor.next();) {
      if (!cursor.record().is_event()) continue;
      const EventView event = cursor.record().event();
      if (event->index >= first) list.emplace_back(event->index, event_line(event));
    }
    return list;
  }
  // Indices of the events at which calls that write to standard output or standard error are entered.
  std::vector<uint64_t> outputs(uint32_t node) {
    std::vector<uint64_t> list;
    for (const OutputWrite& write : writes_of(node)) list.push_back(write.event);
    return list;
  }
  // What the write number `n` of outputs() has written: 1 or 2 for the stream, the bytes that the recording has, and
  // how many it lacks behind them.
  py::tuple output(uint32_t node, size_t n) {
    const auto& writes = writes_of(node);
    if (n >= writes.size())
      raise({ErrorCode::usage, fmt::format("node {} has no write {}: it has {}", node, n, writes.size())});
    const OutputText text = output_text(value_or_raise(trace(node).event_at(writes[n].record)), writes[n]);
    return py::make_tuple(writes[n].stream, py::bytes(text.bytes), text.missing);
  }

  uint64_t event_count(uint32_t node) { return replay().schedule().event_count(known_node(node)); }
  // The logical time of the last event, in seconds.
  double end_time() {
    const auto& order = replay().schedule();
    if (order.event_count() == 0) return 0;
    const Mark last = order.at_position(order.event_count() - 1);
    return static_cast<double>(order.time_of(last.node, last.event).l - order.origin()) / 1e9;
  }
  // Returns (node, event) of the first event at or after `seconds`; if these are negative, so long before the last one.
  // None if the recording has no such time.
  std::optional<std::pair<uint32_t, uint64_t>> find_time(double seconds) {
    const auto& order = replay().schedule();
    if (seconds < 0) seconds += end_time();
    if (seconds < 0) return std::nullopt;
    const uint64_t position = order.position_at(seconds);
    if (position >= order.event_count()) return std::nullopt;
    const Mark mark = order.at_position(position);
    return std::pair{mark.node.value, mark.event.value};
  }
  // The times of the node's first and last event by its host's wall clock, in seconds since 1970.
  std::pair<double, double> clock_span(uint32_t node) {
    const uint64_t count = event_count(node);
    if (!count) return {0, 0};
    return {clock_of(node, 0), clock_of(node, count - 1)};
  }
  // The node's first event at or after a time of that clock.
  std::optional<uint64_t> find_clock(uint32_t node, double seconds) {
    uint64_t low = 0, high = event_count(node);
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (clock_of(node, middle) < seconds) low = middle + 1;
      else high = middle;
    }
    return low < event_count(node) ? std::optional(low) : std::nullopt;
  }
  bool patch_stores() { return debugger().stop_points().patches_stores(); }
  void set_patch_stores(bool on) { check_or_raise(debugger().stop_points().set_patch_stores(on)); }
  std::string sync() { return std::string(name_of(replay().sync())); }

  void set_checkpoints(std::optional<bool> on, std::optional<uint64_t> budget) {
    History& history = debugger().history();
    if (on) history.set_on(*on);
    if (budget) history.set_budget(*budget);
  }
  void checkpoint() {
    check_or_raise(unlocked([&](Debugger& d) { return d.history().keep_now(); }));
  }
  py::dict checkpoints() {
    const History& history = debugger().history();
    const Schedule& order = replay().schedule();
    py::list kept;
    for (const History::Entry& entry : history.entries()) {
      const uint64_t events = entry.checkpoint->events();
      const Mark last = order.at_position(events == 0 ? 0 : std::min(events, order.event_count()) - 1);
      kept.append(py::make_tuple(events, order.seconds_of(last.node, last.event), entry.checkpoint->twins().size(),
                                 entry.bytes));
    }
    py::dict all;
    all["on"] = history.is_on();
    all["budget"] = history.budget();
    all["refusal"] = history.refusal();
    all["kept"] = kept;
    return all;
  }
  static std::vector<std::pair<uint64_t, uint64_t>> numbers_of(const std::vector<History::Entry>& entries) {
    std::vector<std::pair<uint64_t, uint64_t>> numbers;
    for (const History::Entry& entry : entries) numbers.emplace_back(entry.number, entry.checkpoint->events());
    return numbers;
  }
  bool approach(uint32_t node, uint64_t event) {
    const Mark target{known_node(node), {event}};
    return value_or_raise(unlocked([&](Debugger& d) { return d.approach(target); }));
  }

  std::vector<PyMessage> messages(std::optional<uint32_t> node, size_t limit) {
    return messages_.last(replay(), node ? std::optional(known_node(*node)) : std::nullopt, limit);
  }
  std::vector<PyMessage> find_messages(const std::optional<std::vector<uint32_t>>& sources,
                                       const std::optional<std::vector<uint32_t>>& targets) {
    return messages_.between(replay(), sources, targets);
  }
  std::optional<PyMessage> last_received(uint32_t node) { return messages_.last_received(replay(), known_node(node)); }
  PyMessage message(uint64_t number) { return messages_.message(replay(), number); }
  py::tuple message_contents(uint64_t number) { return messages_.contents(replay(), number); }

  std::optional<PyTime> altered(uint32_t node) {
    auto since = debugger().alterations().since({node});
    if (!since) return std::nullopt;
    return PyTime{*since, origin_};
  }

  std::vector<uint32_t> take_inferred() {
    std::vector<uint32_t> nodes;
    for (NodeId id : debugger().take_inferred()) nodes.push_back(id.value);
    return nodes;
  }

  uint32_t plan(const std::string& expression) {
    plans_.push_back(expression);
    return static_cast<uint32_t>(plans_.size() - 1);
  }
  void forget(uint32_t plan) {
    if (plan < plans_.size()) plans_[plan].clear();
  }
  py::tuple read(uint32_t node, uint32_t plan) {
    if (plan >= plans_.size()) raise({ErrorCode::usage, fmt::format("there is no plan {}", plan)});
    const NodeId id = known_node(node);
    auto quick = value_or_raise(debugger().expressions().read_quickly(id, plans_[plan]), true);
    if (quick) return to_python(*quick);
    auto result = interruptible([&](Debugger& d) { return d.expressions().read(id, plans_[plan]); });
    if (!result) raise(result.error(), true);
    return to_python(*result);
  }
  void write(uint32_t node, const std::string& target, const std::string& value) {
    const NodeId id = known_node(node);
    auto result = unlocked([&](Debugger& d) { return d.expressions().write(id, target, value); });
    check_or_raise(std::move(result), true);
  }
  void write_bytes(uint32_t node, const std::string& target, const std::string& data) {
    check_or_raise(debugger().expressions().write_bytes(known_node(node), target, std::as_bytes(std::span(data))),
                   true);
  }
  py::bytes read_string(uint32_t node, uint64_t address) {
    return value_or_raise(debugger().expressions().read_string(known_node(node), address));
  }
  py::bytes read_memory(uint32_t node, uint64_t address, uint64_t size) {
    if (size > kMostMemory)
      raise(Error{ErrorCode::usage, fmt::format("{} bytes are too many to read at once", size)}, true);
    std::string bytes(size, '\0');
    check_or_raise(
        debugger().expressions().read_memory(known_node(node), address, std::as_writable_bytes(std::span(bytes))),
        true);
    return bytes;
  }
  uint64_t stage(uint32_t node, const std::string& data) {
    return value_or_raise(debugger().expressions().stage(known_node(node), std::as_bytes(std::span(data))));
  }
  std::string types(uint32_t id) { return debugger().expressions().types().table(id); }

  std::string gdb(uint32_t node, const std::string& command) {
    const NodeId id = known_node(node);
    auto result = interruptible([&](Debugger& d) { return d.expressions().run_gdb_command(id, command); });
    return value_or_raise(std::move(result), true);
  }
  double call_timeout() { return std::chrono::duration<double>(debugger().expressions().calls().timeout()).count(); }
  void set_call_timeout(double seconds) {
    if (!(seconds > 0 && seconds < 1e6))
      raise({ErrorCode::usage, fmt::format("a called function needs a time above 0 s, not {}", seconds)});
    debugger().expressions().calls().set_timeout(
        std::chrono::milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000))));
  }
  void prepare(const std::vector<uint32_t>& nodes) {
    auto result = interruptible([&](Debugger& d) { return d.gdbs().prepare(ids(nodes)); });
    check_or_raise(std::move(result));
  }
  std::string backtrace(uint32_t node) { return gdb(node, "backtrace"); }
  std::vector<std::string> complete(uint32_t node, const std::string& prefix) {
    return value_or_raise(debugger().expressions().complete(known_node(node), prefix), true);
  }
  std::string location(uint32_t node, uint64_t pc) {
    return debugger().expressions().symbols().describe_place(known_node(node), pc);
  }

  uint32_t add_breakpoint(const std::vector<uint32_t>& nodes, const std::string& location,
                          const std::optional<std::string>& condition) {
    auto result = unlocked(
        [&](Debugger& d) { return d.stop_points().add_breakpoint(ids(nodes), location, condition.value_or("")); });
    return value_or_raise(std::move(result), true);
  }
  uint32_t add_watch(const std::vector<uint32_t>& nodes, const std::vector<std::string>& expressions,
                     const std::optional<std::string>& condition) {
    auto result = unlocked(
        [&](Debugger& d) { return d.stop_points().add_watch(ids(nodes), expressions, condition.value_or("")); });
    return value_or_raise(std::move(result), true);
  }
  uint32_t add_catch(const std::vector<uint32_t>& nodes, const std::string& what,
                     const std::optional<std::string>& condition) {
    return value_or_raise(debugger().runner().event_stops().add_catch(ids(nodes), what, condition.value_or("")));
  }
  uint32_t add_timer(double seconds) { return value_or_raise(debugger().runner().event_stops().add_timer(seconds)); }
  void remove(uint32_t id) { check_or_raise(known(debugger().remove_stop_point(id))); }
  // These two may have to ask gdb.
  void enable(uint32_t id, bool on) {
    check_known(id);
    check_or_raise(unlocked([&](Debugger& d) { return d.stop_points().enable(id, on); }), true);
  }
  void condition(uint32_t id, const std::optional<std::string>& text) {
    check_known(id);
    check_or_raise(unlocked([&](Debugger& d) { return d.stop_points().set_condition(id, text.value_or("")); }), true);
  }
  void ignore(uint32_t id, uint64_t count) { check_or_raise(known(debugger().stop_points().ignore(id, count))); }

  // last: (node, event), before which the run ends.
  DebugStop resume(std::optional<double> timeout, std::optional<std::pair<uint32_t, uint64_t>> last) {
    const auto mark = last ? std::optional(Mark{known_node(last->first), {last->second}}) : std::nullopt;
    auto result = interruptible([&](Debugger& d) { return d.runner().resume(timeout, mark); });
    DebugStop stop = stopped(std::move(result));
    return stop;
  }
  DebugStop step(uint32_t node, const std::string& command) {
    const NodeId id = known_node(node);
    auto result = interruptible([&](Debugger& d) { return d.runner().step(id, command); });
    return value_or_raise(std::move(result), true);
  }
  DebugStop run_to(std::optional<uint32_t> node, uint64_t event, std::optional<double> timeout) {
    const auto target = node ? std::optional(Mark{known_node(*node), {event}}) : std::nullopt;
    auto result = interruptible([&](Debugger& d) { return d.runner().run_to(target, timeout); });
    DebugStop stop = stopped(std::move(result));
    return stop;
  }
  std::optional<DebugStop> step_back(uint32_t node) {
    const NodeId id = known_node(node);
    auto result = interruptible([&](Debugger& d) -> Result<std::optional<DebugStop>> {
      FRIDAY_TRY(thread, d.focus().current_thread(id));
      return d.backward().step(id, thread);
    });
    return value_or_raise(std::move(result));
  }
  // `accepts`: whether a hit counts; what it raises ends the search.
  std::optional<DebugStop> run_back(const std::vector<uint32_t>& passed,
                                    const std::function<bool(const DebugStop&)>& accepts) {
    std::exception_ptr raised;
    const auto call = [&](const DebugStop& stop) -> Result<bool> {
      py::gil_scoped_acquire locked;
      try {
        return accepts(stop);
      } catch (py::error_already_set&) {
        raised = std::current_exception();
        return fail(ErrorCode::usage, "what was to be found could not be judged");
      }
    };
    const Backward::Accepts judge = accepts ? Backward::Accepts(call) : nullptr;
    auto result = interruptible([&](Debugger& d) { return d.backward().run({passed.begin(), passed.end()}, judge); });
    if (raised) std::rethrow_exception(raised);
    if (result && *result && (*result)->kind == Stop::Kind::interrupt) clear_interrupt();
    return value_or_raise(std::move(result));
  }
  std::string position() {
    auto result = interruptible([&](Debugger& d) { return d.backward().position(); });
    if (!result && result.error().code == ErrorCode::interrupted) clear_interrupt();
    return text_of(value_or_raise(std::move(result)));
  }
  DebugStop go_to_mark(const std::string& text) {
    const Position position = value_or_raise(parse_position(text));
    if (!position) raise({ErrorCode::usage, "the start of the recording is no place in a node: restart() goes there"});
    return stopped(interruptible([&](Debugger& d) { return d.backward().go_to(*position); }));
  }
  // (number, events) of each checkpoint that was made since the last call.
  std::vector<std::pair<uint64_t, uint64_t>> new_checkpoints() { return numbers_of(debugger().history().take_new()); }
  // The same of each that there is.
  std::vector<std::pair<uint64_t, uint64_t>> checkpoint_numbers() { return numbers_of(debugger().history().entries()); }
  void note_copy(double seconds) {
    debugger().history().note_copy(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
  }
  void drop_checkpoints(uint64_t events) { debugger().history().drop_behind(events); }
  // Calls `each` with each stop on the way from the checkpoint of this number to where the group stands. False if there
  // is no such checkpoint any more.
  bool come_again(uint64_t number, const std::function<void(const DebugStop&)>& each) {
    auto from = debugger().history().numbered(number);
    if (!from) return false;
    const auto call = [&](const DebugStop& stop) {
      py::gil_scoped_acquire locked;
      try {
        each(stop);
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a handler that runs again");
      }
    };
    auto done = interruptible([&](Debugger& d) { return d.backward().come_again(std::move(from), call); });
    if (!done && done.error().code == ErrorCode::interrupted) clear_interrupt();
    check_or_raise(std::move(done));
    return true;
  }
  void note_move(uint64_t tag) { debugger().moves().note(tag); }
  void drop_move() { debugger().moves().drop(); }
  void come_back() {
    check_or_raise(unlocked([&](Debugger& d) { return d.moves().come_back(); }));
  }
  uint64_t cut_named(const std::string& place) { return value_or_raise(friday::cut_named(replay().schedule(), place)); }
  uint64_t total_events() { return replay().schedule().event_count(); }
  std::pair<uint32_t, uint64_t> at_position(uint64_t position) {
    if (position >= total_events())
      raise({ErrorCode::usage, fmt::format("there is no position {}: there are {}", position, total_events())});
    const Mark mark = replay().schedule().at_position(position);
    return {mark.node.value, mark.event.value};
  }
  // (stop, tag of the place); none if there is no such place.
  std::optional<std::pair<DebugStop, uint64_t>> undo(bool forward, uint64_t tag) {
    auto undone =
        value_or_raise(unlocked([&](Debugger& d) { return forward ? d.moves().redo(tag) : d.moves().undo(tag); }));
    if (!undone) return std::nullopt;
    return std::pair{std::move(undone->stop), undone->tag};
  }
  void release_processor() {
    if (debugger_) debugger_->session().leave_processor();
  }
  void interrupt() { debugger().interrupt(); }
  bool interrupt_waits() { return replay().interrupt_waits(); }
  void restart(const std::optional<std::string>& sync) {
    const SyncMode mode = sync ? sync_mode(*sync) : replay().sync();
    auto result = unlocked([&](Debugger& d) { return d.restart(mode); });
    check_or_raise(std::move(result));
  }
  ~Session() { close(); }
  void close() {
    leave_idle(this);
    py::gil_scoped_release release;
    debugger_.reset();
  }

  std::vector<int> fds() { return debugger().gdbs().fds(); }
  void pump(double timeout) {
    auto result = unlocked([&](Debugger& d) { return d.serve(static_cast<int>(timeout * 1000)); });
    check_or_raise(std::move(result));
  }
  size_t gdb_count() { return debugger().gdbs().count(); }
  // Returns (node, address, text) for each place of a breakpoint, or (node, None, reason) for a node where it has none.
  std::vector<std::tuple<uint32_t, std::optional<uint64_t>, std::string>> places(uint32_t id) {
    std::vector<std::tuple<uint32_t, std::optional<uint64_t>, std::string>> list;
    const StopPoint* point = debugger().stop_points().table().find({id});
    if (!point) return list;
    for (const auto& [node, instances] : point->instances)
      for (const StopInstance& each : instances) list.emplace_back(node.value, each.address.value, each.place);
    for (const auto& [node, reason] : point->pending) list.emplace_back(node.value, std::nullopt, reason);
    return list;
  }
  bool was_placed(uint32_t id) {
    const StopPoint* point = debugger().stop_points().table().find({id});
    return point && point->placed;
  }
  std::string endpoint(uint32_t node) {
    const NodeId id = known_node(node);
    return value_or_raise(debugger().gdbs().make_endpoint(id));
  }
  std::string gdb_start(const std::optional<std::string>& when) {
    if (when) {
      if (*when != "background" && *when != "lazy")
        raise({ErrorCode::usage, fmt::format("gdbs start \"background\" or \"lazy\", not \"{}\"", *when)});
      debugger().gdbs().set_start(*when == "lazy" ? GdbStart::lazy : GdbStart::background);
    }
    return debugger().gdbs().start() == GdbStart::lazy ? "lazy" : "background";
  }
  // Totals over all nodes since the start: stores that faulted on watched pages, and stores that changed a watched
  // value.
  py::dict watch_statistics() {
    WatchStatistics sum;
    for (NodeId id : replay().nodes()) {
      const WatchStatistics& one = replay().find(id)->watches().statistics();
      sum.faults += one.faults;
      sum.hits += one.hits;
    }
    py::dict found;
    found["faults"] = sum.faults;
    found["hits"] = sum.hits;
    return found;
  }
  std::string state_hash(uint32_t node) {
    return fmt::format("{:016x}", value_or_raise(replay().state_hash(known_node(node))));
  }

 private:
  NodeId known_node(uint32_t node) {
    value_or_raise(replay().node({node}));
    return {node};
  }
  std::vector<NodeId> ids(const std::vector<uint32_t>& numbers) {
    std::vector<NodeId> list;
    for (uint32_t n : numbers)
      if (replay().find({n})) list.push_back({n});
    return list;
  }
  template <typename T>
  Result<T> known(Result<T> result) {
    if (!result && result.error().code == ErrorCode::not_found) result.error().code = ErrorCode::usage;
    return result;
  }

  void check_known(uint32_t id) {
    if (!debugger().stop_points().table().find({id})) check_or_raise(known(debugger().stop_points().ignore(id, 0)));
  }

  // A second Ctrl-C that arrived while the first one stopped the group must not interrupt the next run.
  DebugStop stopped(Result<DebugStop> result) {
    if (result && result->kind == Stop::Kind::interrupt) clear_interrupt();
    return value_or_raise(std::move(result));
  }
  double clock_of(uint32_t node, uint64_t event) {
    return static_cast<double>(replay().schedule().realtime_ns({node}, {event})) / 1e9;
  }
  std::unique_ptr<Debugger> debugger_;
  std::vector<std::string> plans_;
  Messages messages_;
  std::map<uint32_t, std::vector<OutputWrite>> writes_;  // by node, of those that were asked for
  int64_t origin_ = 0;
  std::vector<std::string> symbols_;
  std::chrono::steady_clock::time_point progress_time_ = std::chrono::steady_clock::now();
  uint64_t progress_events_ = 0;
  double rate_ = 0;
};

py::object make_stop(const py::object& self, DebugStop stop);
py::object make_stop(const py::object& self, std::optional<DebugStop> stop);
void bind_stop(py::module_& module);

struct Hop;
// origin.cc
std::vector<Hop> origin_of(Session& session, uint32_t node, const std::string& in, uint64_t low, uint64_t size,
                           std::pair<unsigned, unsigned> bits, size_t most, const py::object& found);
void bind_origin(py::module_& module);

}  // namespace friday
