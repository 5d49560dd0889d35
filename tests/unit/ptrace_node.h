// A NodeControl over a live program traced with ptrace: a fork with a fixed address-space layout, any number of
// threads, no recording behind it. The unit tests of core/stop and core/rsp run on it what core/replay runs on replayed
// nodes.
//
// One PtraceNode lives on one thread (the one that launched it), but several may live on the same thread. Everything is
// all-stop: between resume() and the NodeStop that wait() or poll() yields the threads run; at all other times each of
// them stands still. The node dies with its PtraceNode.
//
// read() equals read_raw() and write() equals write_raw(): a test that patches code and wants the patches hidden
// derives from this class.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "core/base/fd.h"
#include "core/stop/node_control.h"

namespace friday {

// Why a node stands still.
struct NodeStop {
  enum class Kind {
    signal,     // `thread` is about to get `signal` (SIGTRAP too: int3 has si_code SI_KERNEL and rip behind the int3)
    interrupt,  // interrupt() was asked for
    exited,     // the program ended with `status`
    killed,     // the program was ended by `signal`
  };
  Kind kind = Kind::signal;
  ThreadId thread{};
  int signal = 0;
  int status = 0;
  siginfo_t info{};
};

class PtraceNode : public NodeControl {
 public:
  struct Options {
    std::vector<std::string> environment;  // NAME=VALUE, added to the caller's own environment
    std::string output = "/dev/null";      // file that takes standard output and standard error
    NodeId id{0};
  };

  // Starts the program; it stands at its first instruction (in ld.so when it has one).
  static Result<std::unique_ptr<PtraceNode>> launch(const std::vector<std::string>& arguments, Options options);
  static Result<std::unique_ptr<PtraceNode>> launch(const std::vector<std::string>& arguments);
  // For a test that cannot go on without it: throws what launch() says, with which the test then fails.
  static std::unique_ptr<PtraceNode> launched(const std::vector<std::string>& arguments, Options options);
  static std::unique_ptr<PtraceNode> launched(const std::vector<std::string>& arguments);
  ~PtraceNode() override;
  PtraceNode(const PtraceNode&) = delete;
  PtraceNode& operator=(const PtraceNode&) = delete;

  // Execution. `signal` is given to `thread` as it goes on (0: the signal that it stopped with is swallowed).
  Result<void> resume(std::optional<ThreadId> thread = {}, int signal = 0);  // all threads
  Result<void> resume_only(ThreadId thread, int signal = 0);                 // the others stay
  Result<NodeStop> wait();                                                   // blocks until the node stands still
  Result<std::optional<NodeStop>> poll();                                    // the same, empty while it runs
  void interrupt();                                                          // makes wait() and poll() yield soon
  Result<NodeStop> continue_and_wait(std::optional<ThreadId> thread = {}, int signal = 0);
  Result<NodeStop> step(ThreadId thread, int signal = 0);  // one instruction, the others stay
  // Runs until a thread is about to execute `address` for the next time; rip is put back onto it.
  Result<NodeStop> run_to(Addr address);
  Result<void> detach();  // the program goes on untraced
  bool alive() const { return alive_; }
  bool running() const { return running_; }
  pid_t pid() const { return pid_; }

  // The address of a symbol of the program's file (symtab or dynsym), relocated. Not for thread-local symbols.
  Result<Addr> symbol(const std::string& name);

  NodeId id() const override { return options_.id; }
  std::vector<ThreadInfo> threads() override;
  Result<void> read(Addr address, std::span<std::byte> out) override { return read_raw(address, out); }
  Result<void> write(Addr address, std::span<const std::byte> data) override { return write_raw(address, data); }
  Result<void> read_raw(Addr address, std::span<std::byte> out) override;
  Result<void> write_raw(Addr address, std::span<const std::byte> data) override;
  Result<user_regs_struct> registers(ThreadId thread) override;
  Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) override;
  Result<std::vector<std::byte>> extended_state(ThreadId thread) override;
  Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) override;
  Result<int64_t> inject(long number, std::span<const uint64_t> arguments) override;
  Result<void> single_step(ThreadId thread) override;
  Result<std::vector<Mapping>> mappings() override;
  Result<std::vector<std::byte>> auxv() override;
  std::string executable() override { return executable_; }

 protected:
  explicit PtraceNode(Options options) : options_(std::move(options)) {}

 private:
  struct Thread {
    ThreadId id;
    bool stopped = false;
  };

  Result<void> start(const std::vector<std::string>& arguments);
  Result<pid_t> stopped_tid(ThreadId thread) const;
  Result<void> cont(pid_t tid, int signal);
  Thread& thread_of(pid_t tid);
  std::optional<NodeStop> take(pid_t tid, int status, bool stopping);
  std::optional<NodeStop> take_event(pid_t tid, int event, int signal, bool stopping);
  Result<std::optional<NodeStop>> next_stop(bool block);
  void stop_others();
  void put_back_breakpoints();
  Result<Addr> syscall_instruction();
  void reap();

  Options options_;
  pid_t pid_ = 0;
  std::string executable_;
  UniqueFd memory_;
  std::map<pid_t, Thread> threads_;
  uint32_t next_thread_ = 0;
  ThreadId current_{};            // the one that stopped last
  std::deque<NodeStop> pending_;  // stops that came while the node was being stopped for another one
  std::optional<Addr> syscall_instruction_;
  bool alive_ = false;
  bool running_ = false;
  bool interrupt_wanted_ = false;
};

}  // namespace friday
