// One traced process, by ptrace and /proc/PID/mem; knows nothing of recordings. It starts as friday-stub
// (core/shim/stub.S), which executes any system calls that it is given, and is turned into a node's process from there.
//
// Call all methods on the tracing thread; threads of the process are identified by kernel tid. PTRACE_O_EXITKILL is
// set, so no process remains if Friday dies.
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

// The /proc directory that describes the memory of process `pid`: its own or that of one of its threads, because the
// directory of a main thread that ended before the others is empty.
std::string memory_directory(pid_t pid);

// The orig_rax of a thread that is in no system call. Setting it cancels a call that has not been made yet, and keeps
// the kernel from restarting one that was interrupted.
inline constexpr uint64_t kNoCall = ~0ull;

// What a wait status says of a process: "exited with code 1", "was killed by SIGKILL" or "stopped at SIGSEGV".
std::string ending_text(int status);

class TracedProcess {
 public:
  // Starts friday-stub, whose path is `path`, as a stopped traced child, with `schedule` at descriptor kScheduleFd and
  // `channel` at kChannelFd; it closes all others. It joins process group `group` (0: creates one), so that one waitpid
  // serves exactly the processes of the replay.
  static Result<TracedProcess> start_friday_stub(const std::string& path, int schedule, int channel, pid_t group);
  // Adopts a process that is already traced (a forked child).
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
  // Makes friday-stub execute the calls in order. Fails if the process dies, but not if a call fails.
  Result<void> run_friday_stub(std::vector<Call>& calls);
  // Offset in friday-stub's table of the area for strings and structures that its calls refer to.
  static constexpr uint64_t kScratch = 512 << 10;
  Result<uint64_t> put_scratch(std::span<const std::byte> data, uint64_t& used);

  pid_t pid() const { return pid_; }
  // Whether its memory is gone: it was killed, whether or not it has been reaped.
  bool is_gone() const;
  // The wait status with which it ended, if it has been reaped.
  std::optional<int> end_status() const { return end_status_; }

  bool read(uint64_t address, void* to, size_t size) const;
  // Reads as many bytes from `address` as possible, at most `size`. Returns how many.
  size_t read_some(uint64_t address, void* to, size_t size) const;
  bool write(uint64_t address, const void* from, size_t size) const;  // ignores page protections

  // `tid` must be stopped. Returns false if the thread is gone.
  static bool registers(pid_t tid, user_regs_struct& out);
  static bool set_registers(pid_t tid, const user_regs_struct& in);
  static bool single_step(pid_t tid);
  static uint64_t register_changes();  // how often set_registers() and single_step() were called, counting from 1

  // Makes a thread that was stopped inside a blocking system call return from it with EINTR, which every loop of the
  // shim expects. Otherwise the kernel would restart the call when the thread resumes, with whatever is in its
  // registers then. `registers` are those of the stopped thread and must be set afterwards.
  static void end_interrupted_call(user_regs_struct& registers);

  // Executes one system call in the stopped thread `tid`, using the syscall instruction at `instruction`, and restores
  // the registers. Fails if there is no such instruction, or if the filter refuses the call.
  Result<int64_t> inject(pid_t tid, uint64_t instruction, long number, std::span<const uint64_t> arguments);

  // Makes the stopped thread `tid` call clone(2) with `flags`, at the syscall instruction at `instruction`, and
  // restores its registers. Returns the new thread or process, which is stopped before its first instruction and has
  // the same registers. Fails with unsupported if the kernel refuses (limits, memory).
  Result<pid_t> clone(pid_t tid, uint64_t instruction, uint64_t flags);

  // Waits until a thread of the process stops or ends and returns its wait status, or 0 if the thread does not exist
  // any more. Also returns if the process is killed meanwhile, although its first thread cannot be reaped before all
  // others.
  int wait(pid_t tid);
  void kill();  // sends SIGKILL and reaps
  // call if it has ended and somebody else has reaped it
  void note_end(int status) { end_status_ = status, pid_ = -1; }

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
