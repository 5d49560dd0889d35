// One node during replay: its process, rebuilt from the start image, and the program's view of it. Implements
// NodeControl; the stop engine and the gdb endpoint therefore see the registers that the program had, never those of
// the shim.
//
// Owned by ReplaySession and used on its thread only. A node is `waiting` before its process exists (a child that is
// not forked yet), then `live`, then `ended`. The process of an ended node stays stopped at its last instruction, so
// that its last state can be read.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/replay/descriptor_channel.h"
#include "core/replay/process.h"
#include "core/replay/snapshot.h"
#include "core/shim/shim_abi.h"
#include "core/stop/breakpoints.h"
#include "core/stop/node_control.h"
#include "core/stop/passage_counter.h"
#include "core/stop/patched_bytes.h"
#include "core/stop/watch.h"
#include "core/trace/reader.h"
#include "core/trace/recording.h"

namespace friday {

constexpr uint64_t kCallLength = 2;  // bytes of a syscall instruction

Error process_gone(NodeId id);

// Whether the general registers are equal; segment bases are not compared.
bool same_registers(const user_regs_struct& a, const user_regs_struct& b);

class ReplayNode final : public NodeControl {
 public:
  ReplayNode(const NodeInfo& info, TraceReader reader) : info_(info), reader_(std::move(reader)) {
    if (reader_.inferred()) inferred_.emplace(*reader_.inferred());
  }

  // ---- NodeControl
  NodeId id() const override { return info_.id; }
  uint64_t events_done() const override;  // if the process is gone, the last known number
  std::vector<ThreadInfo> threads() override;
  Result<void> read(Addr address, std::span<std::byte> out) override;
  Result<void> write(Addr address, std::span<const std::byte> data) override;
  Result<void> read_raw(Addr address, std::span<std::byte> out) override;
  Result<void> write_raw(Addr address, std::span<const std::byte> data) override;
  Result<user_regs_struct> registers(ThreadId thread) override;
  Result<void> set_registers(ThreadId thread, const user_regs_struct& registers) override;
  Result<std::vector<std::byte>> extended_state(ThreadId thread) override;
  Result<void> set_extended_state(ThreadId thread, std::span<const std::byte> state) override;
  // The same with the state that a start image has of a thread (ImageThreadRecord).
  Result<void> set_recorded_state(ThreadId thread, std::span<const std::byte> state);
  Result<int64_t> inject(long number, std::span<const uint64_t> arguments) override;
  Result<void> single_step(ThreadId thread) override;
  bool has_debug_registers() override;
  Result<void> set_debug_slots(const DebugSlots& slots) override;
  uint32_t take_debug_hits(ThreadId thread) override;
  Result<std::vector<Mapping>> mappings() override;
  Result<std::vector<std::byte>> auxv() override;
  std::string executable() override;
  bool is_fridays(Addr address) override { return address.value >= shim_low_ && address.value < shim_high_; }

  // ---- For the session
  const NodeInfo& info() const { return info_; }
  const TraceReader& reader() const { return reader_; }
  NodeState state() const { return at_.state; }
  const NodeOutcome& outcome() const { return at_.outcome; }
  // False if its replay diverged or failed.
  bool has_ended_as_recorded() const {
    return at_.state == NodeState::ended && at_.outcome.how != NodeOutcome::How::diverged &&
           at_.outcome.how != NodeOutcome::How::failed;
  }
  void end(NodeOutcome outcome);
  // Fails with node_ended if the node has ended, diverged or failed; `then` says what is therefore impossible.
  Result<void> check_goes_on(std::string_view then) const;

  struct Thread : ThreadSnapshot {
    pid_t tid = 0;
    bool stopped = true;
    bool requested = false;      // an interrupt has been sent and not arrived yet
    uint32_t debug_version = 0;  // version of the debug registers that are loaded in the thread
    // The registers at which standing() has given up to step the thread to where its call frame is complete.
    mutable std::optional<user_regs_struct> gave_up_at{};
    // The thread executes a function that the debugger calls; this is the state to restore afterwards.
    struct Detour {
      ThreadSnapshot thread;
      user_regs_struct hardware, view;
      shim::ThreadArea area;
      std::vector<std::byte> extended;
      uint64_t return_address, return_rsp;      // the place and stack pointer with which the function returns
      std::optional<int64_t> answer = {};       // the answer to the current system call, which is not made
      bool asked_kernel = false;                // a system call was passed to the kernel
      std::optional<shim::Control> traps = {};  // what the shim has told by traps that nobody has handled yet
    };
    std::unique_ptr<Detour> detour;
  };

  // Whether somebody other than the program has changed its memory or registers: begin_call() and set_registers() note
  // that in system calls, others call note_altered(). A copy of the process is altered, too.
  bool is_altered() const { return altered_; }
  void note_altered() { altered_ = true; }

  // Whether anything that was read of the program since the last call may depend on payload that nobody has any more
  // (core/trace/inferred.h): memory, or registers while code runs that computes with such bytes.
  bool take_read_inferred();

  // What a checkpoint keeps of the node besides its process.
  NodeSnapshot snapshot() const { return at_; }
  void set_snapshot(const NodeSnapshot& at) { at_ = at; }

  std::optional<ExpectedSpin>& spin() { return at_.spin; }
  uint64_t count_fork() { return ++at_.forks; }  // returns how many processes it has created

  // Adopts a process that is stopped in the shim just after the start image was entered.
  Result<void> attach(TracedProcess process, uint64_t control_address);
  // Adopts a process that is a copy of the process of `original`, made by fork(2) in it: what is known of that one (its
  // code, breakpoints, watches) holds for this one. `original` is stopped and has not run since. The process has one
  // thread, which is stopped.
  Result<void> become_copy(ReplayNode& original, TracedProcess process);
  // Sets the channel through which the process receives descriptors.
  void set_channel(const DescriptorChannel& channel) { channel_ = &channel; }
  // Sets the parent of a forked node, whose mapped files the node shares.
  void set_parent(ReplayNode& parent) { parent_ = &parent; }
  ReplayNode* parent() const { return parent_; }
  void set_auxv(uint64_t address, uint64_t bytes) { auxv_address_ = address, auxv_bytes_ = bytes; }
  uint64_t auxv_address() const { return auxv_address_; }
  uint64_t auxv_bytes() const { return auxv_bytes_; }
  uint64_t control_address() const { return control_address_; }
  DescriptorChannel::Receiver receiver() const { return DescriptorChannel::receiver(control_, control_address_); }
  // Makes the stopped thread `tid` receive `fd` from the core. Returns its number in the process.
  Result<int> receive(pid_t tid, int fd) { return channel_->hand_over(*process_, tid, receiver(), fd); }
  // The range of the shim's own data, which is not part of the program's state.
  void set_shim_range(uint64_t low, uint64_t high) { shim_low_ = low, shim_high_ = high; }
  uint64_t shim_low() const { return shim_low_; }
  uint64_t shim_high() const { return shim_high_; }
  TracedProcess& process() { return *process_; }
  bool has_process() const { return process_.has_value(); }
  // How the process ended during the replay, if that was noticed. (The end of a recording does not end the process.)
  std::optional<int> killed() const {
    return process_ && at_.state == NodeState::live ? process_->end_status() : std::nullopt;
  }

  const shim::Control& control() const { return control_; }  // as of the last refresh_control()
  bool refresh_control();
  template <typename T>
  bool set_control(T shim::Control::*field, const T& value) {
    control_.*field = value;
    auto offset = reinterpret_cast<const char*>(&(control_.*field)) - reinterpret_cast<const char*>(&control_);
    return process_->write(control_address_ + static_cast<uint64_t>(offset), &value, sizeof value);
  }

  std::map<pid_t, Thread>& threads_by_tid() { return threads_; }
  Thread* thread_of(pid_t tid);
  Thread* thread_of(ThreadId id);
  void add_thread(pid_t tid);
  void remove_thread(pid_t tid);
  // The thread that holds the token.
  ThreadId current() const;

  // Loads the wanted debug registers into a stopped thread before it resumes.
  void load_debug_slots(Thread& thread);
  uint32_t take_debug_status(pid_t tid);
  // Notes which debug registers have stopped the thread. Call when the stop has just arrived: after an injected call
  // the kernel no longer tells (PTRACE_GETSIGINFO and DR6 are of the last stop).
  void note_debug_status(Thread& thread, int status);
  // Stops every running thread. Other stops that arrive meanwhile are held.
  Result<void> stop_threads();
  // Whether rip is in the shim or its stubs, which means that the program is in a system call. Instructions of the
  // program that were copied to a stub are the program's (PatchedBytes::program_address()).
  bool in_shim(uint64_t rip) const;
  // Whether the address belongs to Friday's areas other than the shim, which the program does not have: the workspace,
  // too.
  bool in_own_area(uint64_t at) const;
  // Whether the address is in the code that carries out stores which are patched (core/stop/patched_stores.h).
  static bool in_patched_store(uint64_t at) { return at >= store_area && at < store_area + store_area_size; }
  // Whether the shim is reading through a pointer of the program, which may be invalid.
  bool probing(ThreadId id) const;
  const shim::Patch* patch_by_stub(uint64_t rip) const;
  // The thread's pc in the program. A parked thread need not be stopped for this.
  Result<uint64_t> program_counter(ThreadId id);
  // While on, registers() returns the processor's registers instead of the program's (to emulate a store of the shim).
  void show_hardware(bool on) { show_hardware_ = on; }
  // The address of the system call instruction at which thread `id` stands; 0 if it is in the program's own code.
  uint64_t call_site(ThreadId id);
  // Determines the thread numbers of threads of which only the tid is known, once they have registered in the shim.
  void number_threads();

  // The registers of a stopped thread.
  struct Standing {
    user_regs_struct hardware, view;       // the processor's registers, and the registers as the program sees them
    std::optional<shim::ThreadArea> area;  // present if the thread is in the shim
  };
  Result<Standing> standing(ThreadId id);

  // Starts a function call by the debugger: the thread continues with the registers `wanted`, and its system calls go
  // to the kernel and are not part of the trace. end_call() restores the thread, wherever the function is at that time.
  Result<void> begin_call(ThreadId id, const Standing& from, const user_regs_struct& wanted);
  Result<void> end_call(ThreadId id);
  // Whether passages of breakpoints and changes of what is watched count for marks. Call before and after the debugger
  // changes what is not the program's doing; begin_call() and end_call() do.
  Result<void> count_stops(bool on);
  // The program's registers from before the call that the thread is in; null if it is in none.
  const user_regs_struct* call_began_at(ThreadId id);

  // Registers patches that the shim has made since the last call in the table of patched bytes. Returns how many
  // patches there are in all.
  size_t load_patches();
  // Whether the shim has replaced the instruction at this address and emulates it.
  bool carried_out_at(Addr address);
  // Whether the processor repeats the instruction at this address (rep movs and the like).
  bool repeats_at(Addr address);
  // The site at the address at which the shim does the program's next step: it begins with a system call or an emulated
  // instruction, or is a loop's. Null: there is none.
  const shim::Patch* site_at(Addr address);
  // Takes everything out of the process that breakpoints and watches have put there.
  Result<void> remove_all_stops();
  // Reserves room for breakpoint pads near each module, so that continuing from a hit needs no single step.
  Result<void> make_pad_areas();
  PatchedBytes& patched_bytes() { return patched_; }
  Breakpoints& breakpoints() { return breakpoints_; }
  WatchSet& watches() { return watches_; }
  PassageCounter& passages() { return passages_; }
  const PassageCounter& passages() const { return passages_; }
  // Puts the watches into effect and tells the shim where they are, so that it reports mapping calls there.
  Result<void> flush_watches();

 private:
  std::optional<uint64_t> area_address(uint32_t number) const;
  std::optional<shim::ThreadArea> area(uint32_t number) const;
  std::optional<shim::CallFrame> frame_of(const shim::ThreadArea& area) const;
  // Why there is no thread with this number: the process is gone, or never had one.
  Error no_thread(ThreadId id) const;
  Result<Thread*> stopped_thread(ThreadId id);
  Result<user_regs_struct> hardware(const Thread& thread) const;
  Result<Standing> standing(const Thread& thread);
  void hold(Thread& thread, int status);
  Result<void> put_off_stop(Thread& thread);
  bool undo_fault(const Thread& thread, int status);
  bool take_raised_signal(Thread& thread);

  NodeInfo info_;
  TraceReader reader_;
  std::optional<TracedProcess> process_;
  uint64_t control_address_ = 0, auxv_address_ = 0, auxv_bytes_ = 0, shim_low_ = 0, shim_high_ = 0;
  shim::Control control_{};
  mutable NodeSnapshot at_;           // events_done() keeps what it has read
  std::vector<shim::Patch> patches_;  // ordered by stub address
  size_t pads_for_ = 0;               // number of patches when pad areas were last reserved
  std::map<pid_t, Thread> threads_;
  ReplayNode* parent_ = nullptr;
  const DescriptorChannel* channel_ = nullptr;
  bool show_hardware_ = false;
  bool altered_ = false;
  void note_read(Addr address, size_t size);
  void note_registers_read();
  std::optional<InferredMemory> inferred_;  // present if reader_ has payload that was inferred
  bool read_inferred_ = false;
  DebugSlots debug_slots_{};
  uint32_t debug_version_ = 0;
  PatchedBytes patched_;
  Breakpoints breakpoints_{*this, patched_};
  WatchSet watches_{*this, breakpoints_};
  PassageCounter passages_{*this, breakpoints_, watches_.stores()};
};

}  // namespace friday
