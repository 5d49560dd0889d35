#include "core/debug/debugger.h"

#include <poll.h>

#include <cerrno>
#include <filesystem>

namespace friday {

Result<std::unique_ptr<Debugger>> Debugger::open(const std::string& recording, DebuggerOptions options) {
  std::unique_ptr<Debugger> debugger(new Debugger(std::move(options)));
  FRIDAY_TRY(session, ReplaySession::open(recording, debugger->options_.replay));
  debugger->session_ = std::move(session);
  debugger->session_->on_node_started = [d = debugger.get()](ReplayNode& node) { d->node_started(node); };
  debugger->session_->report_node_ends = true;
  debugger->session_->on_call_output = [d = debugger.get()](NodeId node, std::string_view text) {
    d->notices_.push_back(fmt::format("node {}: the called function wrote: {}", node, text));
  };
  for (NodeId id : debugger->session_->nodes())
    if (ReplayNode* node = debugger->session_->find(id); node->has_process()) debugger->node_started(*node);
  debugger->here_ = debugger->session_->nodes().front();
  return debugger;
}

Debugger::~Debugger() {
  closing_ = true;
  // gdbs first: they hold connections to the endpoints, which hold the nodes.
  for (NodeId id : gdbs_.nodes()) gdbs_.remove(id);
  zygotes_.clear();
  states_.clear();
  session_.reset();
}

void Debugger::node_started(ReplayNode& node) {
  NodeContext& s = state(node.id());
  if (s.users) s.users->view().rebind(node), s.users->watches.clear();
  if (s.link) s.link->rebind(node);
  else
    s.link = std::make_unique<GdbLink>(node, *this, next_client_++, gdbs_,
                                       fmt::format("{}/node-{}", session_->directory(), node.id()),
                                       [this](ReplayNode& n, Pump* pump) { return make_gdb(n, pump); });
  s.loaded = std::exchange(s.loaded_ever, false);  // gdb knows the list as it was before the restart
  s.mean(node.current());
  name_libraries(node);
  start_in_background(node);
  // The group may be running: only this node's gdb is served meanwhile, since the questions of another stop its node,
  // and a Ctrl-C is left to the run.
  starting_ = node.id();
  node.watches().stores().share(hot_stores_);
  (void)node.watches().stores().enable(options_.patch_stores);
  // A forked process has what stood in its parent, for whichever nodes that was meant.
  (void)node.breakpoints().clear();
  node.watches().disarm_all();
  watch_loader(node);
  arm_all(node);
  starting_.reset();
  park_for_target();
}

// ---- gdbs

void Debugger::start_in_background(ReplayNode& node) {
  if (options_.gdb == GdbStart::lazy) return;
  if (many()) (void)zygote(node);
  else if (NodeContext& s = state(node.id()); s.link) (void)s.link->start();
}

void Debugger::set_gdb_start(GdbStart when) {
  options_.gdb = when;
  for (auto& [id, s] : states_) {
    if (!s.link) continue;
    if (when == GdbStart::lazy) s.link->stop_idle();
    else start_in_background(*session_->find(id));
  }
}

Result<void> Debugger::prepare_gdbs(const std::vector<NodeId>& nodes) {
  for (NodeId id : nodes)
    if (NodeContext& s = state(id); s.link)
      if (auto started = s.link->start(this); !started && started.error().code == ErrorCode::interrupted)
        return started;
  return {};
}

namespace {
// Before gdb reads a program. /usr/lib/debug is looked up in the sysroot too, where a packed recording has its own.
void look_in(const std::vector<std::string>& symbols, MiSessionOptions& options) {
  if (symbols.empty()) return;
  options.arguments.push_back("-iex");
  options.arguments.push_back(fmt::format("set debug-file-directory {}:/usr/lib/debug", fmt::join(symbols, ":")));
}

// Where gdbs leave indexes of symbols for each other, made if need be. Empty where a link would lead elsewhere, where
// something lies that is no file (a gdb that opens a FIFO waits for ever), or where none can be made.
std::string symbol_cache(const Recording& recording) {
  const Beneath symbols = recording.inside("cache/symbols");
  return make_directory_beneath(symbols) && check_below(symbols) ? symbols.path() : std::string();
}
}  // namespace

// The gdb that has loaded the node's program; null when there can be none.
GdbZygote* Debugger::zygote(ReplayNode& node) {
  std::error_code error;
  const auto file = std::filesystem::canonical(node.sysroot() + node.executable(), error);
  if (error) return nullptr;
  auto [it, fresh] = zygotes_.try_emplace(file.string());
  if (fresh || (it->second && !it->second->session().is_alive())) {
    MiSessionOptions options;
    options.sysroot = node.sysroot();
    // Copies read the symbols of libraries themselves; the first one leaves an index of them for the others.
    options.scratch = symbol_cache(session_->recording());
    if (!options.scratch.empty())
      options.arguments = {"-iex", "set index-cache directory " + options.scratch, "-iex",
                           "set index-cache enabled on"};
    options.confined = !options_.replay.unconfined;
    look_in(options_.symbols, options);
    auto started = GdbZygote::start(std::move(options), file.string());
    it->second = started ? std::move(*started) : nullptr;
  }
  return it->second.get();
}

Result<std::unique_ptr<MiSession>> Debugger::make_gdb(ReplayNode& node, Pump* pump) {
  session_->leave_processor();  // which a process that starts now would keep to
  if (many()) {
    if (!pump) return nullptr;
    if (GdbZygote* from = zygote(node)) {
      auto copy = from->copy(node.sysroot(), *pump);
      if (copy || copy.error().code == ErrorCode::interrupted) return copy;
    }
  }
  MiSessionOptions options;
  options.sysroot = node.sysroot();
  options.confined = !options_.replay.unconfined;
  look_in(options_.symbols, options);
  return MiSession::start(std::move(options));
}

Result<GdbLink*> Debugger::link(NodeId id) {
  FRIDAY_TRY_VOID(session_->readable(id));
  NodeContext& s = state(id);
  if (!s.link) return fail(ErrorCode::node_not_started, "node {} has not started yet at this point of the replay", id);
  if (std::exchange(s.loaded, false)) {
    if (!std::exchange(s.linked, true)) session_->link_loaded(*session_->find(id));
    name_libraries(*session_->find(id));
    s.link->libraries_changed();
  }
  FRIDAY_TRY_VOID(s.link->ensure_ready(*this));
  return s.link.get();
}

std::vector<int> Debugger::fds() const {
  std::vector<int> all = gdbs_.fds();
  for (const auto& [file, zygote] : zygotes_)
    if (zygote && zygote->session().is_alive()) all.push_back(zygote->session().fd());
  for (const auto& [id, s] : states_)
    for (Client* client : {s.link ? &s.link->client() : nullptr, s.users.get()})
      if (client)
        for (const pollfd& p : client->endpoint().fds()) all.push_back(p.fd);
  return all;
}

Result<void> Debugger::pump_once(int timeout_ms) { return pump(timeout_ms, false); }

Result<void> Debugger::serve(int timeout_ms) {
  auto served = pump(timeout_ms, true);
  settle();  // a gdb of the user's may have run the group
  return served;
}

Result<void> Debugger::pump(int timeout_ms, bool users) {
  std::vector<pollfd> set;
  const std::vector<int> gdb_fds = gdbs_.fds();
  for (int fd : gdb_fds) set.push_back({fd, POLLIN, 0});
  std::vector<MiSession*> zygotes;
  for (auto& [file, zygote] : zygotes_)
    if (zygote && zygote->session().is_alive()) {
      set.push_back({zygote->session().fd(), POLLIN, 0});
      zygotes.push_back(&zygote->session());
    }
  const size_t first_endpoint = set.size();
  std::vector<RspEndpoint*> owners;
  for (auto& [id, s] : states_)
    for (Client* client :
         {s.link && starting_.value_or(id) == id ? &s.link->client() : nullptr, users ? s.users.get() : nullptr})
      if (client)
        for (const pollfd& p : client->endpoint().fds()) {
          set.push_back(p);
          owners.push_back(&client->endpoint());
        }
  int ready = poll(set.data(), set.size(), timeout_ms);
  if (!starting_ && interrupted_.exchange(false)) {
    session_->clear_interrupt();
    return fail(ErrorCode::interrupted, "interrupted");
  }
  if (ready < 0 && errno == EINTR) return {};
  if (ready < 0) return fail_errno(errno, "poll failed");
  for (size_t i = 0; i < set.size() && ready > 0; i++) {
    if (!set[i].revents) continue;
    if (i < gdb_fds.size()) gdbs_.dispatch(set[i].fd);
    else if (i < first_endpoint) zygotes[i - gdb_fds.size()]->on_readable();
    else owners[i - first_endpoint]->on_ready(set[i].fd);
  }
  return {};
}

// The thread in whose frame expressions of a node are meant: the one that stopped, else the one that holds the token.
Result<ThreadId> Debugger::scope_thread(NodeId id) {
  FRIDAY_TRY(node, session_->readable(id));
  NodeContext& s = state(id);
  if (s.pc_epoch == epoch_) return s.stopped;
  const auto waits_at = session_->waits_at(id);
  if (waits_at && s.pc_waits_at == waits_at) return s.stopped;
  if (id != here_ || !node->thread_of(s.stopped)) s.stopped = node->current();
  FRIDAY_TRY(pc, node->program_counter(s.stopped));
  s.pc = pc;
  s.pc_epoch = epoch_;
  s.pc_waits_at = waits_at;
  return s.stopped;
}

void Debugger::group_moved(const Stop& stop) {
  epoch_++;
  here_ = stop.node;
  wrote_ = stop.writer ? std::optional(stop.writer->node) : std::nullopt;
  NodeContext& s = state(stop.node);
  s.mean(stop.thread);
  using Kind = Stop::Kind;
  if (stop.kind == Kind::breakpoint || stop.kind == Kind::watch || stop.kind == Kind::step) seen_.insert(stop.node);
  for (auto& [id, each] : states_)
    if (each.link) each.link->moved(id == stop.node ? std::optional(stop.thread) : std::nullopt);
}

// The gdbs stay: addresses and symbols are the same in the nodes built anew. Those of nodes forked later start again.
Result<void> Debugger::restart() {
  for (NodeId id : session_->nodes())
    if (ReplayNode* node = session_->find(id); node->info().parent) {
      gdbs_.remove(id);
      state(id).link.reset();
      state(id).users.reset();
    }
  for (auto& [id, s] : states_) {
    s.watches.clear();
    s.frames.clear();
    s.workspace = s.staged = 0;
    s.pc_waits_at.reset();
  }
  for (StopPointId id : points_.ids()) points_.find(id)->instances.clear();
  for (auto& [id, timer] : timers_) timer.next = 0;
  timer_node_.reset();
  parked_.reset();
  pending_stop_.reset();
  pending_ends_.clear();
  last_client_stop_.reset();
  altered_.clear();
  seen_.clear();
  epoch_++;
  here_ = session_->nodes().front();
  return session_->restart();
}

Result<void> Debugger::restart(SyncMode sync) {
  session_->set_sync(sync);
  return restart();
}

std::optional<LogicalTime> Debugger::altered_since(NodeId node) const {
  auto it = altered_.find(node);
  if (it == altered_.end()) return std::nullopt;
  return it->second;
}

// Memory of the node has changed, not where it stands.
void Debugger::note_change(NodeId node) {
  if (!altered_.contains(node)) altered_.emplace(node, session_->time(node));
  NodeContext& s = state(node);
  if (!s.link) return;
  if (is_elsewhere(node)) s.link->changed();
  else s.link->moved(s.stopped);
}

void Debugger::mark_altered(NodeId node) {
  note_change(node);
  const bool elsewhere = is_elsewhere(node);
  epoch_++;
  state(node).pc_waits_at.reset();
  if (elsewhere) state(node).elsewhere_epoch = epoch_;
}

std::vector<std::string> Debugger::take_notices() {
  std::vector<std::string> notices = std::exchange(notices_, {});
  for (std::string& notice : session_->take_notices()) notices.push_back(std::move(notice));
  for (auto& [id, s] : states_)
    if (s.link && s.link->take_replaced())
      notices.push_back(fmt::format(
          "node {}: its gdb had died; another one is in its place, without the settings and values made in the old one",
          id));
  return notices;
}

}  // namespace friday
