#include "core/debug/gdb_link.h"

namespace friday {

Result<void> GdbLink::start(Pump* pump) {
  if (started_) return {};
  FRIDAY_TRY(gdb, maker_(*node_, pump));
  if (!gdb || started_) return {};  // while waiting, the pump may have called start() too
  FRIDAY_TRY_VOID(client_.endpoint().listen_unix(socket_path_));
  MiSession* raw = gdb.get();
  gdbs_.add(node_->id(), std::move(gdb));
  started_ = true;
  libraries_changed_ = false;  // gdb reads the list when it connects
  // Without caches, because the core changes memory without telling gdb.
  for (const char* setting : {"-gdb-set stack-cache off", "-gdb-set code-cache off", "-gdb-set remotetimeout 60",
                              "-gdb-set unwindonsignal on"})
    raw->send(setting, [](Result<MiReply>) {});  // the result is not needed
  connecting_ = raw->send(connect_command());
  return {};
}

std::string GdbLink::connect_command() const { return "-target-select remote " + socket_path_; }

// Waits until the gdb is connected to the node. Its first attempt may have met a node whose process was gone, before
// the group went back.
Result<void> GdbLink::connect(MiSession& gdb, Pump& pump) {
  FRIDAY_TRY_VOID(gdb.wait_ready(pump));
  for (bool again = true; !connected_; again = false) {
    if (!connecting_) connecting_ = gdb.send(connect_command());
    const auto deadline = std::chrono::steady_clock::now() + gdb.deadline();
    std::optional<Result<MiReply>> reply;
    while (!(reply = gdb.take_result(*connecting_))) {
      if (std::chrono::steady_clock::now() > deadline)
        return std::unexpected(MiSession::deadline_error("target remote", gdb.deadline()));
      FRIDAY_TRY_VOID(pump.pump_once(1000));
    }
    connecting_.reset();
    if (!*reply) return std::unexpected(reply->error());
    connected_ = !(*reply)->record.is_error();
    if (!connected_ && !again) return std::unexpected(error_of((*reply)->record));
  }
  stale_ = true;
  return {};
}

void GdbLink::stop_idle() {
  if (!started_ || asked_) return;
  gdbs_.remove(node_->id());
  started_ = connected_ = false;
}

void GdbLink::rebind(ReplayNode& node) {
  node_ = &node;
  client_.view().rebind(node);
  stale_ = true;
}

Result<MiSession*> GdbLink::session(Pump& pump) {
  if (executes_)
    return fail(ErrorCode::unsupported, "the gdb of node {} is busy with a step and cannot be asked", node_->id());
  FRIDAY_TRY_VOID(start(&pump));
  asked_ = true;
  if (connected_) FRIDAY_TRY_VOID(pump.pump_once(0));  // notices if gdb has died since the last command
  MiSession* gdb = gdbs_.session(node_->id());
  if (!gdb || !gdb->is_alive()) {
    // gdb has died, which does not affect the node. Replace it.
    started_ = connected_ = threads_known_ = false;
    patches_known_ = 0;
    replaced_ = true;
    gdbs_.remove(node_->id());
    FRIDAY_TRY_VOID(start(&pump));
    gdb = gdbs_.session(node_->id());
  }
  if (!connected_) FRIDAY_TRY_VOID(connect(*gdb, pump));
  return gdb;
}

Result<void> GdbLink::ensure_ready(Pump& pump) {
  auto ready = session(pump);
  if (!ready && ready.error().code == ErrorCode::component_died) ready = session(pump);
  if (!ready) return std::unexpected(ready.error());
  return {};
}

Result<void> GdbLink::refresh(MiSession& gdb, Pump& pump) {
  while (gdb.take_async()) {}
  if (!stale_) return {};
  const auto threads = node_->threads();
  if (threads.size() > 1 || threads_known_) {
    threads_known_ = true;
    const ThreadId selected = thread_.value_or(node_->current());
    // gdb numbers threads in the order in which it learnt of them. Their target id contains Friday's number plus 1.
    FRIDAY_TRY(record, gdb.run("-thread-info", pump));
    for (const auto& thread : threads_of(record))
      if (thread.target_id == fmt::format("Thread 1.{}", selected.value + 1))
        FRIDAY_TRY_VOID(gdb.run(fmt::format("-thread-select {}", thread.id), pump));
  }
  // After the selection of a thread, because the one selected before may have ended and would have no registers.
  FRIDAY_TRY_VOID(gdb.console("maint flush register-cache", pump));
  // Make gdb read the list of libraries again if it has changed since gdb connected. New patches of the shim also show
  // that code was loaded.
  const size_t patches = node_->load_patches();
  const bool patched = patches_known_ && patches != patches_known_;
  // gdb 13 updates its own list only when it runs the target itself, so it must discard the list first.
  if (libraries_changed_) FRIDAY_TRY_VOID(gdb.console("nosharedlibrary", pump));
  if (libraries_changed_ || patched) FRIDAY_TRY_VOID(gdb.console("sharedlibrary", pump));
  patches_known_ = patches;
  libraries_changed_ = false;
  if (level_) FRIDAY_TRY_VOID(gdb.run(fmt::format("-stack-select-frame {}", level_), pump));
  stale_ = false;
  return {};
}

// The gdb, up to date with its node. If gdb dies on the way it is replaced once, which is safe because it has not been
// given the command yet.
Result<MiSession*> GdbLink::refreshed(Pump& pump) {
  for (bool again = true;; again = false) {
    auto gdb = session(pump);
    auto done = gdb ? refresh(**gdb, pump) : std::unexpected(gdb.error());
    if (done) return gdb;
    if (!again || done.error().code != ErrorCode::component_died) return std::unexpected(done.error());
  }
}

// Lets gdb's changes take effect. Fails if gdb called a function that has not returned; that call is given up.
Result<void> GdbLink::end_command() {
  FRIDAY_TRY(lost, client_.view().end_command());
  if (!lost) return {};
  stale_ = true;
  return fail(ErrorCode::unsupported,
              "node {}: the called function did not return and was given up; what it changed stays changed",
              node_->id());
}

Result<ResultRecord> GdbLink::run(std::string_view command, Pump& pump) {
  FRIDAY_TRY(gdb, refreshed(pump));
  auto record = gdb->run(command, pump);
  auto ended = end_command();
  if (record && !ended) return std::unexpected(ended.error());
  return record;
}

Result<std::string> GdbLink::ask(std::string_view command, Pump& pump) {
  FRIDAY_TRY(record, run(command, pump));
  return json_of(record);
}

Result<std::string> GdbLink::console(std::string_view command, Pump& pump) {
  FRIDAY_TRY(gdb, refreshed(pump));
  auto text = gdb->console(command, pump);
  auto ended = end_command();
  if (text && !ended) return std::unexpected(ended.error());
  return text;
}

Result<MiStop> GdbLink::execute(std::string_view command, Pump& pump) {
  FRIDAY_TRY(gdb, refreshed(pump));
  executes_ = true;
  struct Done {
    bool& executes;
    ~Done() { executes = false; }
  } done{executes_};
  FRIDAY_TRY_VOID(gdb->run(command, pump));
  for (;;) {
    while (auto record = gdb->take_async())
      if (auto stop = stop_of(*record)) return std::move(*stop);
    if (!gdb->is_alive())
      return fail(ErrorCode::component_died, "node {}: its gdb died: {}", node_->id(), gdb->error_tail());
    FRIDAY_TRY_VOID(pump.pump_once(1000));
  }
}

}  // namespace friday
