#include "tests/unit/history_support.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>

#include "core/base/files.h"
#include "core/replay/verdict.h"

namespace friday {
namespace {

using namespace std::chrono_literals;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/friday-history-XXXXXX";
    if (!mkdtemp(name)) throw std::runtime_error("no directory can be made in /tmp");
    path = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

Recorded record(const std::string& target) {
  static const TemporaryDirectory directory;
  const Recorded made{directory.path + "/" + target, {}};
  const std::string out = made.path + ".out", err = made.path + ".err", program = FRIDAY_TARGETS "/" + target;
  const char* arguments[] = {FRIDAY_COMMAND, "record", "-o", made.path.c_str(), "--", program.c_str(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t pid = 0;
  const int failed = posix_spawn(&pid, FRIDAY_COMMAND, &actions, nullptr, const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = -1;
  if (!failed)
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (failed || status != 0)
    throw std::runtime_error(fmt::format("{} was not recorded: {}", target, read_file(err).value_or("")));
  return {made.path, must(read_file(out))};
}

// The fields of /proc/PID/stat behind the name; empty if the process is gone.
struct ProcessStat {
  char state = 0;
  pid_t group = 0;
};
ProcessStat stat_of(const std::string& directory) {
  const auto text = read_file(directory + "/stat");
  const size_t name = text ? text->rfind(") ") : std::string::npos;
  ProcessStat stat;
  if (name != std::string::npos) sscanf(text->c_str() + name + 2, "%c %*d %d", &stat.state, &stat.group);
  return stat;
}

bool has_ended(const ProcessStat& stat) { return stat.state == 0 || stat.state == 'Z' || stat.state == 'X'; }

std::string text_of(const user_regs_struct& r) {
  return fmt::format(
      "rip {:x} rsp {:x} rbp {:x} rax {:x} rbx {:x} rcx {:x} rdx {:x} rsi {:x} rdi {:x} r8 {:x} r9 {:x} r10 {:x} r11 "
      "{:x} r12 {:x} r13 {:x} r14 {:x} r15 {:x} flags {:x} fs {:x} gs {:x}",
      r.rip, r.rsp, r.rbp, r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14,
      r.r15, r.eflags, r.fs_base, r.gs_base);
}

std::string text_of(const Stop& stop) {
  return fmt::format("a stop of the kind {} of node {}: {}{}", name_of(stop.kind), stop.node, stop.message,
                     stop.divergence ? describe(*stop.divergence) : "");
}

}  // namespace

const Recorded& recorded(const std::string& target) {
  static std::map<std::string, Recorded> all;
  auto found = all.find(target);
  if (found == all.end()) found = all.emplace(target, record(target)).first;
  return found->second;
}

const Recorded& generations() { return recorded("generations"); }

Places places() {
  Places all;
  if (sscanf(generations().output.c_str(), "places %lx %lx %lx %lx", &all.tick.value, &all.ticks.value,
             &all.shared.value, &all.block.value) != 4)
    throw std::runtime_error("generations has not said where its variables are: " + generations().output);
  return all;
}

Replay::Replay(const Recorded& recording, SyncMode sync) {
  ReplayOptions options;
  options.library_directory = FRIDAY_LIBRARY;
  options.sync = sync;
  session_ = must(ReplaySession::open(recording.path, std::move(options)));
  group_ = getpgid(pid(kMain));
  session_->on_node_started = [this](ReplayNode& node) {
    started.push_back(node.id());
    if (target_ && target_->first == node.id()) must(session_->stop_at(node.id(), target_->second));
  };
  session_->on_node_stands = [this](ReplayNode& node) { stands.push_back(node.id()); };
}

uint64_t Replay::value(NodeId id, Addr address) {
  uint64_t value = 0;
  must(node(id).read(address, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

void Replay::set_value(NodeId id, Addr address, uint64_t value) {
  must(node(id).write(address, std::as_bytes(std::span(&value, 1))));
}

Turn Replay::longest_turn(NodeId id) const {
  Turn longest{id, 0, 0};
  for (const Turn& turn : session_->schedule().turns())
    if (turn.node == id && turn.count > longest.count) longest = turn;
  return longest;
}

void Replay::run_to(NodeId id, uint64_t event) {
  target_ = {id, event};
  started.clear(), stands.clear();
  if (node(id).has_process()) must(session_->stop_at(id, event));
  const Stop stop = run();
  target_.reset();
  if (stop.kind != Stop::Kind::event || session_->mark(id) != Mark{id, {event}})
    throw std::runtime_error(fmt::format("on the way to event {} of node {}: {}", event, id, text_of(stop)));
  must(session_->stop_at(id, ~uint64_t{0}));
}

std::vector<NodeId> Replay::run_to_end() {
  std::vector<NodeId> ended;
  started.clear(), stands.clear();
  for (;;) {
    const Stop stop = run();
    if (stop.kind == Stop::Kind::end) return ended;
    if (stop.kind != Stop::Kind::exit) throw std::runtime_error("on the way to the end: " + text_of(stop));
    ended.push_back(stop.node);
  }
}

void Replay::settle() {
  const auto until = std::chrono::steady_clock::now() + 30s;
  for (NodeId id : session_->nodes()) {
    if (state(id) != NodeState::live) continue;
    for (const auto& [tid, thread] : node(id).threads_by_tid())
      for (;;) {
        const ProcessStat stat = stat_of(fmt::format("/proc/{}/task/{}", pid(id), tid));
        if (stat.state == 'S' || stat.state == 't' || has_ended(stat)) break;
        if (std::chrono::steady_clock::now() > until)
          throw std::runtime_error(fmt::format("node {} does not come to wait for the others", id));
        std::this_thread::sleep_for(100us);
      }
  }
}

std::unique_ptr<GroupCheckpoint> Replay::keep() {
  settle();
  return must(session_->checkpoint());
}

States Replay::states() {
  States all;
  for (NodeId id : session_->nodes()) {
    ReplayNode& there = node(id);
    const NodeOutcome& outcome = there.outcome();
    std::string& text = all[id.value];
    text = fmt::format("{}, {} {} {}, {} events, {} forks",
                       there.state() == NodeState::live    ? "live"
                       : there.state() == NodeState::ended ? "ended"
                                                           : "waiting",
                       name_of(outcome.how), outcome.detail, outcome.text, there.events_done(), there.snapshot().forks);
    if (!there.has_process()) continue;
    text += fmt::format(", memory {:x}", must(session_->state_hash(id)));
    if (there.state() != NodeState::live) continue;
    for (const ThreadInfo& thread : there.threads())
      text += fmt::format("\n  thread {} tid {} {}: {}", thread.id.value, thread.tid, thread.name,
                          text_of(must(there.registers(thread.id))));
  }
  return all;
}

std::set<pid_t> Replay::processes() const {
  std::set<pid_t> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto pid = static_cast<pid_t>(strtol(entry.path().filename().c_str(), nullptr, 10));
    if (pid <= 0) continue;
    const ProcessStat stat = stat_of(entry.path());
    if (!has_ended(stat) && stat.group == group_) all.insert(pid);
  }
  return all;
}

States states_at_end(const Recorded& recording) {
  Replay straight(recording);
  straight.run_to_end();
  return straight.states();
}

// ---- A node that is too large to be copied

bool refuses_large_copies() {
  const auto how = read_file("/proc/sys/vm/overcommit_memory");
  return how && how->starts_with("0");
}

// Each of two parts may be had, and the kernel makes one mapping of them. fork(2) asks whether all of that may be had.
std::pair<uint64_t, uint64_t> enlarge(ReplayNode& node) {
  struct sysinfo machine;
  if (sysinfo(&machine) != 0) throw std::runtime_error("the size of the memory is not known");
  const uint64_t part = (machine.totalram + machine.totalswap) * machine.mem_unit / 4 * 3 & ~uint64_t{4095};
  const auto map = [&](uint64_t at, uint64_t size, int protection, int flags) {
    const uint64_t arguments[] = {at,
                                  size,
                                  static_cast<uint64_t>(protection),
                                  static_cast<uint64_t>(MAP_PRIVATE | MAP_ANONYMOUS | flags),
                                  ~uint64_t{0},
                                  0};
    const int64_t mapped = must(node.inject(SYS_mmap, arguments));
    if (mapped < 0 && mapped > -4096) throw std::runtime_error(fmt::format("no room in the node: {}", mapped));
    return static_cast<uint64_t>(mapped);
  };
  const uint64_t low = map(0, 2 * part, PROT_NONE, MAP_NORESERVE);
  for (const uint64_t at : {low, low + part}) map(at, part, PROT_READ | PROT_WRITE, MAP_FIXED);
  return {low, 2 * part};
}

void shrink(ReplayNode& node, std::pair<uint64_t, uint64_t> mapping) {
  const uint64_t arguments[] = {mapping.first, mapping.second};
  if (must(node.inject(SYS_munmap, arguments)) != 0) throw std::runtime_error("the mapping of the node stays");
}

}  // namespace friday
