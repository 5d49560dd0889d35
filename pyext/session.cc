// Binds _friday.Session.
#include "pyext/session.h"

#include "core/origin/origin.h"

#include <dlfcn.h>

#include <atomic>

namespace friday {

namespace {

std::atomic<Debugger*> running{nullptr};  // the debugger whose resume Ctrl-C interrupts

// readline calls this hook when it is idle, so that the gdbs continue to connect while a prompt waits for input.
Session* idle_session = nullptr;
int pump_idle() {
  if (idle_session) (void)idle_session->debugger().serve(0);
  return 0;
}

}  // namespace

InterruptGuard::InterruptGuard(Debugger& debugger) {
  running = &debugger;
  struct sigaction action {};
  action.sa_handler = [](int) {
    if (Debugger* d = running) d->interrupt();
  };
  sigaction(SIGINT, &action, &before_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &before_, nullptr);
  running = nullptr;
}

std::string default_library_directory() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&default_library_directory), &info)) return "lib";
  return (std::filesystem::path(info.dli_fname).parent_path().parent_path() / "lib").string();
}

SyncMode sync_mode(const std::string& text) {
  if (auto mode = sync_mode_named(text)) return *mode;
  raise({ErrorCode::usage, fmt::format("sync is \"clock\", \"causal\" or \"free\", not \"{}\"", text)});
}

void leave_idle(const Session* session) {
  if (session == idle_session) idle_session = nullptr;
}

void bind_session(py::module_& module) {
  py::class_<PyNode>(module, "NodeInfo")
      .def_readonly("id", &PyNode::id)
      .def_readonly("name", &PyNode::name)
      .def_readonly("program", &PyNode::program)
      .def_readonly("alias", &PyNode::alias)
      .def_readonly("parent", &PyNode::parent)
      .def_readonly("previous", &PyNode::previous)
      .def("__repr__", [](const PyNode& n) { return fmt::format("<node {} {}>", n.id, n.name); });
  bind_stop(module);
  bind_messages(module);
  bind_origin(module);
  py::class_<Session>(module, "Session")
      .def(py::init<const std::string&, std::optional<std::string>, const std::string&, const std::vector<std::string>&,
                    bool>(),
           py::arg("recording"), py::arg("nodes") = py::none(), py::arg("sync") = "clock",
           py::arg("symbols") = std::vector<std::string>(), py::arg("unconfined") = false)
      .def("nodes", &Session::nodes)
      .def("states", &Session::states)
      .def("alive", &Session::alive)
      .def("logical_time", &Session::logical_time)
      .def("real_time", &Session::real_time)
      .def("events_done", &Session::events_done)
      .def("event", &Session::event)
      .def("event_count", &Session::event_count)
      .def("events", &Session::events)
      .def("outputs", &Session::outputs)
      .def("output", &Session::output)
      .def("find_time", &Session::find_time)
      .def("end_time", &Session::end_time)
      .def("clock_span", &Session::clock_span)
      .def("find_clock", &Session::find_clock)
      .def("sync", &Session::sync)
      .def("patch_stores", &Session::patch_stores)
      .def("set_patch_stores", &Session::set_patch_stores, py::arg("on"))
      .def("messages", &Session::messages, py::arg("node") = py::none(), py::arg("limit") = 20)
      .def("message", &Session::message)
      .def("message_contents", &Session::message_contents)
      .def("find_messages", &Session::find_messages, py::arg("sources") = py::none(), py::arg("targets") = py::none())
      .def("last_received", &Session::last_received)
      .def("progress", &Session::progress)
      .def("altered", &Session::altered)
      .def("take_inferred", &Session::take_inferred)
      .def("undescribed", &Session::undescribed)
      .def("costs", &Session::costs)
      .def("plan", &Session::plan)
      .def("forget", &Session::forget)
      .def("read", &Session::read)
      .def("write", &Session::write)
      .def("write_bytes", [](Session& s, uint32_t node, const std::string& target,
                             const py::bytes& data) { s.write_bytes(node, target, data); })
      .def("read_string", &Session::read_string)
      .def("read_memory", &Session::read_memory)
      .def("stage", [](Session& s, uint32_t node, const py::bytes& data) { return s.stage(node, data); })
      .def("types", &Session::types)
      .def("gdb", &Session::gdb)
      .def("endpoint", &Session::endpoint)
      .def("places", &Session::places)
      .def("was_placed", &Session::was_placed)
      .def("backtrace", &Session::backtrace)
      .def("complete", &Session::complete)
      .def("location", &Session::location)
      .def("take_notices", [](Session& s) { return s.debugger().take_notices(); })
      .def("add_breakpoint", &Session::add_breakpoint)
      .def("add_watch", &Session::add_watch)
      .def("add_catch", &Session::add_catch)
      .def("add_timer", &Session::add_timer)
      .def("delete", &Session::remove)
      .def("enable", &Session::enable)
      .def("ignore", &Session::ignore)
      .def("condition", &Session::condition)
      .def(
          "resume",
          [](const py::object& self, std::optional<double> timeout, std::optional<std::pair<uint32_t, uint64_t>> last) {
            return make_stop(self, self.cast<Session&>().resume(timeout, last));
          },
          py::arg("timeout") = py::none(), py::arg("last") = py::none())
      .def("step",
           [](const py::object& self, uint32_t node, const std::string& command) {
             return make_stop(self, self.cast<Session&>().step(node, command));
           })
      .def(
          "run_to",
          [](const py::object& self, std::optional<uint32_t> node, uint64_t event, std::optional<double> timeout) {
            return make_stop(self, self.cast<Session&>().run_to(node, event, timeout));
          },
          py::arg("node"), py::arg("event"), py::arg("timeout") = py::none())
      .def("step_back",
           [](const py::object& self, uint32_t node) { return make_stop(self, self.cast<Session&>().step_back(node)); })
      .def(
          "run_back",
          [](const py::object& self, const std::vector<uint32_t>& passed, const std::optional<py::function>& accepts) {
            std::function<bool(const DebugStop&)> judge;
            if (accepts) judge = [&](const DebugStop& stop) { return (*accepts)(make_stop(self, stop)).cast<bool>(); };
            return make_stop(self, self.cast<Session&>().run_back(passed, judge));
          },
          py::arg("passed"), py::arg("accepts") = py::none())
      .def("position", &Session::position)
      .def("go_to_mark",
           [](const py::object& self, const std::string& mark) {
             return make_stop(self, self.cast<Session&>().go_to_mark(mark));
           })
      .def("origin", &origin_of)
      .def("new_checkpoints", &Session::new_checkpoints)
      .def("checkpoint_numbers", &Session::checkpoint_numbers)
      .def("note_copy", &Session::note_copy)
      .def("drop_checkpoints", &Session::drop_checkpoints)
      .def("come_again",
           [](const py::object& self, uint64_t number, const py::function& each) {
             return self.cast<Session&>().come_again(number,
                                                     [&](const DebugStop& stop) { each(make_stop(self, stop)); });
           })
      .def("note_move", &Session::note_move, py::arg("tag") = 0)
      .def("drop_move", &Session::drop_move)
      .def("come_back", &Session::come_back)
      .def("cut_named", &Session::cut_named)
      .def("total_events", &Session::total_events)
      .def("at_position", &Session::at_position)
      .def(
          "undo",
          [](const py::object& self, bool forward, uint64_t tag) -> py::object {
            auto undone = self.cast<Session&>().undo(forward, tag);
            if (!undone) return py::none();
            return py::make_tuple(make_stop(self, std::move(undone->first)), undone->second);
          },
          py::arg("forward") = false, py::arg("tag") = 0)
      .def("release_processor", &Session::release_processor)
      .def("interrupt_waits", &Session::interrupt_waits)
      .def("clear_interrupt", &Session::clear_interrupt)
      .def("interrupt", &Session::interrupt)
      .def("restart", &Session::restart, py::arg("sync") = py::none())
      .def("approach", &Session::approach)
      .def("set_checkpoints", &Session::set_checkpoints, py::arg("on") = py::none(), py::arg("budget") = py::none())
      .def("checkpoint", &Session::checkpoint)
      .def("checkpoints", &Session::checkpoints)
      .def("close", &Session::close)
      .def("fds", &Session::fds)
      .def("pump", &Session::pump, py::arg("timeout") = 0.0)
      .def("call_timeout", &Session::call_timeout)
      .def("set_call_timeout", &Session::set_call_timeout, py::arg("seconds"))
      .def("prepare", &Session::prepare, py::arg("nodes"))
      .def("gdb_count", &Session::gdb_count)
      .def("gdb_start", &Session::gdb_start, py::arg("when") = py::none())
      .def("state_hash", &Session::state_hash)
      .def("watch_statistics", &Session::watch_statistics);
  module.def(
      "pump_while_idle",
      [](const py::object& session) {
        idle_session = session.is_none() ? nullptr : &session.cast<Session&>();
        PyOS_InputHook = idle_session ? pump_idle : nullptr;
      },
      "Serves the session's gdbs while Python waits for a line; None ends it.");
}

}  // namespace friday
