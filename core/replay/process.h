// One traced process: ptrace and /proc/PID/mem, nothing of recordings. Started as the stub (core/shim/stub.S), which
// makes any system call it is told to, and turned into a node's process from there.
//
// All methods on the one thread that traces; threads of the process are named by kernel tid. EXITKILL is set: if Friday
// dies, no process is left behind.
#pragma once

#include <sys/types.h>
#include <sys/user.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/fd.h"

namespace friday {

// The directory of /proc that tells of the memory of process `pid`: its own, or a thread's of it, as that of a main
// thread which has ended before the others tells nothing.
std::string memory_directory(pid_t pid);

class TracedProcess {
 public:
  // Starts `stub` as a traced child, stopped, with `schedule` at number kScheduleFd and `channel` at kChannelFd; it is
  // told to close all others. It joins process group `group` (0: makes one), so that one waitpid serves all nodes and
  // nothing else.
  static Result<TracedProcess> start_stub(const std::string& stub, int schedule, int channel, pid_t group);
  // Takes over a process that is traced already (a forked child).
  static Result<TracedProcess> adopt(pid_t pid);
  static constexpr int kScheduleFd = 100, kChannelFd = 101;

  TracedProcess(TracedProcess&& other) noexcept;
  TracedProcess& operator=(TracedProcess&& other) noexcept;
  ~TracedProcess();

  struct Call {
    uint64_t number;
    uint64_t arguments[6];
    int64_t result;
  };
  // Has the stub make these calls in order. Fails if the stub dies, not if a call fails.
  Result<void> run_stub(std::vector<Call>& calls);
  // Address in the stub's table where strings and structures for its calls can be put.
  static constexpr uint64_t kScratch = 512 << 10;
  Result<uint64_t> put_scratch(std::span<const std::byte> data, uint64_t& used);

  pid_t pid() const { return pid_; }
  // Its memory is gone: it was killed, reaped or not.
  bool is_gone() const;
  // How it ended, as waitpid has it, once somebody has waited for it.
  std::optional<int> end_status() const { return end_status_; }

  bool read(uint64_t address, void* to, size_t size) const;
  // How many bytes from `address` could be read, at most `size`.
  size_t read_some(uint64_t address, void* to, size_t size) const;
  bool write(uint64_t address, const void* from, size_t size) const;  // protections notwithstanding

  // `tid` must be stopped. False when the thread is gone.
  static bool registers(pid_t tid, user_regs_struct& out);
  static bool set_registers(pid_t tid, const user_regs_struct& in);
  static bool single_step(pid_t tid);
  static uint64_t register_changes();  // how often set_registers and single_step were called, from 1

  // Runs one system call in stopped thread `tid` at `instruction` (a syscall followed by anything), restoring
  // registers. Fails where something else than such an instruction stands there, or the filter refuses the call.
  Result<int64_t> inject(pid_t tid, uint64_t instruction, long number, std::span<const uint64_t> arguments);

  // Waits until a thread of the process stops or ends; its status, 0 when there is no such thread any more. Comes back
  // also when somebody kills the process meanwhile, though its first thread cannot be reaped before all others.
  int wait(pid_t tid);
  void kill();                                                    // SIGKILL and reap
  void note_end(int status) { end_status_ = status, pid_ = -1; }  // it has ended and was reaped

 private:
  TracedProcess() = default;
  Result<void> open_memory();

  pid_t pid_ = -1;
  std::optional<int> end_status_;
  UniqueFd memory_;
  pid_t group_ = 0;
  uint64_t table_ = 0;
};

}  // namespace friday
