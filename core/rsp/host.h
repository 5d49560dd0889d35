// What an endpoint asks of the owner of its node, and what the owner tells it. Reading and writing the node goes
// through NodeControl; everything that makes it run, or that decides when it stops, goes through RspHost.
//
// The contract:
//  1. One thread for everything. A call may call back into RspEndpoint::report(), but may not destroy the endpoint.
//  2. resume() starts the node (and with it the group) and returns at once. When it stops again, for whatever reason,
//     the host calls RspEndpoint::report(); inside resume() is soon enough.
//  3. A software or hardware breakpoint stops before its instruction, with rip on it. The node runs past a breakpoint
//     that it stands on. A watchpoint stops after the store, forwards; in reverse, before it.
//  4. gdb removes all its breakpoints at each stop and inserts them again before it resumes, so set and clear are
//  cheap.
#pragma once

#include <signal.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"

namespace friday {

struct ThreadAction {
  enum class Kind { go, step, step_range };
  Kind kind = Kind::go;
  std::optional<ThreadId> thread{};  // empty: all threads that no earlier action named
  int signal = 0;                    // Linux number of a signal to deliver as it goes on
  Addr low{}, high{};                // step_range: step while low <= rip < high
};

struct ResumeRequest {
  enum class Direction { forward, reverse_step, reverse_continue };
  Direction direction = Direction::forward;
  std::vector<ThreadAction> actions{};  // forward only; a thread that no action names stays where it is
  std::optional<ThreadId> thread{};     // reverse only: the thread that gdb looks at
  // Threads whose rip the client has changed since the stop: it calls a function of the program (its system calls are
  // then answered natively), comes back from one, or jumps.
  std::vector<ThreadId> moved{};

  // The action that applies to `thread`: the first one that names it or names all. Null: it stays.
  const ThreadAction* action_for(ThreadId thread) const {
    for (const ThreadAction& action : actions)
      if (!action.thread || *action.thread == thread) return &action;
    return nullptr;
  }
};

struct StopPointRequest {
  enum class Kind { software = 0, hardware = 1, write_watch = 2, read_watch = 3, access_watch = 4 };  // Z0 to Z4
  Kind kind = Kind::software;
  Addr address{};
  uint64_t length = 0;                               // watchpoints; breakpoints: 1
  std::vector<std::vector<std::byte>> conditions{};  // agent bytecode; stop if any is true, or if there is none
};

// Why the node stopped. `thread` is the one that gdb selects.
struct StopReport {
  enum class Kind {
    signal,  // `signal`, about to be delivered; SIGTRAP for a stop without another reason
    breakpoint,
    hardware_breakpoint,
    write_watch,  // `address`: inside the range that the client set
    read_watch,
    access_watch,
    step,           // the wanted steps are done
    interrupted,    // the host was asked to, or stopped the group for its own reasons
    history_begin,  // nothing recorded lies before
    history_end,    // nothing recorded lies behind
    exited,         // `status`
    killed,         // `signal`
  };
  Kind kind = Kind::signal;
  ThreadId thread{};
  Addr address{};
  int signal = SIGTRAP;
  int status = 0;
  std::optional<siginfo_t> siginfo{};
};

// What a host can do beyond running forwards; a client is offered nothing else.
struct RspAbilities {
  bool reverse = false;     // bc, bs
  bool conditions = false;  // evaluates StopPointRequest::conditions
};

class RspHost {
 public:
  virtual ~RspHost() = default;

  virtual RspAbilities abilities(NodeId node) const = 0;
  virtual Result<void> resume(NodeId node, const ResumeRequest& request) = 0;
  virtual void interrupt(NodeId node) = 0;
  // Setting what is set replaces its conditions. gdb says only that it failed: the host tells its user why.
  virtual Result<void> set_stop_point(NodeId node, const StopPointRequest& request) = 0;
  virtual Result<void> clear_stop_point(NodeId node, const StopPointRequest& request) = 0;
  // `monitor COMMAND` of gdb; the result is printed.
  virtual Result<std::string> monitor(NodeId node, std::string_view command) = 0;
  // The client wants the node dead. An error is shown to it, and the node lives.
  virtual Result<void> kill(NodeId node) = 0;
  // The client is gone, by `detach` or by itself; its stop points were cleared before. If the node runs on its behalf,
  // it is for the host to stop it.
  virtual void disconnected(NodeId node) = 0;
};

}  // namespace friday
