// One node under replay: its process, rebuilt from the start image, and the program's view of it. Implements
// NodeControl, so the stop engine and the gdb endpoint see registers as the program left them, never the shim's.
//
// Owned by ReplaySession, used on its thread only. States: a node is `waiting` before its process exists (a child not
// forked yet), `live`, and `ended`; an ended node's process stays, stopped at its last instruction, so that its last
// state can be read.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/replay/descriptor_channel.h"
#include "core/replay/process.h"
#include "core/shim/shim_abi.h"
#include "core/stop/breakpoints.h"
#include "core/stop/node_control.h"
#include "core/stop/patched_bytes.h"
#include "core/stop/watch.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

enum class NodeState { waiting, live, ended };

// How the replay of a node came to its end.
struct NodeOutcome {
  enum class How { none, exited, end_of_recording, signal, diverged, failed };
  How how = How::none;
  int detail = 0;  // exit code or signal
  std::string text;
};

// Equal general registers, segment bases aside.
bool same_registers(const user_regs_struct& a, const user_regs_struct& b);

class ReplayNode final : public NodeControl {
 public:
  ReplayNode(const NodeInfo& info, TraceReader reader) : info_(info), reader_(std::move(reader)) {}

  // ---- NodeControl
  NodeId id() const override { return info_.id; }
  std::vector<ThreadInfo> threads() override;
  Result<void> read(Addr address, std::span<std::byte> out) override;
  Result<void> write(Addr address, std::span<const std::byte> data) override;
  Result<void> read_raw(Addr address, std::span<std::byte> out) override;
  Result<void> write_raw(Addr address, std::span<const std::byte> data) override;
  Result<user_regs_struct> registers(ThreadId thread) override;
  Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) override;
  Result<std::vector<std::byte>> extended_state(ThreadId thread) override;
  Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) override;
  Result<int64_t> inject(long number, std::span<const uint64_t> arguments) override;
  Result<void> single_step(ThreadId thread) override;
  Result<void> set_debug_slots(const DebugSlots& slots) override;
  uint32_t take_debug_hits(ThreadId thread) override;
  Result<std::vector<Mapping>> mappings() override;
  Result<std::vector<std::byte>> auxv() override;
  std::string executable() override;
  bool is_fridays(Addr address) override { return address.value >= shim_low_ && address.value < shim_high_; }

  // ---- The session's side
  const NodeInfo& info() const { return info_; }
  const TraceReader& reader() const { return reader_; }
  NodeState state() const { return state_; }
  const NodeOutcome& outcome() const { return outcome_; }
  // Not where its replay left the recording, or could not go on.
  bool has_ended_as_recorded() const {
    return state_ == NodeState::ended && outcome_.how != NodeOutcome::How::diverged &&
           outcome_.how != NodeOutcome::How::failed;
  }
  void end(NodeOutcome outcome);
  // node_ended when it has, has diverged or has failed; `then` says what is not possible any more.
  Result<void> check_goes_on(std::string_view then) const;

  struct Thread {
    pid_t tid = 0;
    uint32_t number = 0;
    bool stopped = true;
    bool requested = false;  // an interrupt is on its way
    bool at_breakpoint = false;
    struct {
      user_regs_struct registers{};
      uint64_t changes = 0;      // TracedProcess::register_changes() then
    } hit;                       // the last breakpoint's
    int deliver = 0;             // signal to hand to the process when it goes on
    std::optional<int> held;     // wait status that arrived while another one was awaited
    uint32_t debug_version = 0;  // of the debug registers it has
    uint32_t debug_hits = 0;     // of steps that Friday made
    // The thread executes a function that a debugger calls: what to go back to.
    struct Detour {
      user_regs_struct hardware, view;
      shim::ThreadArea area;
      std::vector<std::byte> extended;
      bool at_breakpoint;
      uint64_t return_address, return_rsp;  // where the function comes back to
      std::optional<int64_t> answer = {};   // to the system call under way, which is not made
      bool asked_kernel = false;            // a system call was made
    };
    std::unique_ptr<Detour> detour;
  };

  // The next event is a yield in a loop without a call (spin.cc): whose, where, and how the loop is known.
  struct Spin {
    uint32_t thread;
    format::SpinPoint point;
    uint64_t steps, hash;
    uint64_t looks;
  };
  std::optional<Spin> spin;

  uint64_t forks = 0;  // processes it has made

  // The process, stopped in the shim right after the image was entered. `share`: where the schedule memory comes from.
  Result<void> attach(TracedProcess process, uint64_t control_address);
  // How it gets descriptors.
  void set_channel(const DescriptorChannel& channel) { channel_ = &channel; }
  // Whose files a forked node has mapped.
  void set_parent(ReplayNode& parent) { parent_ = &parent; }
  ReplayNode* parent() const { return parent_; }
  // A forked node's auxiliary vector lies where its parent's does.
  void set_auxv(uint64_t address, uint64_t bytes) { auxv_address_ = address, auxv_bytes_ = bytes; }
  uint64_t auxv_address() const { return auxv_address_; }
  uint64_t auxv_bytes() const { return auxv_bytes_; }
  uint64_t control_address() const { return control_address_; }
  DescriptorChannel::Receiver receiver() const { return DescriptorChannel::receiver(control_, control_address_); }
  // The number of `fd` in the process, which `tid`, a stopped thread of it, takes from the core.
  Result<int> receive(pid_t tid, int fd) { return channel_->hand_over(*process_, tid, receiver(), fd); }
  // Where the shim's own data lies: no part of the program's state.
  void set_shim_range(uint64_t low, uint64_t high) { shim_low_ = low, shim_high_ = high; }
  uint64_t shim_low() const { return shim_low_; }
  uint64_t shim_high() const { return shim_high_; }
  TracedProcess& process() { return *process_; }
  bool has_process() const { return process_.has_value(); }
  // How its process ended under the replay, where somebody has seen that; the recording's end ends no process.
  std::optional<int> killed() const {
    return process_ && state_ == NodeState::live ? process_->end_status() : std::nullopt;
  }

  const shim::Control& control() const { return control_; }  // as of the last refresh
  bool refresh_control();
  template <typename T>
  bool set_control(T shim::Control::*field, const T& value) {
    control_.*field = value;
    auto offset = reinterpret_cast<const char*>(&(control_.*field)) - reinterpret_cast<const char*>(&control_);
    return process_->write(control_address_ + static_cast<uint64_t>(offset), &value, sizeof value);
  }
  uint64_t events_done() const;  // of a process that is gone: as far as was seen

  std::map<pid_t, Thread>& threads_by_tid() { return threads_; }
  Thread* thread_of(pid_t tid);
  Thread* thread_of(ThreadId id);
  void add_thread(pid_t tid);
  void remove_thread(pid_t tid);
  // The thread that holds the token.
  ThreadId current() const;

  // Gives a stopped thread the debug registers that are wanted, before it goes on.
  void load_debug_slots(Thread& thread);
  uint32_t take_debug_status(pid_t tid);
  // Stops every running thread; other stops that arrive meanwhile are held.
  Result<void> stop_threads();
  // Whether rip is in the shim or its stubs: then the program stands at a call.
  bool in_shim(uint64_t rip) const;
  // Memory that the program does not have: Friday's areas besides the shim.
  bool is_fridays(uint64_t at) const;
  // Whether the shim follows pointers of the program, which may lead nowhere.
  bool probing(ThreadId id) const;
  const shim::Patch* patch_by_stub(uint64_t rip) const;
  // The program's pc of a thread; of a parked one without stopping it.
  Result<uint64_t> program_counter(ThreadId id);
  // While on, registers are the processor's own, not the program's (a store of the shim is being emulated).
  void show_hardware(bool on) { show_hardware_ = on; }
  // Address of the call instruction that thread `id` stands at, 0 in the program's own code.
  uint64_t call_site(ThreadId id);
  // Finds the numbers of threads that are known by their tid only: those that have armed themselves in the shim.
  void number_threads();

  // Where a thread stands, which is stopped for it.
  struct Standing {
    user_regs_struct hardware, view;       // the processor's registers, and the program's
    std::optional<shim::ThreadArea> area;  // if the two differ
  };
  Result<Standing> standing(ThreadId id);

  // A function call made by a debugger: the thread, which stands there, goes on with these registers, its system calls
  // are made natively and are no part of the trace. end_call() puts it back as it was, wherever the function is.
  Result<void> begin_call(ThreadId id, const Standing& from, const user_regs_struct& wanted);
  Result<void> end_call(ThreadId id);
  // The program's registers of a thread in a call as they were before it; null when it is in none.
  const user_regs_struct* call_began_at(ThreadId id);

  // Registers the shim's patches with the table of patched bytes, those that came since the last time; how many there
  // are.
  size_t load_patches();
  // Has the shim put an instruction there that it carries out itself?
  bool carried_out_at(Addr address);
  const shim::Patch* planted_at(Addr address);
  // A loop site whose window begins there; and of one of its moved instructions, where the program has it.
  const shim::Patch* loop_at(Addr address);
  std::optional<Addr> moved_from(uint64_t rip) const;
  // Gives the breakpoints room for their pads beside the modules there are; a hit then costs no single step.
  Result<void> make_pad_areas();
  PatchedBytes& patched_bytes() { return patched_; }
  Breakpoints& breakpoints() { return breakpoints_; }
  WatchSet& watches() { return watches_; }
  // Puts the watches in force; the shim is told where they lie, so that it reports mapping calls there.
  Result<void> flush_watches();

 private:
  std::optional<shim::ThreadArea> area(uint32_t number) const;
  std::optional<shim::CallFrame> frame_of(const shim::ThreadArea& area) const;
  // Why there is none of this number: the process has gone, or never had one.
  Error no_thread(ThreadId id) const;
  Result<Thread*> stopped_thread(ThreadId id);
  Result<user_regs_struct> hardware(const Thread& thread) const;
  Result<Standing> standing(const Thread& thread);
  void hold(Thread& thread, int status);
  bool undo_fault(const Thread& thread, int status);

  NodeInfo info_;
  TraceReader reader_;
  std::optional<TracedProcess> process_;
  uint64_t control_address_ = 0, auxv_address_ = 0, auxv_bytes_ = 0, shim_low_ = 0, shim_high_ = 0;
  shim::Control control_{};
  mutable uint64_t events_seen_ = 0;
  std::vector<shim::Patch> patches_;  // by stub address
  size_t pads_for_ = 0;               // patches there were when pad areas were last looked for
  std::map<pid_t, Thread> threads_;
  NodeState state_ = NodeState::waiting;
  NodeOutcome outcome_;
  ReplayNode* parent_ = nullptr;
  const DescriptorChannel* channel_ = nullptr;
  bool show_hardware_ = false;
  DebugSlots debug_slots_{};
  uint32_t debug_version_ = 0;
  PatchedBytes patched_;
  Breakpoints breakpoints_{*this, patched_};
  WatchSet watches_{*this, breakpoints_};
};

}  // namespace friday
