// What the tests of core/stop share: a traced child whose patches are hidden as NodeControl demands, and a loop that
// runs it with a stop engine until it stops for a test to look at.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/stop/breakpoints.h"
#include "core/stop/patched_bytes.h"
#include "core/stop/watch.h"
#include "tests/unit/ptrace_node.h"

namespace friday {

// Forwards to a PtraceNode; read() and write() hide and keep what `patches` has.
class PatchedNode final : public NodeControl {
 public:
  PatchedNode(PtraceNode& inner, PatchedBytes& patches) : inner_(inner), patches_(patches) {}
  NodeId id() const override { return inner_.id(); }
  std::vector<ThreadInfo> threads() override { return inner_.threads(); }
  Result<void> read(Addr address, std::span<std::byte> out) override;
  Result<void> write(Addr address, std::span<const std::byte> data) override;
  Result<void> read_raw(Addr address, std::span<std::byte> out) override { return inner_.read_raw(address, out); }
  Result<void> write_raw(Addr address, std::span<const std::byte> data) override {
    return inner_.write_raw(address, data);
  }
  Result<user_regs_struct> registers(ThreadId thread) override { return inner_.registers(thread); }
  Result<void> set_registers(ThreadId thread, const user_regs_struct& values) override {
    return inner_.set_registers(thread, values);
  }
  Result<std::vector<std::byte>> extended_state(ThreadId thread) override { return inner_.extended_state(thread); }
  Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) override {
    return inner_.set_extended_state(thread, state);
  }
  Result<int64_t> inject(long number, std::span<const uint64_t> arguments) override {
    return inner_.inject(number, arguments);
  }
  Result<void> single_step(ThreadId thread) override {
    ++steps;
    return inner_.single_step(thread);
  }
  Result<std::vector<Mapping>> mappings() override { return inner_.mappings(); }
  Result<std::vector<std::byte>> auxv() override { return inner_.auxv(); }
  std::string executable() override { return inner_.executable(); }

  uint64_t steps = 0;

 private:
  PtraceNode& inner_;
  PatchedBytes& patches_;
};

// Where stop_breaks has a label break_NAME.
inline const std::vector<std::string> places = {"endbr64",
                                                "lea_plain",
                                                "ret",
                                                "ret_imm",
                                                "push",
                                                "push_frame",
                                                "mov_frame",
                                                "sub_rsp",
                                                "mov_load_relative",
                                                "add_store_relative",
                                                "cmp_imm_relative",
                                                "lea_relative",
                                                "call_direct",
                                                "call_memory_relative",
                                                "call_register",
                                                "call_on_stack",
                                                "pop",
                                                "test",
                                                "jz",
                                                "jmp_short",
                                                "jl",
                                                "jbe",
                                                "jmp_near",
                                                "jmp_register",
                                                "loop",
                                                "jrcxz",
                                                "movdqu_relative",
                                                "movaps_register",
                                                "movq_vector",
                                                "cmov",
                                                "mov_imm",
                                                "syscall",
                                                "rep_stos",
                                                "nop",
                                                "xchg_memory",
                                                "lock_add",
                                                "leave",
                                                "pop_last",
                                                "jmp_back"};

// A program under a stop engine.
struct Debuggee {
  explicit Debuggee(std::vector<std::string> arguments);
  ~Debuggee();

  std::string output_path;  // filled in while `process` is made
  std::unique_ptr<PtraceNode> process;
  PatchedBytes patches;
  PatchedNode node;
  Breakpoints breakpoints{node, patches};
  WatchSet watches{node, breakpoints};
  ThreadId thread{0};

  uint64_t symbol(const std::string& name);
  user_regs_struct registers() { return *node.registers(thread); }
  template <typename T>
  T get(uint64_t address) {
    T value{};
    EXPECT_OK(node.read(Addr{address}, std::as_writable_bytes(std::span(&value, 1))));
    return value;
  }
  template <typename T>
  void put(uint64_t address, const T& value) {
    EXPECT_OK(node.write(Addr{address}, std::as_bytes(std::span(&value, 1))));
  }
  template <typename R>
  static void EXPECT_OK(const R& result) {
    if (!result) report(result.error());
  }
  static void report(const Error& error);

  // Maps `size` bytes of executable memory; `near` 0: where the kernel likes, else as close as possible.
  PadArea map_pads(uint64_t near, uint64_t size = 1 << 16);
  // Runs to `address` (and stands on it), with the engine at work.
  void run_to(uint64_t address);
  // Continues until a breakpoint is hit or the program ends. Watch faults are served and their hits go to `on_watch`.
  // True: stands on a breakpoint (rip). False: the program is gone, or got a signal (`last`).
  bool go();
  bool go_from_here() {  // the test has moved rip: whatever breakpoint the thread stood on is behind it
    at_breakpoint_ = false;
    return go();
  }
  std::string finish();  // lets the program end and returns what it printed

  std::function<void(const FaultOutcome&)> on_watch;
  NodeStop last{};

 private:
  bool at_breakpoint_ = false;
};

}  // namespace friday
