#include "core/debug/gdb_pool.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "core/base/poll_set.h"

namespace friday {

GdbPool::GdbPool(ReplaySession& session, Focus& focus, GdbPoolOptions options)
    : session_(session), focus_(focus), options_(std::move(options)), sysroots_(session) {}

void GdbPool::close() {
  closing_ = true;
  // gdbs first, because they are connected to the endpoints.
  for (NodeId id : gdbs_.nodes()) gdbs_.remove(id);
  zygotes_.clear();
  nodes_.clear();
}

// ---- The reactor

std::vector<int> GdbPool::fds() const {
  std::vector<int> all = gdbs_.fds();
  for (const auto& [file, zygote] : zygotes_)
    if (zygote && zygote->session().is_alive()) all.push_back(zygote->session().fd());
  for (const auto& [id, node] : nodes_)
    for (Client* client : {node.own ? &node.own->client() : nullptr, node.users.get()})
      if (client)
        for (const pollfd& p : client->endpoint().fds()) all.push_back(p.fd);
  return all;
}

// What a gdb asks for may move the group to a time at which another node has no process, and its endpoints are gone
// then. So the actions of one wait find what they act on when they are taken.
void GdbPool::serve(NodeId id, bool users, int fd) {
  const auto node = nodes_.find(id);
  if (node == nodes_.end()) return;
  Client* client = users ? node->second.users.get() : node->second.own ? &node->second.own->client() : nullptr;
  if (client) client->endpoint().on_ready(fd);
}

void GdbPool::serve_zygote(const std::string& file) {
  if (const auto zygote = zygotes_.find(file); zygote != zygotes_.end() && zygote->second)
    zygote->second->session().on_readable();
}

Result<void> GdbPool::pump(int timeout_ms, bool users) {
  PollSet set;
  for (int fd : gdbs_.fds()) set.add(fd, [this, fd] { gdbs_.dispatch(fd); });
  for (auto& [file, zygote] : zygotes_)
    if (zygote && zygote->session().is_alive())
      set.add(zygote->session().fd(), [this, file = file] { serve_zygote(file); });
  const auto add = [&](NodeId id, Client& client, bool is_users) {
    for (const pollfd& p : client.endpoint().fds())
      set.add(
          p.fd, [this, id, is_users, fd = p.fd] { serve(id, is_users, fd); }, p.events);
  };
  for (auto& [id, node] : nodes_) {
    if (node.own && only_.value_or(id) == id) add(id, node.own->client(), false);
    if (users && node.users) add(id, *node.users, true);
  }
  const Result<void> waited = set.wait(timeout_ms);
  if (!only_ && take_interrupt()) {
    session_.clear_interrupt();
    return fail(ErrorCode::interrupted, "interrupted");
  }
  if (waited) set.act();
  return waited;
}

// ---- When gdbs start

void GdbPool::start_in_background(ReplayNode& node) {
  if (options_.start == GdbStart::lazy) return;
  if (many()) (void)zygote(node);
  else if (GdbLink* own = nodes_[node.id()].own.get()) (void)own->start();
}

void GdbPool::set_start(GdbStart when) {
  options_.start = when;
  for (auto& [id, node] : nodes_) {
    if (!node.own) continue;
    if (when == GdbStart::lazy) node.own->stop_idle();
    else start_in_background(*session_.find(id));
  }
}

Result<void> GdbPool::prepare(const std::vector<NodeId>& nodes) {
  for (NodeId id : nodes)
    if (GdbLink* own = nodes_[id].own.get())
      if (auto started = own->start(this); !started && started.error().code == ErrorCode::interrupted) return started;
  return {};
}

namespace {
// Adds directories in which gdb searches for debug information, by arguments that take effect before gdb reads a
// program. gdb also looks up /usr/lib/debug below the sysroot, where a packed recording has its own.
void look_in(const std::vector<std::string>& symbols, MiSessionOptions& options) {
  if (symbols.empty()) return;
  options.arguments.push_back("-iex");
  options.arguments.push_back(fmt::format("set debug-file-directory {}:/usr/lib/debug", fmt::join(symbols, ":")));
}

// The directory in which gdbs share their symbol indexes; it is created if necessary. Returns an empty path if that
// fails, or if the directory is not safe: it contains a link that leads out of the recording, or something other than
// files (gdb would wait forever on a FIFO).
std::string symbol_cache(const Recording& recording) {
  const Beneath symbols = recording.inside("cache/symbols");
  return make_directory_beneath(symbols) && check_below(symbols) ? symbols.path() : std::string();
}
}  // namespace

// The zygote for the node's program; null if it cannot be started.
GdbZygote* GdbPool::zygote(ReplayNode& node) {
  const std::string& sysroot = sysroots_.path(node);
  std::error_code error;
  const auto file = std::filesystem::canonical(sysroot + node.executable(), error);
  if (error) return nullptr;
  auto [it, fresh] = zygotes_.try_emplace(file.string());
  if (fresh || (it->second && !it->second->session().is_alive())) {
    MiSessionOptions options;
    options.sysroot = sysroot;
    // A zygote has the symbols of the program only. The first copy writes an index of the symbols of libraries, which
    // the others read.
    options.scratch = symbol_cache(session_.recording());
    if (!options.scratch.empty())
      options.arguments = {"-iex", "set index-cache directory " + options.scratch, "-iex",
                           "set index-cache enabled on"};
    options.confined = options_.confined;
    look_in(options_.symbols, options);
    auto started = GdbZygote::start(std::move(options), file.string());
    it->second = started ? std::move(*started) : nullptr;
  }
  return it->second.get();
}

Result<std::unique_ptr<MiSession>> GdbPool::make_gdb(ReplayNode& node, Pump* pump) {
  session_.leave_processor();  // a new process would inherit the binding to one processor
  const std::string& sysroot = sysroots_.path(node);
  if (many()) {
    if (!pump) return nullptr;
    if (GdbZygote* from = zygote(node)) {
      auto copy = from->copy(sysroot, *pump);
      if (copy || copy.error().code == ErrorCode::interrupted) return copy;
    }
  }
  MiSessionOptions options;
  options.sysroot = sysroot;
  options.confined = options_.confined;
  look_in(options_.symbols, options);
  return MiSession::start(std::move(options));
}

// ---- The gdb of one node

Result<GdbLink*> GdbPool::connect(NodeId id) {
  FRIDAY_TRY(replayed, session_.readable(id));
  NodeGdbs& node = nodes_[id];
  if (!node.own)
    return fail(ErrorCode::node_not_started, "node {} has not started yet at this point of the replay", id);
  if (std::exchange(node.libraries_changed, false)) {
    sysroots_.add_loaded_files(*replayed);
    sysroots_.add_loader_names(*replayed);
    node.own->libraries_changed();
  }
  FRIDAY_TRY_VOID(node.own->ensure_ready(*this));
  return node.own.get();
}

bool GdbPool::is_connected(NodeId id) const {
  auto node = nodes_.find(id);
  return node != nodes_.end() && node->second.own && node->second.own->connected();
}

Result<std::string> GdbPool::make_endpoint(NodeId id) {
  FRIDAY_TRY(replayed, session_.readable(id));
  NodeGdbs& node = nodes_[id];
  std::string path = fmt::format("{}/gdb-{}", session_.directory(), id);
  if (node.users) return path;
  sysroots_.add_loaded_files(*replayed);
  sysroots_.add_loader_names(*replayed);
  auto users = std::make_unique<Client>(*replayed, *owner_, sysroots_.path(*replayed), next_client_++, true);
  FRIDAY_TRY_VOID(users->endpoint().listen_unix(path));
  users->moves = path + ".moves";
  if (mkfifo(users->moves.c_str(), 0600) != 0 && errno != EEXIST)
    return fail(ErrorCode::io, "cannot make {}: {}", users->moves, strerror(errno));
  node.users = std::move(users);
  has_users_ = true;
  return path;
}

Result<void> GdbPool::end_users_commands() {
  for (auto& [id, node] : nodes_)
    if (node.users) FRIDAY_TRY_VOID(node.users->view().end_command());
  return {};
}

std::vector<NodeId> GdbPool::take_users_stores(Stores which) {
  std::vector<NodeId> stored;
  if (!has_users_) return stored;
  for (auto& [id, node] : nodes_) {
    if (!node.users) continue;
    ClientView& view = node.users->view();
    if (which == Stores::all ? view.take_stored() : view.take_settled()) stored.push_back(id);
  }
  return stored;
}

void GdbPool::update_selection(NodeId id, GdbLink& link) {
  focus_.set_elsewhere(id, false);
  auto thread = focus_.current_thread(id);
  auto answer = link.ask("-friday-selected", *this);
  const auto selected = nlohmann::json::parse(answer.value_or(""), nullptr, false);
  if (!thread || !selected.is_object()) return;
  const uint32_t level = selected["level"], number = selected["thread"];
  if (level == 0 && number == thread->value + 1) return;
  focus_.set_elsewhere(id, true);
  link.selected(ThreadId{number - 1}, level);
}

// ---- What gdbs must be told

void GdbPool::node_started(ReplayNode& started) {
  NodeGdbs& node = nodes_[started.id()];
  if (node.users) {
    node.users->view().rebind(started);
    node.users->watches.clear();
  }
  if (node.own) node.own->rebind(started);
  else
    node.own = std::make_unique<GdbLink>(started, *owner_, sysroots_.path(started), next_client_++, gdbs_,
                                         fmt::format("{}/node-{}", session_.directory(), started.id()),
                                         [this](ReplayNode& n, Pump* pump) { return make_gdb(n, pump); });
  // gdb was kept over a restart and may know libraries that are not loaded yet.
  node.libraries_changed = std::exchange(node.libraries_differ, false);
  sysroots_.add_loader_names(started);
  start_in_background(started);
}

void GdbPool::node_gone(NodeId id) {
  if (served_ == id) return;
  gdbs_.remove(id);
  nodes_[id].own.reset();
  nodes_[id].users.reset();
}

void GdbPool::group_moved(NodeId here, ThreadId thread, const Client* mover) {
  for (auto& [id, node] : nodes_)
    if (node.own && &node.own->client() != mover) node.own->moved(id == here ? std::optional(thread) : std::nullopt);
}

void GdbPool::node_moved(NodeId id, ThreadId thread) { nodes_[id].own->moved(thread); }

void GdbPool::tell_users(const std::string& what, const Client* mover) {
  if (!has_users_ || closing_) return;
  for (auto& [id, node] : nodes_)
    if (node.users && node.users.get() != mover) node.users->tell(what);
}

void GdbPool::node_changed(NodeId id, Changer changer) {
  if (Client* users = nodes_[id].users.get(); users && changer == Changer::friday) users->tell(kStands);
  GdbLink* own = nodes_[id].own.get();
  if (!own) return;
  if (focus_.is_elsewhere(id)) own->changed();
  else own->moved(focus_.selected_thread(id));
}

void GdbPool::libraries_changed(NodeId id) { nodes_[id].libraries_changed = nodes_[id].libraries_differ = true; }

std::vector<std::string> GdbPool::take_notices() {
  std::vector<std::string> notices;
  for (auto& [id, node] : nodes_)
    if (node.own && node.own->take_replaced())
      notices.push_back(fmt::format(
          "node {}: its gdb had died and was replaced; settings and values made in the old one are lost", id));
  return notices;
}

}  // namespace friday
