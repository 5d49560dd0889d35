#include "tests/unit/infer_support.h"

#include <gtest/gtest.h>

#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

namespace friday::infer::test {
namespace {

constexpr char kBefore[] = R"(
#define _GNU_SOURCE
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>
#define say(a, b) syscall(5001, (long)(a), (long)(b))
unsigned char in[4096];
)";
constexpr char kBehind[] = R"(
static const struct { void* address; long function; } functions[] = {
  {memcpy, 1}, {memmove, 2}, {mempcpy, 3}, {memset, 4}, {memcmp, 5}, {memchr, 7}, {rawmemchr, 8}, {memrchr, 9}, {memmem, 10},
  {strlen, 11}, {strnlen, 12}, {strcmp, 13}, {strncmp, 14}, {strcasecmp, 15}, {strncasecmp, 16}, {strchr, 17}, {strchrnul, 18},
  {strrchr, 19}, {strcpy, 20}, {strncpy, 21}, {stpcpy, 22}, {strcat, 23}, {strspn, 24}, {strcspn, 25}, {strpbrk, 26}, {strstr, 27}};
int main(void) {
  syscall(5000, functions, sizeof functions / sizeof *functions, in);
  if (syscall(SYS_read, 0, in, sizeof in) < 0) return 1;
  target(in);
  syscall(SYS_exit_group, 0);
}
)";

template <typename T>
T part_of(const std::vector<uint8_t>& bytes, size_t at) {
  T value{};
  if (at + sizeof(T) <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace

std::string compiled_target(const std::string& code, const std::string& options) {
  static std::map<std::string, std::string> made;
  static const std::string directory = [] {
    char name[] = "/tmp/friday_infer_XXXXXX";
    return std::string(mkdtemp(name) != nullptr ? name : "/tmp");
  }();
  static const struct Cleaner {
    ~Cleaner() { (void)!std::system(("rm -rf " + directory).c_str()); }
  } cleaner;
  std::string& path = made[options + "\n" + code];
  if (!path.empty()) return path;
  const std::string name = directory + "/t" + std::to_string(made.size());
  std::ofstream(name + ".c") << kBefore << code << kBehind;
  const std::string command = "gcc -w -fno-builtin -o " + name + " " + options + " " + name + ".c";
  if (std::system(command.c_str()) == 0) path = name;
  return path;
}

Child::Child(const std::string& program, const std::vector<uint8_t>& input) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[0], 0);
    personality(ADDR_NO_RANDOMIZE);  // so that children can be compared
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    execl(program.c_str(), program.c_str(), nullptr);
    _exit(127);
  }
  if (::write(ends[1], input.data(), input.size()) != static_cast<ssize_t>(input.size())) return;
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  waitpid(pid_, &status, 0);
  ptrace(PTRACE_SETOPTIONS, pid_, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  memory_ = open(("/proc/" + std::to_string(pid_) + "/mem").c_str(), O_RDWR | O_CLOEXEC);
  for (;;) {
    const auto call = next_call();
    if (!call) return;
    if (call->orig_rax == kAnnounce) {
      input_ = call->rdx;
      const auto table = read(call->rdi, call->rsi * 16);
      for (size_t i = 0; i < table.size(); i += 16) {
        functions_.push_back({part_of<uint64_t>(table, i), static_cast<Function>(part_of<uint64_t>(table, i + 8)), 0});
      }
    }
    leave_call();
    if (call->orig_rax == 0 && call->rsi == input_) return;
  }
}

Child::~Child() {
  if (memory_ >= 0) close(memory_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::go(int request) {
  if (pid_ <= 0 || ptrace(static_cast<__ptrace_request>(request), pid_, 0, 0) != 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_ || !WIFSTOPPED(status)) {
    pid_ = -1;
    return false;
  }
  return WSTOPSIG(status) == (SIGTRAP | 0x80);
}

std::optional<user_regs_struct> Child::next_call() {
  if (!go(PTRACE_SYSCALL)) return std::nullopt;
  return registers();
}

void Child::leave_call() { go(PTRACE_SYSCALL); }

user_regs_struct Child::registers() const {
  user_regs_struct registers{};
  ptrace(PTRACE_GETREGS, pid_, 0, &registers);
  return registers;
}

Registers Child::all_registers() const {
  const user_regs_struct r = registers();
  Registers all{};
  const uint64_t general[] = {r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi,
                              r.r8,  r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15};
  std::memcpy(all.general, general, sizeof(general));
  all.rip = r.rip, all.flags = r.eflags, all.fs_base = r.fs_base, all.gs_base = r.gs_base;
  std::vector<uint8_t> area(16384);
  iovec part{area.data(), area.size()};
  if (ptrace(PTRACE_GETREGSET, pid_, NT_X86_XSTATE, &part) != 0) return all;
  std::memcpy(&all.mxcsr, &area[24], 4);
  const auto components = part_of<uint64_t>(area, 512);
  for (size_t i = 0; i < 16; ++i) {
    if ((components & 2) != 0) std::memcpy(all.vector[i], &area[160 + 16 * i], 16);
    if ((components & 4) != 0) std::memcpy(all.vector[i] + 16, &area[576 + 16 * i], 16);
  }
  return all;
}

std::vector<uint8_t> Child::read(uint64_t address, size_t size) const {
  std::vector<uint8_t> bytes(size);
  const ssize_t got = pread(memory_, bytes.data(), size, static_cast<off_t>(address));
  bytes.resize(got > 0 ? static_cast<size_t>(got) : 0);
  return bytes;
}

void Child::write(uint64_t address, const std::vector<uint8_t>& bytes) const {
  (void)!pwrite(memory_, bytes.data(), bytes.size(), static_cast<off_t>(address));
}

void Child::set_register(uint32_t number, uint64_t value) const {
  user_regs_struct r = registers();
  unsigned long long* const all[] = {&r.rax, &r.rcx, &r.rdx, &r.rbx, &r.rsp, &r.rbp, &r.rsi, &r.rdi,
                                     &r.r8,  &r.r9,  &r.r10, &r.r11, &r.r12, &r.r13, &r.r14, &r.r15};
  *all[number] = value;
  ptrace(PTRACE_SETREGS, pid_, 0, &r);
}

Solver::Solver(const Child& child, const Limits& limits) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    if (ends[1] == 3) fcntl(3, F_SETFD, 0);
    else dup2(ends[1], 3);
    execl(INFER_SOLVER, INFER_SOLVER, nullptr);
    _exit(127);
  }
  close(ends[1]);
  socket_ = ends[0];
  const rlimit most{limits.memory, limits.memory};
  (void)prlimit(pid_, RLIMIT_AS, &most, nullptr);
  const Begin begin{kProtocolVersion, limits.milliseconds, limits.instructions,
                    limits.memory,    limits.paths,        limits.table};
  const Header header{Kind::begin, sizeof(begin)};
  iovec parts[] = {{const_cast<Header*>(&header), sizeof(header)}, {const_cast<Begin*>(&begin), sizeof(begin)}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = parts, message.msg_iovlen = 2;
  message.msg_control = control, message.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof(int));
  const int memory = child.memory();
  std::memcpy(CMSG_DATA(rights), &memory, sizeof(int));
  (void)sendmsg(socket_, &message, MSG_NOSIGNAL);
  Kind kind{};
  std::vector<uint8_t> bytes;
  if (!receive(&kind, &bytes) || kind != Kind::ready) {
    close(socket_);
    socket_ = -1;
    return;
  }
  for (const Summary& each : child.functions()) send(Kind::summary, &each, sizeof(each));
}

Solver::~Solver() {
  if (socket_ >= 0) close(socket_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Solver::send(Kind kind, const void* bytes, size_t size, const std::vector<uint8_t>& behind) {
  const Header header{kind, static_cast<uint32_t>(size + behind.size())};
  std::vector<uint8_t> all(sizeof(header));
  std::memcpy(all.data(), &header, sizeof(header));
  all.insert(all.end(), static_cast<const uint8_t*>(bytes), static_cast<const uint8_t*>(bytes) + size);
  all.insert(all.end(), behind.begin(), behind.end());
  (void)::send(socket_, all.data(), all.size(), MSG_NOSIGNAL);
}

bool Solver::receive(Kind* kind, std::vector<uint8_t>* bytes) {
  Header header{};
  if (recv(socket_, &header, sizeof(header), MSG_WAITALL) != sizeof(header)) return false;
  *kind = header.kind;
  bytes->resize(header.size);
  return header.size == 0 ||
         recv(socket_, bytes->data(), header.size, MSG_WAITALL) == static_cast<ssize_t>(header.size);
}

void Solver::unknown(uint64_t address, uint64_t length, uint64_t first) {
  const Unknown unknown{address, length, first};
  send(Kind::unknown, &unknown, sizeof(unknown));
}

void Solver::known(uint64_t address, uint64_t length) {
  const Range range{address, length};
  send(Kind::known, &range, sizeof(range));
}

Answered Solver::run(uint32_t thread, const Registers& registers, const std::vector<Demanded>& demands,
                     const Judge& judge) {
  const Run run{thread, static_cast<uint32_t>(demands.size()), judge != nullptr, 0, registers};
  std::vector<uint8_t> behind;
  for (const Demanded& each : demands) {
    const Demand demand{Of::general_register, each.number, 0, each.bytes};
    const auto* bytes = reinterpret_cast<const uint8_t*>(&demand);
    behind.insert(behind.end(), bytes, bytes + sizeof(demand));
    bytes = reinterpret_cast<const uint8_t*>(&each.value);
    behind.insert(behind.end(), bytes, bytes + each.bytes);
  }
  send(Kind::run, &run, sizeof(run), behind);
  Answered answered;
  std::vector<uint8_t> bytes;
  while (answered.died = !receive(&answered.kind, &bytes), !answered.died && answered.kind == Kind::arrived && judge) {
    const Judgement judgement{judge(part_of<Arrived>(bytes, 0)), 0};
    send(Kind::judgement, &judgement, sizeof(judgement));
  }
  if (answered.died) return answered;
  if (answered.kind == Kind::failed) {
    answered.failed = part_of<Failed>(bytes, 0);
    answered.text.assign(bytes.begin() + sizeof(Failed), bytes.end());
    return answered;
  }
  answered.done = part_of<Done>(bytes, 0);
  size_t at = sizeof(Done);
  for (uint32_t i = 0; i < answered.done.patches; ++i) {
    const auto patch = part_of<Patch>(bytes, at);
    at += sizeof(Patch);
    answered.patches.push_back(
        {patch, {bytes.begin() + static_cast<long>(at), bytes.begin() + static_cast<long>(at + patch.length)}});
    at += patch.length;
  }
  return answered;
}

std::vector<Range> Solver::shadow() {
  send(Kind::shadow, nullptr, 0);
  Kind kind{};
  std::vector<uint8_t> bytes;
  if (!receive(&kind, &bytes)) return {};
  for (size_t at = 0; at < bytes.size(); at += sizeof(ShadowChange)) {
    const auto change = part_of<ShadowChange>(bytes, at);
    for (uint64_t i = 0; i < change.length; ++i) {
      const bool changed =
          change.depends ? shadowed_.insert(change.address + i).second : shadowed_.erase(change.address + i) != 0;
      EXPECT_TRUE(changed) << "what is told as a change was so before";
    }
  }
  std::vector<Range> ranges;
  for (const uint64_t each : shadowed_) {
    if (!ranges.empty() && ranges.back().address + ranges.back().length == each) ++ranges.back().length;
    else ranges.push_back({each, 1});
  }
  return ranges;
}

std::pair<Looked, std::vector<uint8_t>> Solver::look(uint64_t address, uint64_t length) {
  const Range range{address, length};
  send(Kind::look, &range, sizeof(range));
  Kind kind{};
  std::vector<uint8_t> bytes;
  if (!receive(&kind, &bytes) || kind != Kind::looked) return {};
  return {part_of<Looked>(bytes, 0), {bytes.begin() + sizeof(Looked), bytes.end()}};
}

std::vector<Symbol> Solver::values(uint64_t first, uint64_t count) {
  const Values values{first, count, 10'000, 0};
  send(Kind::values, &values, sizeof(values));
  Kind kind{};
  std::vector<uint8_t> bytes;
  std::vector<Symbol> symbols;
  if (!receive(&kind, &bytes)) return symbols;
  for (size_t at = 0; at < bytes.size(); at += sizeof(Symbol)) symbols.push_back(part_of<Symbol>(bytes, at));
  return symbols;
}

std::vector<Solver::Demanded> demands_of_call(const user_regs_struct& registers, size_t arguments) {
  const uint64_t values[] = {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9};
  constexpr uint32_t kNumbers[] = {7, 6, 2, 10, 8, 9};
  std::vector<Solver::Demanded> demands{{0, registers.orig_rax, 4}};
  for (size_t i = 0; i < arguments; ++i) demands.push_back({kNumbers[i], values[i], 8});
  return demands;
}

void apply(const Child& child, const Answered& answered) {
  for (const auto& [patch, bytes] : answered.patches) {
    if (patch.of == Of::memory) {
      child.write(patch.address, bytes);
    } else {
      uint64_t value = 0;
      std::memcpy(&value, bytes.data(), bytes.size());
      child.set_register(patch.number, value);
    }
  }
}

}  // namespace friday::infer::test
