#include "core/replay/node.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/check.h"
#include "core/base/files.h"
#include "core/base/memory_map.h"
#include "core/replay/debug_registers.h"
#include "core/replay/thread_areas.h"
#include "core/shim/thread_name.h"

namespace friday {

using shim::CallFrame;
using shim::ThreadArea;

namespace {

// The registers that the program had when it entered the shim with this frame.
user_regs_struct view_of(const CallFrame& f, const user_regs_struct& hardware) {
  user_regs_struct r = hardware;
  r.rax = f.rax, r.rdi = f.rdi, r.rsi = f.rsi, r.rdx = f.rdx, r.r10 = f.r10, r.r8 = f.r8, r.r9 = f.r9;
  r.rbx = f.rbx, r.rbp = f.rbp, r.r12 = f.r12, r.r13 = f.r13, r.r14 = f.r14, r.r15 = f.r15;
  r.rcx = f.rcx, r.r11 = f.r11, r.rsp = f.rsp, r.eflags = f.eflags;
  r.rip = f.full || !f.site ? f.rip : f.site + kCallLength;
  r.orig_rax = kNoCall;
  return r;
}

void change_frame(CallFrame& f, const user_regs_struct& r) {
  f.rax = r.rax, f.rdi = r.rdi, f.rsi = r.rsi, f.rdx = r.rdx, f.r10 = r.r10, f.r8 = r.r8, f.r9 = r.r9;
  f.rbx = r.rbx, f.rbp = r.rbp, f.r12 = r.r12, f.r13 = r.r13, f.r14 = r.r14, f.r15 = r.r15;
}

bool same_place(const user_regs_struct& a, const user_regs_struct& b) { return a.rip == b.rip && a.rsp == b.rsp; }

}  // namespace

Error process_gone(NodeId id) { return Error{ErrorCode::component_died, "the node's process is gone", id.value}; }

bool same_registers(const user_regs_struct& a, const user_regs_struct& b) {
  return same_place(a, b) && a.rax == b.rax && a.rbx == b.rbx && a.rcx == b.rcx && a.rdx == b.rdx && a.rsi == b.rsi &&
         a.rdi == b.rdi && a.rbp == b.rbp && a.r8 == b.r8 && a.r9 == b.r9 && a.r10 == b.r10 && a.r11 == b.r11 &&
         a.r12 == b.r12 && a.r13 == b.r13 && a.r14 == b.r14 && a.r15 == b.r15 && a.eflags == b.eflags;
}

Result<void> ReplayNode::attach(TracedProcess process, uint64_t control_address) {
  process_ = std::move(process);
  control_address_ = control_address;
  at_.state = NodeState::live;
  if (!refresh_control() || control_.magic != shim::kControlMagic)
    return fail(ErrorCode::bad_input,
                "node {}: the start image lacks the control block of the shim; the recording is damaged. Copy it again",
                info_.id);
  if (control_.abi_version != shim::kAbiVersion)
    return fail(
        ErrorCode::unsupported,
        "node {}: it was recorded with version {} of the shim, and this Friday replays version {}; replay it with the "
        "Friday that recorded it",
        info_.id, control_.abi_version, shim::kAbiVersion);
  load_patches();
  return {};
}

Result<void> ReplayNode::become_copy(ReplayNode& original, TracedProcess process) {
  process_ = std::move(process);
  control_address_ = original.control_address_;
  auxv_address_ = original.auxv_address_, auxv_bytes_ = original.auxv_bytes_;
  shim_low_ = original.shim_low_, shim_high_ = original.shim_high_;
  channel_ = original.channel_;
  altered_ = original.altered_;
  at_.state = NodeState::live;
  if (!refresh_control()) return std::unexpected(process_gone(info_.id));
  patches_ = original.patches_;
  pads_for_ = original.pads_for_;
  patched_ = original.patched_;
  add_thread(process_->pid());
  load_patches();  // those that the shim has added since the original's were read
  breakpoints_.copy_from(original.breakpoints_);
  FRIDAY_TRY_VOID(passages_.copy_from(original.passages_));
  FRIDAY_TRY(pages, original.watches_.stores().snapshot());
  return watches_.copy_from(original.watches_, pages);
}

Result<void> ReplayNode::check_goes_on(std::string_view then) const {
  if (at_.state != NodeState::ended) return {};
  const NodeOutcome::How how = at_.outcome.how;
  const char* what = how == NodeOutcome::How::diverged ? "has diverged from its recording"
                     : how == NodeOutcome::How::failed ? "has failed"
                                                       : "has ended";
  return fail(ErrorCode::node_ended, "node {} {}: {}", info_.id, what, then);
}

void ReplayNode::end(NodeOutcome outcome) {
  at_.state = NodeState::ended;
  at_.outcome = std::move(outcome);
  // The process stays. A thread of it that stopped by itself later would be taken for a child that nobody knows.
  if (process_ && !process_->is_gone()) (void)stop_threads();
}

bool ReplayNode::refresh_control() { return process_ && process_->read(control_address_, &control_, sizeof control_); }

uint64_t ReplayNode::events_done() const {
  if (process_) process_->read(control_address_ + offsetof(shim::Control, event), &at_.events, sizeof at_.events);
  return at_.events;
}

namespace {

// Where the stub of a patched site has the copy of the program's instructions (put_loop() and patch_site() in
// core/shim/patch.cc), and which byte of the site is the first of them.
void set_copy(PatchWindow& window, const shim::Patch& patch) {
  switch (patch.kind) {
    case shim::kSiteLoop:
      if (!patch.is_call()) window.copy = patch.resume, window.has_prologue = true;
      break;
    case shim::kSiteAfter: window.copy = patch.resume, window.copied = static_cast<uint8_t>(kCallLength); break;
    case shim::kSiteBefore: window.copy = patch.stub, window.continues = true; break;
    default: break;
  }
  if (window.copied > window.original.size()) window.copy = 0;  // the table is damaged
}

}  // namespace

size_t ReplayNode::load_patches() {
  uint64_t where[2];
  if (!process_->read(control_address_ + offsetof(shim::Control, patches), where, sizeof where)) return patches_.size();
  if (where[1] <= patches_.size() || where[1] > 65536) return patches_.size();
  std::vector<shim::Patch> all(where[1]);
  if (!process_->read(where[0], all.data(), where[1] * sizeof(shim::Patch))) return patches_.size();
  // The table is in the program's memory, so it may have been overwritten.
  if (std::ranges::any_of(all, [](const shim::Patch& p) { return p.length > sizeof p.original; }))
    return patches_.size();
  const size_t known = std::exchange(patches_, std::move(all)).size();
  for (size_t i = known; i < patches_.size(); i++) {  // the shim only appends to the table
    const auto& patch = patches_[i];
    PatchWindow window{patch.start, PatchKind::call_site, {}, {}};
    window.original.resize(patch.length);
    window.patched.resize(patch.length);
    memcpy(window.original.data(), patch.original, patch.length);
    set_copy(window, patch);
    if (process_->read(patch.start, window.patched.data(), patch.length)) (void)patched_.add_window(std::move(window));
  }
  std::sort(patches_.begin(), patches_.end(), [](const auto& a, const auto& b) { return a.stub < b.stub; });
  return patches_.size();
}

bool ReplayNode::carried_out_at(Addr address) {
  const shim::Patch* site = site_at(address);
  return patched_.window_at(address) || (site && shim::is_planted(site->kind));
}

bool ReplayNode::repeats_at(Addr address) {
  std::array<std::byte, max_instruction_length> code{};
  if (!read(address, code)) return false;
  const auto instruction = decode_instruction(address, code);
  return instruction && repeats(*instruction);
}

const shim::Patch* ReplayNode::site_at(Addr address) {
  load_patches();  // code may have been loaded since
  if (const PatchWindow* window = patched_.window_at(address); !window || window->low != address.value) return nullptr;
  auto it = std::ranges::find_if(
      patches_, [&](const shim::Patch& p) { return p.start == address.value && p.kind != shim::kSiteBefore; });
  return it == patches_.end() ? nullptr : &*it;
}

// ---- Threads

ReplayNode::Thread* ReplayNode::thread_of(pid_t tid) {
  auto it = threads_.find(tid);
  return it == threads_.end() ? nullptr : &it->second;
}

ReplayNode::Thread* ReplayNode::thread_of(ThreadId id) {
  for (auto& [tid, thread] : threads_)
    if (thread.number == id.value) return &thread;
  // The thread has a number as soon as it has registered in the shim.
  auto a = area(id.value);
  auto it = a ? threads_.find(static_cast<pid_t>(a->kernel_tid)) : threads_.end();
  if (it == threads_.end()) return nullptr;
  it->second.number = id.value;
  return &it->second;
}

void ReplayNode::add_thread(pid_t tid) {
  auto& thread = threads_[tid];
  thread.tid = tid;
  thread.number = threads_.size() == 1 ? control_.turn : ~0u;
}

void ReplayNode::remove_thread(pid_t tid) { threads_.erase(tid); }

std::optional<ThreadArea> ReplayNode::area(uint32_t number) const {
  const auto at = area_address(number);
  ThreadArea a;
  if (!at || !process_->read(*at, &a, sizeof a)) return std::nullopt;
  return a;
}

std::optional<uint64_t> ReplayNode::area_address(uint32_t number) const {
  return process_ ? thread_area(*process_, control_, number) : std::nullopt;
}

std::optional<CallFrame> ReplayNode::frame_of(const ThreadArea& a) const {
  CallFrame frame;
  if (!a.frame || !process_->read(reinterpret_cast<uint64_t>(a.frame), &frame, sizeof frame)) return std::nullopt;
  return frame;
}

ThreadId ReplayNode::current() const {
  uint32_t turn = 0;
  if (process_) process_->read(control_address_ + offsetof(shim::Control, turn), &turn, sizeof turn);
  return {turn};
}

void ReplayNode::number_threads() {
  size_t unknown = 0;
  for (auto& [tid, thread] : threads_) unknown += thread.number == ~0u;
  uint64_t count = 0;
  if (!process_ || !process_->read(control_address_ + offsetof(shim::Control, area_count), &count, sizeof count))
    return;
  // An area that no thread has any more may have the kernel's id of one that has come since.
  for (const bool alive : {true, false})
    for (uint64_t slot = 0; slot < std::min<uint64_t>(count, shim::kMaxThreads) && unknown; slot++) {
      ThreadArea a;
      if (!process_->read(shim::area_address(slot), &a, sizeof a) || (a.alive != 0) != alive) continue;
      const auto it = threads_.find(static_cast<pid_t>(a.kernel_tid));
      if (it == threads_.end() || it->second.number != ~0u) continue;
      it->second.number = a.number;
      unknown--;
    }
}

std::vector<ThreadInfo> ReplayNode::threads() {
  std::vector<ThreadInfo> list;
  number_threads();
  std::vector<uint32_t> numbers;
  for (auto& [tid, thread] : threads_)
    if (thread.number != ~0u) numbers.push_back(thread.number);
  std::sort(numbers.begin(), numbers.end());
  const ThreadId first = current();
  for (uint32_t n : numbers) {
    const auto a = area(n);
    if (!a || !a->alive) continue;
    ThreadInfo info{{n}, a->tid, "", a->frame != nullptr};
    shim::ThreadName own{};
    if (process_->read(reinterpret_cast<uint64_t>(a->self) + shim::kThreadNameOffset, &own, sizeof own) && own.text[0])
      info.name.assign(own.text, strnlen(own.text, sizeof own.text));
    else if (auto comm = read_file(fmt::format("/proc/{}/task/{}/comm", process_->pid(), a->kernel_tid))) {
      info.name = *comm;
    }
    while (!info.name.empty() && info.name.back() == '\n') info.name.pop_back();
    // A thread that has set no name inherited that of the process, which is friday-stub's. Show the program's instead.
    if (info.name == "friday-stub") info.name = info_.program.substr(info_.program.rfind('/') + 1).substr(0, 15);
    if (n == first.value) list.insert(list.begin(), std::move(info));
    else list.push_back(std::move(info));
  }
  return list;
}

// Keeps a stop that arrived while another one was awaited. A stop at a breakpoint or a fault is undone instead, because
// the breakpoint or the watch may be removed before the stop is handled. If it is still there, the thread hits it
// again.
void ReplayNode::hold(Thread& thread, int status) {
  note_debug_status(thread, status);
  if (!(status >> 16)) {
    user_regs_struct r;
    if (WSTOPSIG(status) == SIGTRAP && TracedProcess::registers(thread.tid, r) &&
        r.rip != control_.trap_instruction + 1 && (breakpoints_.hit(r) || passages_.undo_hit(r))) {
      TracedProcess::set_registers(thread.tid, r);
      return;
    }
    if (undo_fault(thread, status)) return;
  }
  thread.held = status;
}

// If `status` is a signal that the kernel raised for an instruction of the thread, makes the thread execute that
// instruction again when it resumes, and returns true. Otherwise the signal would be lost if the thread is used for
// something else before the signal is handled.
bool ReplayNode::undo_fault(const Thread& thread, int status) {
  siginfo_t info;
  if (status >> 16 || ptrace(PTRACE_GETSIGINFO, thread.tid, 0, &info) != 0 || info.si_code <= 0) return false;
  switch (WSTOPSIG(status)) {
    case SIGSEGV:
    case SIGBUS:
    case SIGILL:
    case SIGFPE: return true;
    case SIGSYS: {  // Syscall User Dispatch: rip is after the call instruction, and rax still has the call's number
      user_regs_struct r;
      if (!TracedProcess::registers(thread.tid, r)) return false;
      r.rip -= kCallLength;
      r.orig_rax = kNoCall;
      return TracedProcess::set_registers(thread.tid, r);
    }
    default: return false;
  }
}

namespace {

// Whether the kernel has raised a signal for an instruction of this stopped thread, which the thread has not been
// stopped for. Nothing can block such a signal (force_sig_info_to_task() in kernel/signal.c).
bool has_raised_signal(pid_t tid) {
  siginfo_t info;
  __ptrace_peeksiginfo_args first{.off = 0, .flags = 0, .nr = 1};
  return ptrace(PTRACE_PEEKSIGINFO, tid, &first, &info) == 1 && info.si_code > 0;
}

}  // namespace

// A thread can be interrupted between an instruction that raises a signal and the stop for that signal: the kernel
// reports the interrupt first (get_signal() in kernel/signal.c). The signal would be lost in a copy of the process, or
// in a call that is injected into it, so the thread goes on to the stop for it, which comes before its next
// instruction. Returns false if the thread has ended.
bool ReplayNode::take_raised_signal(Thread& thread) {
  if (ptrace(PTRACE_CONT, thread.tid, 0, 0) != 0) return false;
  const int status = process_->wait(thread.tid);
  if (!WIFSTOPPED(status)) return false;
  hold(thread, status);
  return true;
}

Result<void> ReplayNode::stop_threads() {
  if (!process_) return std::unexpected(process_gone(info_.id));
  for (auto& [tid, thread] : threads_)
    if (!thread.stopped) ptrace(PTRACE_INTERRUPT, tid, 0, 0);
  std::vector<pid_t> ended;
  for (auto& [tid, thread] : threads_) {
    if (thread.stopped) continue;
    const int status = process_->wait(tid);
    if (!WIFSTOPPED(status)) {
      ended.push_back(tid);
      continue;
    }
    // Any stop cancels a pending PTRACE_INTERRUPT (seen with Linux 6.18), unless the thread had already stopped when
    // the interrupt was sent; then PTRACE_EVENT_STOP follows when it resumes.
    thread.stopped = true;
    const bool interrupted = status >> 16 == PTRACE_EVENT_STOP;
    if (!interrupted) hold(thread, status);
    else if (has_raised_signal(tid) && !take_raised_signal(thread)) ended.push_back(tid);
  }
  for (pid_t tid : ended) threads_.erase(tid);
  // A thread that was stopped in a pad is moved to the corresponding address of the program.
  user_regs_struct r;
  for (auto& [tid, thread] : threads_) {
    if (!TracedProcess::registers(tid, r) || !breakpoints_.in_pad(Addr{r.rip}) || passages_.contains(Addr{r.rip}))
      continue;
    // Behind the copied instruction it is on its way to the next one, whose breakpoint it has yet to hit.
    const bool is_done = !breakpoints_.is_pad(Addr{r.rip});
    FRIDAY_TRY_VOID(breakpoints_.leave_pad(ThreadId{thread.number}));
    thread.at_breakpoint = !is_done && TracedProcess::registers(tid, r) && breakpoints_.contains(Addr{r.rip});
    if (thread.at_breakpoint) breakpoints_.uncount_passage(Addr{r.rip});  // it is stepped over again
  }
  return {};
}

Result<void> ReplayNode::flush_watches() {
  FRIDAY_TRY_VOID(watches_.flush());
  auto [low, high] = watches_.bounds();
  if (low.value == control_.watched_low && high.value == control_.watched_high) return {};
  if (!set_control(&shim::Control::watched_low, low.value) || !set_control(&shim::Control::watched_high, high.value))
    return std::unexpected(process_gone(info_.id));
  return {};
}

Result<void> ReplayNode::remove_all_stops() {
  FRIDAY_TRY_VOID(breakpoints_.clear());
  watches_.disarm_all();
  FRIDAY_TRY_VOID(flush_watches());
  FRIDAY_TRY_VOID(watches_.stores().remove_all());
  FRIDAY_TRY_VOID(passages_.forget());
  pads_for_ = 0;
  return breakpoints_.remove_pad_areas();
}

// The shim reserves kPadSize bytes next to each module and puts stubs at the beginning; the end is used for pads. In a
// forked node whose parent has taken the end already, the reservation has another size and is not found again.
Result<void> ReplayNode::make_pad_areas() {
  if (pads_for_ == patches_.size()) return {};
  pads_for_ = patches_.size();
  FRIDAY_TRY(maps, read_memory_map(memory_directory(process_->pid())));
  constexpr uint64_t size = 1 << 20;
  uint64_t stubs = 0, stubs_end = 0;
  std::vector<uint64_t> places;
  for (const MappedRange& map : maps) {
    const bool pad = map.high - stubs == shim::kPadSize;
    const bool reserved = map.protection == PROT_NONE && !map.shared && map.inode == 0;
    if (reserved && map.low == stubs_end && pad && map.high - map.low >= size) places.push_back(map.high - size);
    if (map.protection == (PROT_READ | PROT_EXEC) && !map.shared) stubs = map.low, stubs_end = map.high;
  }
  for (uint64_t place : places) {
    const uint64_t arguments[] = {place, size, PROT_READ | PROT_EXEC};
    FRIDAY_TRY(done, inject(SYS_mprotect, arguments));
    if (done == 0) breakpoints_.add_pad_area({Addr{place}, size});
  }
  return {};
}

Error ReplayNode::no_thread(ThreadId id) const {
  if (process_ && process_->is_gone()) return process_gone(info_.id);
  return Error{ErrorCode::not_found, fmt::format("node {} has no thread {}", info_.id, id.value)};
}

Result<ReplayNode::Thread*> ReplayNode::stopped_thread(ThreadId id) {
  Thread* thread = thread_of(id);
  if (!thread) return std::unexpected(no_thread(id));
  if (!thread->stopped) FRIDAY_TRY_VOID(stop_threads());
  thread = thread_of(id);
  if (!thread) return std::unexpected(process_gone(info_.id));
  return thread;
}

Result<user_regs_struct> ReplayNode::hardware(const Thread& thread) const {
  user_regs_struct r;
  if (!TracedProcess::registers(thread.tid, r)) return std::unexpected(process_gone(info_.id));
  return r;
}

const shim::Patch* ReplayNode::patch_by_stub(uint64_t rip) const {
  auto it = std::upper_bound(patches_.begin(), patches_.end(), rip,
                             [](uint64_t a, const shim::Patch& p) { return a < p.stub; });
  if (it == patches_.begin()) return nullptr;
  --it;
  return !shim::is_planted(it->kind) && rip < it->stub + 80 ? &*it : nullptr;
}

bool ReplayNode::probing(ThreadId id) const {
  auto a = area(id.value);
  return a && a->probe;
}

bool ReplayNode::in_own_area(uint64_t at) const {
  return (at >= format::kWindowAddress && at < format::kWindowAddress + format::kWindowSize) ||
         (at >= shim::kStubAddress && at < shim::kStubAddress + shim::kStubSize) ||
         (at >= shim::kAreasAddress && at <= shim::kScheduleAddress) ||
         (at >= shim::kWorkspaceAddress && at < shim::kOwnEnd) || in_patched_store(at) ||
         breakpoints_.in_pad_area(Addr{at});
}

bool ReplayNode::in_shim(uint64_t rip) const {
  return (rip >= control_.text_low && rip < control_.text_high) || (patch_by_stub(rip) && !patched_.in_copy(Addr{rip}));
}

// The registers of a stopped thread. If it was stopped in the few instructions of the shim's entry or exit, where its
// call frame is incomplete, it is single-stepped past them. If these are not few, it stays where that has led: whoever
// looks again must find the same.
Result<ReplayNode::Standing> ReplayNode::standing(const Thread& thread) {
  constexpr int kMostSteps = 400;
  for (int steps = 0;; steps++) {
    FRIDAY_TRY(now, hardware(thread));
    if (show_hardware_) return Standing{now, now, {}};
    if (thread.detour || !in_shim(now.rip)) {
      user_regs_struct view = now;
      view.rip = patched_.program_address(Addr{now.rip}).value;
      return Standing{now, view, {}};
    }
    const auto a = area(thread.number);
    if (a && !a->frame && steps == kMostSteps) thread.gave_up_at = now;
    const bool has_given_up =
        thread.gave_up_at && thread.gave_up_at->rip == now.rip && same_registers(*thread.gave_up_at, now);
    if (!a || a->frame || has_given_up) {
      auto frame = a ? frame_of(*a) : std::nullopt;
      if (!frame) return Standing{now, now, {}};
      if (!frame->site) {
        // A thread that has not run yet: a new one returns from the clone(2) that created it, the first one of a node
        // from the constructor. Either leaves the shim by friday_leave (core/shim/entry.S), which does as the kernel.
        if (!frame->full) frame->rcx = frame->rip;
        const shim::Patch* patch = patch_by_stub(frame->rip);
        frame->site = patch ? patch->syscall : frame->rip - kCallLength;
      }
      return Standing{now, view_of(*frame, now), a};
    }
    if (!TracedProcess::single_step(thread.tid) || !WIFSTOPPED(process_->wait(thread.tid)))
      return std::unexpected(process_gone(info_.id));
  }
}

Result<ReplayNode::Standing> ReplayNode::standing(ThreadId id) {
  FRIDAY_TRY(thread, stopped_thread(id));
  return standing(*thread);
}

Result<user_regs_struct> ReplayNode::registers(ThreadId id) {
  FRIDAY_TRY(found, standing(id));
  note_registers_read();
  return found.view;
}

Result<uint64_t> ReplayNode::program_counter(ThreadId id) {
  Thread* thread = thread_of(id);
  if (!thread) return std::unexpected(no_thread(id));
  if (!thread->detour)
    if (uint64_t site = call_site(id)) return site + kCallLength;
  FRIDAY_TRY(r, registers(id));
  return uint64_t{r.rip};
}

uint64_t ReplayNode::call_site(ThreadId id) {
  uint64_t frame = 0, site = 0;
  const auto at = area_address(id.value);
  if (at && process_->read(*at + offsetof(ThreadArea, frame), &frame, sizeof frame) && frame)
    (void)process_->read(frame + offsetof(CallFrame, site), &site, sizeof site);
  return site;
}

Result<void> ReplayNode::set_registers(ThreadId id, const user_regs_struct& wanted) {
  FRIDAY_TRY(thread, stopped_thread(id));
  FRIDAY_TRY(now, hardware(*thread));
  const auto a = !thread->detour && !show_hardware_ && in_shim(now.rip) ? area(id.value) : std::nullopt;
  auto frame = a ? frame_of(*a) : std::nullopt;
  if (!frame) {
    user_regs_struct set = wanted;
    const bool stays = wanted.rip == patched_.program_address(Addr{now.rip}).value;
    set.rip = show_hardware_ ? wanted.rip : stays ? now.rip : patched_.executed_at(Addr{wanted.rip}).value;
    if (!TracedProcess::set_registers(thread->tid, set)) return std::unexpected(process_gone(info_.id));
    return {};
  }
  FRIDAY_TRY(view, registers(id));
  if (!same_place(view, wanted))
    return fail(
        ErrorCode::unsupported,
        "thread {} of node {} is in a system call, so its program counter and stack pointer cannot be set; step "
        "past the call first",
        id.value, info_.id);
  note_altered();
  change_frame(*frame, wanted);
  if (!process_->write(reinterpret_cast<uint64_t>(a->frame), &*frame, sizeof *frame))
    return std::unexpected(process_gone(info_.id));
  return {};
}

Result<std::vector<std::byte>> ReplayNode::extended_state(ThreadId id) {
  FRIDAY_TRY(thread, stopped_thread(id));
  std::byte state[16384];
  iovec area{state, sizeof state};
  if (ptrace(PTRACE_GETREGSET, thread->tid, NT_X86_XSTATE, &area) != 0)
    return fail_errno(errno,
                      fmt::format("cannot read the vector registers of thread {} of node {}", id.value, info_.id));
  return std::vector<std::byte>(state, state + area.iov_len);
}

// The recording machine may have had components that this one lacks, or the other way round.
Result<void> ReplayNode::set_recorded_state(ThreadId id, std::span<const std::byte> state) {
  constexpr size_t kEnabled = 464, kInUse = 512, kHeaderEnd = 576;  // XCR0, as ptrace(2) tells it; XSTATE_BV
  FRIDAY_TRY(set, extended_state(id));
  if (state.size() < kHeaderEnd || set.size() < kHeaderEnd) return {};
  uint64_t enabled = 0, in_use = 0;
  memcpy(&enabled, set.data() + kEnabled, sizeof enabled);
  std::ranges::fill(std::span(set).subspan(kInUse), std::byte{0});
  std::ranges::copy(state.first(std::min(state.size(), set.size())), set.begin());
  memcpy(&in_use, set.data() + kInUse, sizeof in_use);
  in_use &= enabled;
  memcpy(set.data() + kInUse, &in_use, sizeof in_use);
  return set_extended_state(id, set);
}

Result<void> ReplayNode::set_extended_state(ThreadId id, std::span<const std::byte> state) {
  FRIDAY_TRY(thread, stopped_thread(id));
  iovec area{const_cast<std::byte*>(state.data()), state.size()};
  if (ptrace(PTRACE_SETREGSET, thread->tid, NT_X86_XSTATE, &area) != 0)
    return fail_errno(errno,
                      fmt::format("cannot set the vector registers of thread {} of node {}", id.value, info_.id));
  return {};
}

Result<int64_t> ReplayNode::inject(long number, std::span<const uint64_t> arguments) {
  Thread* any = thread_of(current());
  if (!any || !any->stopped) {
    FRIDAY_TRY_VOID(stop_threads());
    any = nullptr;
    for (auto& [tid, thread] : threads_)
      if (!any || thread.number == current().value) any = &thread;
  }
  if (!any) return std::unexpected(process_gone(info_.id));
  if (any->held && undo_fault(*any, *any->held)) any->held.reset();
  if (number == SYS_memfd_create) {  // the filter refuses the call, so the core makes it
    UniqueFd memory(memfd_create("friday-pages", MFD_CLOEXEC));
    if (!memory) return fail_errno(errno, "cannot create a memfd for the second mapping of watched pages");
    FRIDAY_TRY(there, receive(any->tid, memory.get()));
    return static_cast<int64_t>(there);
  }
  return process_->inject(any->tid, control_.syscall_instruction, number, arguments);
}

namespace {

size_t debug_register(size_t number) { return offsetof(user, u_debugreg) + number * sizeof(user::u_debugreg[0]); }

// Whether the thread stopped at a debug exception for which DR6 names no reason. The kernel reports that like an int1
// of the program (arch/x86/kernel/traps.c, exc_debug_user), so the instruction must not be one.
bool is_without_reason(TracedProcess& process, pid_t tid) {
  constexpr uint8_t kInt1 = 0xf1;
  siginfo_t info;
  user_regs_struct r;
  uint8_t before;
  return ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 && info.si_signo == SIGTRAP && info.si_code == TRAP_BRKPT &&
         TracedProcess::registers(tid, r) && process.read(r.rip - 1, &before, 1) && before != kInt1;
}

}  // namespace

// Returns the slots that caused the last debug exception of a thread, as bits, and clears them; DR6 keeps its bits
// until it is cleared. A nested hypervisor loses them in about one of 100,000 exceptions. Then all slots in use are
// returned, and the caller finds the right one by comparing values.
uint32_t ReplayNode::take_debug_status(pid_t tid) {
  constexpr long kSlots = 15, kStep = 1 << 14;
  errno = 0;
  const long status = ptrace(PTRACE_PEEKUSER, tid, debug_register(6), 0);
  if (errno != 0) return 0;
  if (status & kSlots) {
    ptrace(PTRACE_POKEUSER, tid, debug_register(6), 0);
    return static_cast<uint32_t>(status & kSlots);
  }
  uint32_t any = 0;
  for (unsigned i = 0; i < debug_slots_.size(); i++) any |= debug_slots_[i].size ? 1u << i : 0;
  return any && !(status & kStep) && is_without_reason(*process_, tid) ? any : 0;
}

bool ReplayNode::has_debug_registers() { return debug_registers_work(); }

Result<void> ReplayNode::set_debug_slots(const DebugSlots& slots) {
  FRIDAY_TRY_VOID(stop_threads());  // a running thread would keep the old ones
  uint32_t same = 0;
  for (unsigned i = 0; i < slots.size(); i++) same |= slots[i] == debug_slots_[i] ? 1u << i : 0;
  for (auto& [tid, thread] : threads_)
    if (thread.debug_hits) thread.debug_hits = (thread.debug_hits & same) | kFormerDebugSlot;
  debug_slots_ = slots;
  debug_version_++;
  return {};
}

void ReplayNode::note_debug_status(Thread& thread, int status) {
  const bool in_use = std::ranges::any_of(debug_slots_, [](const DebugSlot& slot) { return slot.size != 0; });
  if (in_use && !(status >> 16) && WSTOPSIG(status) == SIGTRAP) thread.debug_hits |= take_debug_status(thread.tid);
}

uint32_t ReplayNode::take_debug_hits(ThreadId id) {
  Thread* thread = thread_of(id);
  return thread && thread->stopped ? std::exchange(thread->debug_hits, 0) : 0;
}

// DR7: bit 2n enables slot n for the thread, bits 16 + 4n say "on writes" (1) or "on reads and writes" (3), bits 18 +
// 4n the size (Intel SDM, volume 3, 18.2.4).
void ReplayNode::load_debug_slots(Thread& thread) {
  if (thread.debug_version == debug_version_) return;
  thread.debug_version = debug_version_;
  unsigned long control = 0;
  ptrace(PTRACE_POKEUSER, thread.tid, debug_register(7), 0);
  ptrace(PTRACE_POKEUSER, thread.tid, debug_register(6), 0);
  for (unsigned i = 0; i < debug_slots_.size(); i++) {
    const auto [address, size, reads] = debug_slots_[i];
    if (!size || ptrace(PTRACE_POKEUSER, thread.tid, debug_register(i), address) != 0) continue;
    const unsigned long length = size == 8 ? 2 : size - 1, when = reads ? 3 : 1;
    control |= 1ul << (2 * i) | (when | length << 2) << (16 + 4 * i);
  }
  if (control) ptrace(PTRACE_POKEUSER, thread.tid, debug_register(7), control);
}

Result<void> ReplayNode::single_step(ThreadId id) {
  FRIDAY_TRY(thread, stopped_thread(id));
  load_debug_slots(*thread);
  int status = 0;
  do {  // a pending PTRACE_INTERRUPT stops the thread before it has stepped
    if (!TracedProcess::single_step(thread->tid)) return std::unexpected(process_gone(info_.id));
    status = process_->wait(thread->tid);
    if (!WIFSTOPPED(status)) return std::unexpected(process_gone(info_.id));
  } while ((status >> 16) == PTRACE_EVENT_STOP);
  if (debug_version_) thread->debug_hits |= take_debug_status(thread->tid);
  // The instruction faulted and was not executed; the session handles that as the thread's next stop.
  if ((status >> 16) == 0 && WSTOPSIG(status) != SIGTRAP) thread->held = status;
  return {};
}

// ---- Memory

Result<void> ReplayNode::read_raw(Addr address, std::span<std::byte> out) {
  if (!process_) return fail(ErrorCode::node_not_started, "node {} has not started yet", info_.id);
  if (!process_->read(address.value, out.data(), out.size())) {
    if (process_->is_gone()) return std::unexpected(process_gone(info_.id));
    return std::unexpected(Error{.code = ErrorCode::bad_address,
                                 .message = fmt::format("cannot access memory at address {}", address),
                                 .address = address.value});
  }
  return {};
}

Result<void> ReplayNode::write_raw(Addr address, std::span<const std::byte> data) {
  if (!process_) return fail(ErrorCode::node_not_started, "node {} has not started yet", info_.id);
  for (size_t at = 0; at < data.size();) {
    const Addr place = address.plus(static_cast<int64_t>(at));
    const size_t size = std::min<size_t>(data.size() - at, 4096 - place.value % 4096);
    if (!process_->write(watches_.stores().writable(place.value), data.data() + at, size)) {
      if (process_->is_gone()) return std::unexpected(process_gone(info_.id));
      return std::unexpected(Error{.code = ErrorCode::bad_address,
                                   .message = fmt::format("cannot write memory at address {}", address),
                                   .address = address.value});
    }
    at += size;
  }
  return {};
}

void ReplayNode::note_read(Addr address, size_t size) {
  if (inferred_ && !read_inferred_ && process_) read_inferred_ = inferred_->depends(events_done(), address.value, size);
}

void ReplayNode::note_registers_read() {
  if (inferred_ && !read_inferred_ && process_) read_inferred_ = reader_.inferred()->computes(events_done());
}

bool ReplayNode::take_read_inferred() { return std::exchange(read_inferred_, false); }

Result<void> ReplayNode::read(Addr address, std::span<std::byte> out) {
  FRIDAY_TRY_VOID(read_raw(address, out));
  note_read(address, out.size());
  patched_.show_original(address, out);
  return {};
}

Result<void> ReplayNode::write(Addr address, std::span<const std::byte> data) {
  std::vector<std::byte> bytes(data.begin(), data.end());
  watches_.stores().remove_between(address, address.plus(static_cast<int64_t>(data.size())));
  patched_.keep_patches(address, bytes);
  FRIDAY_TRY_VOID(write_raw(address, bytes));
  if (watches_.size()) FRIDAY_TRY_VOID(watches_.note_write(address, data.size()));
  return {};
}

Result<std::vector<Mapping>> ReplayNode::mappings() {
  FRIDAY_TRY(maps, read_memory_map(memory_directory(process_ ? process_->pid() : 0)));
  std::vector<Mapping> list;
  std::vector<uint64_t> stacks;
  for (auto& info : threads())
    if (auto a = area(info.id.value)) {
      if (auto frame = frame_of(*a)) stacks.push_back(frame->rsp);
      else if (auto r = registers(info.id)) stacks.push_back(r->rsp);
    }
  for (MappedRange& map : maps) {
    const auto [low, high] = std::pair(map.low, map.high);
    Mapping m;
    m.low = low, m.high = high, m.offset = map.offset;
    m.protection = map.protection;
    m.shared = map.shared;
    m.path = std::move(map.path);
    if (const auto* was = watches_.stores().mapped_at(low))
      m.shared = false, m.path = was->first, m.offset = was->second;
    for (uint64_t rsp : stacks) m.stack |= rsp >= low && rsp < high;
    const bool ours = in_own_area(low);
    if (auto original = watches_.program_protection(Addr{low})) m.protection = *original;
    // Join mappings that a watch has split. Only one of the pieces of a stack has the stack pointer.
    const bool continues = !list.empty() && list.back().high == m.low && list.back().protection == m.protection &&
                           list.back().shared == m.shared && list.back().path == m.path;
    if (!ours && continues) list.back().high = m.high, list.back().stack |= m.stack;
    else if (!ours) list.push_back(std::move(m));
  }
  return list;
}

Result<std::vector<std::byte>> ReplayNode::auxv() {
  std::vector<std::byte> bytes(auxv_bytes_);
  FRIDAY_TRY_VOID(read_raw(Addr{auxv_address_}, bytes));
  return bytes;
}

std::string ReplayNode::executable() { return info_.program; }

}  // namespace friday
