// The interface between an endpoint and the owner of its node. Memory and registers are accessed through NodeControl;
// everything that makes the node run or determines when it stops goes through RspHost.
//
// Both sides rely on these rules:
//  1. There is one thread. A call may call back into RspEndpoint::report(), but must not destroy the endpoint.
//  2. resume() starts the node (and with it the group) and returns at once. When the node stops again, for whatever
//     reason, the host calls RspEndpoint::report(); it may do so from within resume().
//  3. A software or hardware breakpoint stops before its instruction, with rip on it. A node that stands on a
//     breakpoint resumes past it. A watchpoint stops after the store when running forwards, and before it in reverse.
//  4. gdb removes all its breakpoints at each stop and inserts them again before it resumes, so setting and clearing
//     must be cheap.
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
  std::optional<ThreadId> thread{};  // empty: all threads that no earlier action names
  int signal = 0;                    // Linux number of a signal to deliver when it resumes; 0: none
  Addr low{}, high{};                // for step_range: step while low <= rip < high
};

struct ResumeRequest {
  enum class Direction { forward, reverse_step, reverse_continue };
  Direction direction = Direction::forward;
  std::vector<ThreadAction> actions{};  // for forward execution only; threads that no action names do not run
  std::optional<ThreadId> thread{};     // for reverse execution only: the thread selected in gdb
  // Threads whose rip the client has changed since the stop: it calls a function of the program (whose system calls
  // then go to the kernel), returns from such a call, or jumps.
  std::vector<ThreadId> moved{};
};

struct StopPointRequest {
  // numbered as in the packets Z0 to Z4
  enum class Kind { software = 0, hardware = 1, write_watch = 2, read_watch = 3, access_watch = 4 };
  Kind kind = Kind::software;
  Addr address{};
  uint64_t length = 0;  // bytes watched; 1 for breakpoints
  // agent bytecode; the stop point hits if any is true, or if there are none
  std::vector<std::vector<std::byte>> conditions{};
};

// Why the node stopped. `thread` is the thread that gdb will select.
struct StopReport {
  enum class Kind {
    signal,  // `signal` is about to be delivered; SIGTRAP for a stop without another reason
    breakpoint,
    hardware_breakpoint,
    write_watch,  // `address` is inside the range that the client watches
    read_watch,
    access_watch,
    step,           // the requested steps are done
    interrupted,    // the host was asked to interrupt, or stopped the group for its own reasons
    history_begin,  // reached the beginning of the recording
    history_end,    // reached the end of the recording
    exited,         // with `status`
    killed,         // by `signal`
  };
  Kind kind = Kind::signal;
  ThreadId thread{};
  Addr address{};
  int signal = SIGTRAP;
  int status = 0;
  std::optional<siginfo_t> siginfo{};
};

// What a host can do besides running forwards. Only these abilities are advertised to clients.
struct RspAbilities {
  bool reverse = false;     // bc, bs
  bool conditions = false;  // it evaluates StopPointRequest::conditions
};

class RspHost {
 public:
  virtual ~RspHost() = default;

  virtual RspAbilities abilities(NodeId node) const = 0;
  // The directory in which a client finds the node's files by the names that the program has for them. It is asked for
  // once, when a client connects.
  virtual std::string sysroot(NodeId) const { return "/"; }
  virtual Result<void> resume(NodeId node, const ResumeRequest& request) = 0;
  virtual void interrupt(NodeId node) = 0;
  // If the stop point exists, its conditions are replaced. gdb shows the user only that setting it failed, so the host
  // must report the reason itself.
  virtual Result<void> set_stop_point(NodeId node, const StopPointRequest& request) = 0;
  virtual Result<void> clear_stop_point(NodeId node, const StopPointRequest& request) = 0;
  // `monitor COMMAND` in gdb. Returns the output to print.
  virtual Result<std::string> monitor(NodeId node, std::string_view command) = 0;
  // The client asks to kill the node. The host may refuse with an error; then the client sees the error and the node
  // lives.
  virtual Result<void> kill(NodeId node) = 0;
  // The client has detached or its connection was lost; its stop points have been cleared. If the node runs on its
  // behalf, the host must stop it.
  virtual void disconnected(NodeId node) = 0;
};

}  // namespace friday
