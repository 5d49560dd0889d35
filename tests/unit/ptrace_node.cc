#include "tests/unit/ptrace_node.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>

#include "core/base/files.h"

namespace friday {
namespace {

constexpr long kOptions = PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXIT;
constexpr size_t kXsaveMax = 16384;  // larger than any XSAVE area that x86-64 defines today (AMX: about 11 KiB)

long ptrace_call(int request, pid_t tid, uintptr_t address = 0, const void* data = nullptr) {
  return ptrace(static_cast<__ptrace_request>(request), tid, address, data);
}

// In the child: waits until the parent has seized it, then becomes the program. Never returns.
[[noreturn]] void become(const std::vector<std::string>& arguments, const PtraceNode::Options& options, int gate) {
  setpgid(0, 0);  // waitpid(-pid) in the parent then means this node's threads and nobody else's
  personality(ADDR_NO_RANDOMIZE);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (const auto& variable : options.environment) putenv(const_cast<char*>(variable.c_str()));
  int output = open(options.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(output, 1);
  dup2(output, 2);
  char byte;
  while (::read(gate, &byte, 1) < 0 && errno == EINTR) {}
  execv(argv[0], argv.data());
  _exit(127);
}

pid_t wait_retry(pid_t which, int* status, int flags) {
  pid_t got;
  while ((got = waitpid(which, status, flags | __WALL)) < 0 && errno == EINTR) {}
  return got;
}

}  // namespace

Result<std::unique_ptr<PtraceNode>> PtraceNode::launch(const std::vector<std::string>& arguments) {
  return launch(arguments, Options{});
}

Result<std::unique_ptr<PtraceNode>> PtraceNode::launch(const std::vector<std::string>& arguments, Options options) {
  std::unique_ptr<PtraceNode> node(new PtraceNode(std::move(options)));
  FRIDAY_TRY_VOID(node->start(arguments));
  return node;
}

std::unique_ptr<PtraceNode> PtraceNode::launched(const std::vector<std::string>& arguments) {
  return launched(arguments, Options{});
}

std::unique_ptr<PtraceNode> PtraceNode::launched(const std::vector<std::string>& arguments, Options options) {
  auto node = launch(arguments, std::move(options));
  if (!node) throw std::runtime_error(describe(node.error()));
  return std::move(*node);
}

Result<void> PtraceNode::start(const std::vector<std::string>& arguments) {
  char path[PATH_MAX];
  if (!realpath(arguments.at(0).c_str(), path)) return fail_errno(errno, "cannot run " + arguments[0]);
  executable_ = path;
  int gate[2];
  if (pipe2(gate, O_CLOEXEC)) return fail_errno(errno, "pipe");
  UniqueFd gate_read(gate[0]), gate_write(gate[1]);
  pid_ = fork();
  if (pid_ < 0) return fail_errno(errno, "fork");
  if (pid_ == 0) become(arguments, options_, gate[0]);
  setpgid(pid_, pid_);
  alive_ = true;
  threads_[pid_] = {ThreadId{next_thread_++}, false};
  if (ptrace_call(PTRACE_SEIZE, pid_, 0, reinterpret_cast<void*>(kOptions | PTRACE_O_TRACEEXEC)))
    return fail_errno(errno, "ptrace(SEIZE)");
  if (::write(gate[1], "", 1) != 1) return fail_errno(errno, "start of the child");
  int status;
  if (wait_retry(pid_, &status, 0) != pid_ || status >> 8 != (SIGTRAP | PTRACE_EVENT_EXEC << 8))
    return fail(ErrorCode::io, "{} did not start (wait status {:#x})", executable_, status);
  threads_[pid_].stopped = true;
  ptrace_call(PTRACE_SETOPTIONS, pid_, 0, reinterpret_cast<void*>(kOptions));
  FRIDAY_TRY(memory, open_file(fmt::format("/proc/{}/mem", pid_), O_RDWR));
  memory_ = std::move(memory);
  return {};
}

PtraceNode::~PtraceNode() {
  if (!alive_) return;
  kill(pid_, SIGKILL);
  reap();
}

// Takes the remains of all threads. A killed thread may still halt at its exit event; it has to be sent on from there.
void PtraceNode::reap() {
  int status;
  for (pid_t tid; (tid = wait_retry(-pid_, &status, 0)) > 0;) {
    if (WIFSTOPPED(status)) ptrace_call(PTRACE_CONT, tid);
  }
  alive_ = running_ = false;
  threads_.clear();
}

PtraceNode::Thread& PtraceNode::thread_of(pid_t tid) {
  auto [found, is_new] = threads_.try_emplace(tid);
  if (is_new) found->second.id = ThreadId{next_thread_++};
  return found->second;
}

Result<pid_t> PtraceNode::stopped_tid(ThreadId thread) const {
  if (!alive_) return fail(ErrorCode::node_ended, "node {} has ended", options_.id.value);
  for (const auto& [tid, entry] : threads_) {
    if (entry.id != thread) continue;
    if (!entry.stopped) return fail(ErrorCode::unsupported, "thread {} runs", thread.value);
    return tid;
  }
  return fail(ErrorCode::not_found, "no thread {}", thread.value);
}

Result<void> PtraceNode::cont(pid_t tid, int signal) {
  if (ptrace_call(PTRACE_CONT, tid, 0, reinterpret_cast<void*>(static_cast<uintptr_t>(signal))) && errno != ESRCH)
    return fail_errno(errno, "ptrace(CONT)");
  auto found = threads_.find(tid);
  if (found != threads_.end()) found->second.stopped = false;
  return {};
}

Result<void> PtraceNode::resume(std::optional<ThreadId> thread, int signal) {
  if (!alive_) return fail(ErrorCode::node_ended, "node {} has ended", options_.id.value);
  running_ = true;
  if (!pending_.empty()) return {};  // wait() has something to tell at once; a swallowed signal stays swallowed
  for (auto& [tid, entry] : threads_)
    if (entry.stopped) FRIDAY_TRY_VOID(cont(tid, thread == entry.id ? signal : 0));
  return {};
}

Result<void> PtraceNode::resume_only(ThreadId thread, int signal) {
  FRIDAY_TRY(tid, stopped_tid(thread));
  running_ = true;
  return cont(tid, signal);
}

// One report of the kernel about one thread. Yields a stop that concerns the caller; everything else is dealt with
// here: while `stopping` the thread stays where it is, otherwise it is sent on.
std::optional<NodeStop> PtraceNode::take(pid_t tid, int status, bool stopping) {
  if (!WIFSTOPPED(status)) {
    threads_.erase(tid);
    if (tid != pid_) return {};
    alive_ = false;
    NodeStop stop{.kind = WIFEXITED(status) ? NodeStop::Kind::exited : NodeStop::Kind::killed};
    if (WIFEXITED(status)) stop.status = WEXITSTATUS(status);
    else stop.signal = WTERMSIG(status);
    return stop;
  }
  int event = status >> 16, signal = WSTOPSIG(status);
  if (event) return take_event(tid, event, signal, stopping);
  Thread& thread = thread_of(tid);
  thread.stopped = true;
  NodeStop stop{.kind = NodeStop::Kind::signal, .thread = thread.id, .signal = signal};
  ptrace_call(PTRACE_GETSIGINFO, tid, 0, &stop.info);
  return stop;
}

std::optional<NodeStop> PtraceNode::take_event(pid_t tid, int event, int signal, bool stopping) {
  if (event == PTRACE_EVENT_EXIT) {  // from here on the thread cannot be stopped again
    threads_.erase(tid);
    ptrace_call(PTRACE_CONT, tid);
    return {};
  }
  if (event == PTRACE_EVENT_CLONE) {
    unsigned long child = 0;
    if (!ptrace_call(PTRACE_GETEVENTMSG, tid, 0, &child)) thread_of(static_cast<pid_t>(child));
  }
  Thread& thread = thread_of(tid);
  thread.stopped = true;
  if (event == PTRACE_EVENT_STOP && signal == SIGTRAP && interrupt_wanted_ && tid == pid_ && !stopping)
    return NodeStop{.kind = NodeStop::Kind::interrupt, .thread = thread.id};
  if (!stopping) (void)cont(tid, 0);
  return {};
}

void PtraceNode::stop_others() {
  for (auto& [tid, entry] : threads_)
    if (!entry.stopped) ptrace_call(PTRACE_INTERRUPT, tid);
  auto runs = [](const auto& item) { return !item.second.stopped; };
  while (alive_ && std::any_of(threads_.begin(), threads_.end(), runs)) {
    int status;
    pid_t tid = wait_retry(-pid_, &status, 0);
    if (tid < 0) break;
    if (auto stop = take(tid, status, true)) pending_.push_back(*stop);
  }
  if (alive_) put_back_breakpoints();
}

// A second thread that hit an int3 while the first one's stop was handled is put back before it: whether it hits again
// is decided by what stands there when it goes on.
void PtraceNode::put_back_breakpoints() {
  std::erase_if(pending_, [this](const NodeStop& stop) {
    if (stop.kind != NodeStop::Kind::signal || stop.signal != SIGTRAP || stop.info.si_code != SI_KERNEL) return false;
    auto values = registers(stop.thread);
    if (!values) return false;
    values->rip -= 1;
    return set_registers(stop.thread, *values).has_value();
  });
}

Result<std::optional<NodeStop>> PtraceNode::next_stop(bool block) {
  if (!running_) return fail(ErrorCode::usage, "node {} does not run", options_.id.value);
  std::optional<NodeStop> stop;
  if (!pending_.empty()) {
    stop = pending_.front();
    pending_.pop_front();
  }
  while (!stop) {
    int status;
    pid_t tid = wait_retry(-pid_, &status, block ? 0 : WNOHANG);
    if (tid == 0) return std::optional<NodeStop>();
    if (tid < 0) return fail_errno(errno, "waitpid");
    stop = take(tid, status, false);
  }
  if (alive_) stop_others();
  running_ = interrupt_wanted_ = false;
  if (!alive_ && stop->kind != NodeStop::Kind::exited && stop->kind != NodeStop::Kind::killed) {
    stop = pending_.back();  // the program ended while its other threads were being stopped
    pending_.clear();
  }
  if (!alive_) reap();
  current_ = stop->thread;
  return stop;
}

Result<NodeStop> PtraceNode::wait() {
  FRIDAY_TRY(stop, next_stop(true));
  return *stop;
}

Result<std::optional<NodeStop>> PtraceNode::poll() { return next_stop(false); }

void PtraceNode::interrupt() {
  if (!running_) return;
  interrupt_wanted_ = true;
  ptrace_call(PTRACE_INTERRUPT, pid_);
}

Result<NodeStop> PtraceNode::continue_and_wait(std::optional<ThreadId> thread, int signal) {
  FRIDAY_TRY_VOID(resume(thread, signal));
  return wait();
}

Result<NodeStop> PtraceNode::step(ThreadId thread, int signal) {
  FRIDAY_TRY(tid, stopped_tid(thread));
  for (;;) {
    if (ptrace_call(PTRACE_SINGLESTEP, tid, 0, reinterpret_cast<void*>(static_cast<uintptr_t>(signal))))
      return fail_errno(errno, "ptrace(SINGLESTEP)");
    threads_[tid].stopped = false;
    int status;
    if (wait_retry(tid, &status, 0) < 0) return fail_errno(errno, "waitpid");
    current_ = thread;
    bool exiting = WIFSTOPPED(status) && status >> 16 == PTRACE_EVENT_EXIT;
    if (auto stop = take(tid, status, true)) return *stop;
    if (exiting) {  // report the end of the thread as a stop of one that is left, or as the end of the node
      if (!threads_.empty()) return NodeStop{.thread = threads_.begin()->second.id, .signal = SIGTRAP};
      running_ = true;
      return wait();
    }
    // PTRACE_EVENT_STOP of an earlier PTRACE_INTERRUPT: nothing was executed. At PTRACE_EVENT_CLONE the system call
    // instruction is, but its SIGTRAP is still to come.
    signal = 0;
    for (auto& [other, entry] : threads_)
      if (!entry.stopped && other != tid && wait_retry(other, &status, 0) == other) take(other, status, true);
  }
}

Result<void> PtraceNode::single_step(ThreadId thread) {
  FRIDAY_TRY(stop, step(thread));
  if (stop.kind == NodeStop::Kind::signal && stop.signal == SIGTRAP) return {};
  if (!alive_) return fail(ErrorCode::node_ended, "node {} ended in a single step", options_.id.value);
  pending_.push_back(stop);  // a fault: wait() reports it after the next resume()
  return {};
}

Result<NodeStop> PtraceNode::run_to(Addr address) {
  FRIDAY_TRY(regs, registers(threads().at(0).id));
  if (regs.rip == address.value) FRIDAY_TRY_VOID(single_step(threads().at(0).id));
  std::byte original, int3{0xcc};
  FRIDAY_TRY_VOID(read_raw(address, {&original, 1}));
  FRIDAY_TRY_VOID(write_raw(address, {&int3, 1}));
  auto stop = continue_and_wait();
  if (!stop || !alive_) return stop;
  FRIDAY_TRY_VOID(write_raw(address, {&original, 1}));
  FRIDAY_TRY(now, registers(stop->thread));
  if (stop->signal == SIGTRAP && now.rip == address.value + 1) {
    now.rip = address.value;
    FRIDAY_TRY_VOID(set_registers(stop->thread, now));
  }
  return stop;
}

Result<void> PtraceNode::detach() {
  if (!alive_) return {};
  for (auto& [tid, entry] : threads_) ptrace_call(PTRACE_DETACH, tid);
  alive_ = running_ = false;
  return {};
}

std::vector<ThreadInfo> PtraceNode::threads() {
  std::vector<ThreadInfo> all;
  for (const auto& [tid, entry] : threads_) {
    auto name = read_file(fmt::format("/proc/{}/task/{}/comm", pid_, tid));
    if (name && name->ends_with('\n')) name->pop_back();
    all.push_back({.id = entry.id, .tid = static_cast<uint32_t>(tid), .name = name.value_or("")});
  }
  std::sort(all.begin(), all.end(), [this](const ThreadInfo& a, const ThreadInfo& b) {
    return std::pair(a.id != current_, a.id) < std::pair(b.id != current_, b.id);
  });
  return all;
}

Result<void> PtraceNode::read_raw(Addr address, std::span<std::byte> out) {
  if (!alive_) return fail(ErrorCode::node_ended, "node {} has ended", options_.id.value);
  ssize_t got = pread(memory_.get(), out.data(), out.size(), static_cast<off_t>(address.value));
  if (got != static_cast<ssize_t>(out.size()))
    return fail(ErrorCode::bad_address, "cannot read {} bytes at {}", out.size(), address);
  return {};
}

Result<void> PtraceNode::write_raw(Addr address, std::span<const std::byte> data) {
  if (!alive_) return fail(ErrorCode::node_ended, "node {} has ended", options_.id.value);
  ssize_t put = pwrite(memory_.get(), data.data(), data.size(), static_cast<off_t>(address.value));
  if (put != static_cast<ssize_t>(data.size()))
    return fail(ErrorCode::bad_address, "cannot write {} bytes at {}", data.size(), address);
  return {};
}

Result<user_regs_struct> PtraceNode::registers(ThreadId thread) {
  FRIDAY_TRY(tid, stopped_tid(thread));
  user_regs_struct values;
  if (ptrace_call(PTRACE_GETREGS, tid, 0, &values)) return fail_errno(errno, "ptrace(GETREGS)");
  return values;
}

Result<void> PtraceNode::set_registers(ThreadId thread, const user_regs_struct& registers) {
  FRIDAY_TRY(tid, stopped_tid(thread));
  if (ptrace_call(PTRACE_SETREGS, tid, 0, &registers)) return fail_errno(errno, "ptrace(SETREGS)");
  return {};
}

Result<std::vector<std::byte>> PtraceNode::extended_state(ThreadId thread) {
  FRIDAY_TRY(tid, stopped_tid(thread));
  std::vector<std::byte> state(kXsaveMax);
  iovec io{state.data(), state.size()};
  if (ptrace_call(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &io)) return fail_errno(errno, "ptrace(GETREGSET)");
  state.resize(io.iov_len);
  return state;
}

Result<void> PtraceNode::set_extended_state(ThreadId thread, std::span<const std::byte> state) {
  FRIDAY_TRY(tid, stopped_tid(thread));
  iovec io{const_cast<std::byte*>(state.data()), state.size()};
  if (ptrace_call(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &io)) return fail_errno(errno, "ptrace(SETREGSET)");
  return {};
}

// Any `syscall` instruction that is mapped: the vdso always holds some (its fallbacks).
Result<Addr> PtraceNode::syscall_instruction() {
  if (syscall_instruction_) return *syscall_instruction_;
  FRIDAY_TRY(maps, mappings());
  for (const Mapping& map : maps) {
    if (map.path != "[vdso]") continue;
    std::vector<std::byte> code(map.high - map.low);
    FRIDAY_TRY_VOID(read_raw({map.low}, code));
    constexpr std::byte kSyscall[] = {std::byte{0x0f}, std::byte{0x05}};
    auto found = std::search(code.begin(), code.end(), std::begin(kSyscall), std::end(kSyscall));
    if (found != code.end()) return *(syscall_instruction_ = Addr{map.low}.plus(found - code.begin()));
  }
  return fail(ErrorCode::unsupported, "no system call instruction found in the vdso of {}", executable_);
}

// The signal mask keeps other signals away while the borrowed thread executes the call; SIGTRAP stays open, as a
// blocked SIGTRAP that the single step forces would reset its disposition.
Result<int64_t> PtraceNode::inject(long number, std::span<const uint64_t> arguments) {
  FRIDAY_TRY(place, syscall_instruction());
  ThreadId thread = threads().at(0).id;
  FRIDAY_TRY(tid, stopped_tid(thread));
  FRIDAY_TRY(saved, registers(thread));
  uint64_t mask = 0, all = ~(1ull << (SIGTRAP - 1));
  ptrace_call(PTRACE_GETSIGMASK, tid, sizeof mask, &mask);
  ptrace_call(PTRACE_SETSIGMASK, tid, sizeof all, &all);
  user_regs_struct call = saved;
  uint64_t a[6] = {};
  std::copy_n(arguments.begin(), std::min<size_t>(arguments.size(), 6), a);
  call.rip = place.value;
  call.rax = static_cast<uint64_t>(number);
  call.orig_rax = ~0ull;  // not inside a system call: nothing to restart
  std::tie(call.rdi, call.rsi, call.rdx, call.r10, call.r8, call.r9) = std::tie(a[0], a[1], a[2], a[3], a[4], a[5]);
  FRIDAY_TRY_VOID(set_registers(thread, call));
  auto stop = step(thread);
  auto after = registers(thread);
  ptrace_call(PTRACE_SETSIGMASK, tid, sizeof mask, &mask);
  FRIDAY_TRY_VOID(set_registers(thread, saved));
  if (!stop) return std::unexpected(stop.error());
  if (!after) return std::unexpected(after.error());
  return static_cast<int64_t>(after->rax);
}

Result<std::vector<Mapping>> PtraceNode::mappings() {
  FRIDAY_TRY(text, read_file(fmt::format("/proc/{}/maps", pid_)));
  std::vector<uint64_t> stacks;
  for (const auto& [tid, entry] : threads_)
    if (auto values = entry.stopped ? registers(entry.id) : fail(ErrorCode::usage, "runs"))
      stacks.push_back(values->rsp);
  std::vector<Mapping> all;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    std::string line = text.substr(at, end - at);
    Mapping map;
    char bits[5] = "";
    int name = 0;
    if (sscanf(line.c_str(), "%lx-%lx %4s %lx %*s %*d %n", &map.low, &map.high, bits, &map.offset, &name) < 4) continue;
    map.protection =
        (bits[0] == 'r' ? PROT_READ : 0) | (bits[1] == 'w' ? PROT_WRITE : 0) | (bits[2] == 'x' ? PROT_EXEC : 0);
    map.shared = bits[3] == 's';
    map.path = line.substr(static_cast<size_t>(name));
    map.stack = map.path == "[stack]" || std::any_of(stacks.begin(), stacks.end(),
                                                     [&](uint64_t rsp) { return rsp >= map.low && rsp < map.high; });
    all.push_back(std::move(map));
  }
  return all;
}

Result<std::vector<std::byte>> PtraceNode::auxv() {
  FRIDAY_TRY(text, read_file(fmt::format("/proc/{}/auxv", pid_)));
  auto bytes = std::as_bytes(std::span(text));
  return std::vector(bytes.begin(), bytes.end());
}

Result<Addr> PtraceNode::symbol(const std::string& name) {
  FRIDAY_TRY(file, read_file(executable_));
  FRIDAY_TRY(vector, auxv());
  uint64_t entry = 0;
  for (size_t i = 0; i + sizeof(Elf64_auxv_t) <= vector.size(); i += sizeof(Elf64_auxv_t)) {
    Elf64_auxv_t item;
    memcpy(&item, &vector[i], sizeof item);
    if (item.a_type == AT_ENTRY) entry = item.a_un.a_val;
  }
  auto* header = reinterpret_cast<const Elf64_Ehdr*>(file.data());
  auto* sections = reinterpret_cast<const Elf64_Shdr*>(file.data() + header->e_shoff);
  for (const Elf64_Shdr& section : std::span(sections, header->e_shnum)) {
    if (section.sh_type != SHT_SYMTAB && section.sh_type != SHT_DYNSYM) continue;
    const char* strings = file.data() + sections[section.sh_link].sh_offset;
    auto* symbols = reinterpret_cast<const Elf64_Sym*>(file.data() + section.sh_offset);
    for (const Elf64_Sym& symbol : std::span(symbols, section.sh_size / sizeof(Elf64_Sym)))
      if (symbol.st_shndx != SHN_UNDEF && name == strings + symbol.st_name)
        return Addr{symbol.st_value + entry - header->e_entry};
  }
  return fail(ErrorCode::not_found, "no symbol {} in {}", name, executable_);
}

}  // namespace friday
