#include "core/record/spawn.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/beneath.h"
#include "core/base/fd.h"
#include "core/record/instrumentable.h"
#include "core/shim/loader.h"
#include "core/shim/shim_abi.h"

namespace friday {
namespace {

// A file that a program's output is appended to. What is in a recording may be a stranger's, so no link is followed
// there.
Result<UniqueFd> open_output(const std::string& path, const std::string& recording) {
  if (path.empty()) return UniqueFd();
  if (path.starts_with('/')) return open_file(path, O_WRONLY | O_CREAT | O_APPEND);
  const Beneath file(recording, path);
  auto opened = open_beneath(file, O_RDWR);
  if (!opened && opened.error().code == ErrorCode::not_found) {
    FRIDAY_TRY_VOID(make_directory_beneath(file.directory()));
    opened = create_beneath(file);
  }
  if (opened && fcntl(opened->get(), F_SETFL, O_APPEND) != 0)
    return fail_errno(errno, fmt::format("{} cannot be appended to", file.path()));
  return opened;
}

std::vector<std::string> child_environment(const ProgramSpec& program, const std::string& shim, int socket_fd) {
  std::map<std::string, std::string> all;
  for (char** e = environ; *e; e++) {
    std::string_view entry = *e;
    size_t equals = entry.find('=');
    if (equals != std::string_view::npos) all[std::string(entry.substr(0, equals))] = entry.substr(equals + 1);
  }
  for (const auto& [key, value] : program.environment) all[key] = value;
  if (socket_fd >= 0) {
    std::string& preload = all["LD_PRELOAD"];
    preload = preload.empty() ? shim : shim + ":" + preload;
    // With rseq(2), the kernel writes the current processor number into the thread block, which a replay cannot repeat.
    std::string& tunables = all["GLIBC_TUNABLES"];
    tunables += (tunables.empty() ? "" : ":") + std::string("glibc.pthread.rseq=0");
    all[shim::kSocketVariable] = std::to_string(socket_fd);
  }
  std::vector<std::string> list;
  for (const auto& [key, value] : all) list.push_back(key + "=" + value);
  return list;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (auto& s : strings) list.push_back(s.data());
  list.push_back(nullptr);
  return list;
}

int socket_number(const rlimit& limit) {
  return limit.rlim_cur > static_cast<rlim_t>(shim::kSocketFd) ? shim::kSocketFd : static_cast<int>(limit.rlim_cur) - 1;
}

// A child process that creates a process group and leads it while this object exists. The program itself must not lead
// the group, because setsid(2) fails for a group leader, and a program started from a shell script is not a leader
// either.
class GroupLeader {
 public:
  static Result<GroupLeader> make() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "pipe failed");
    GroupLeader leader;
    UniqueFd reading(ends[0]);
    leader.writing_.reset(ends[1]);
    leader.pid_ = fork();
    if (leader.pid_ < 0) return fail_errno(errno, "fork failed");
    if (leader.pid_ == 0) {
      dup2(reading.get(), 0);
      close_range(1, ~0u, 0);  // other processes may be waiting for some of them to be closed
      char none;
      (void)!::read(0, &none, 1);
      _exit(0);
    }
    setpgid(leader.pid_, leader.pid_);
    return leader;
  }
  GroupLeader(GroupLeader&& other) noexcept : pid_(std::exchange(other.pid_, 0)), writing_(std::move(other.writing_)) {}
  ~GroupLeader() {
    writing_.reset();
    if (pid_ > 0)
      while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
  }
  pid_t group() const { return pid_; }

 private:
  GroupLeader() = default;
  pid_t pid_ = 0;
  UniqueFd writing_;
};

}  // namespace

std::string output_path(const std::string& path, const std::string& recording) {
  return path.starts_with('/') ? path : recording + "/" + path;
}

Result<pid_t> spawn(const ProgramSpec& program, const std::string& path, const LaunchOptions& options, int socket,
                    const rlimit& descriptors, const sigset_t& mask, const HostPlace* place) {
  const int number = socket >= 0 ? socket_number(descriptors) : -1;
  auto environment = child_environment(program, options.shim, number);
  auto arguments = program.command;
  std::string executed = path;
  UniqueFd loaded;
  if (socket >= 0) {
    FRIDAY_TRY(how, check_instrumentable(path, {geteuid(), ""}));
    if (!how.loaded.empty()) {
      FRIDAY_TRY(file, open_file(how.loaded, O_RDONLY));
      loaded = std::move(file);
      environment.push_back(fmt::format("{}={}:{}", shim::kProgramVariable, loaded.get(), path));
      if (!how.leading.empty()) {
        arguments.erase(arguments.begin());
        arguments.insert(arguments.begin(), how.leading.begin(), how.leading.end());
      }
      executed = options.shim;
    }
  }
  auto argv = pointers(arguments), envp = pointers(environment);
  UniqueFd in;
  if (!program.input.empty()) {
    auto opened = open_file(program.input, O_RDONLY);
    if (!opened) return fail(opened.error().code, "node {}: stdin: {}", program.name, opened.error().message);
    in = std::move(*opened);
  }
  const auto open_for = [&](const char* what, const std::string& file) {
    auto opened = open_output(file, options.collector.recording);
    if (!opened) opened.error().message = fmt::format("node {}: {}: {}", program.name, what, opened.error().message);
    return opened;
  };
  FRIDAY_TRY(out, open_for("stdout", program.output));
  FRIDAY_TRY(err, open_for("stderr", program.errors));
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return fail_errno(errno, "pipe failed");
  UniqueFd reading(report[0]), writing(report[1]);
  std::optional<GroupLeader> leader;
  if (options.own_process_groups) {
    FRIDAY_TRY(made, GroupLeader::make());
    leader.emplace(std::move(made));
  }
  pid_t pid = fork();
  if (pid < 0) return fail_errno(errno, "fork failed");
  if (pid == 0) {
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    ::signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_NOFILE, &descriptors);
    if (leader) setpgid(0, leader->group());
    if (in) dup2(in.get(), 0);
    if (out) dup2(out.get(), 1);
    if (err) dup2(err.get(), 2);
    if (socket >= 0 && dup2(socket, number) < 0) _exit(127);
    int error = place ? enter(*place) : 0;
    if (!error && !program.cwd.empty() && chdir(program.cwd.c_str()) != 0) error = errno;
    if (loaded) fcntl(loaded.get(), F_SETFD, 0);  // the shim reads it, and closes it before the program starts
    if (!error) execve(executed.c_str(), argv.data(), envp.data());
    if (!error) error = errno;
    (void)!write(writing.get(), &error, sizeof error);
    _exit(127);
  }
  writing.reset();
  int error = 0;
  if (::read(reading.get(), &error, sizeof error) == sizeof error) {
    waitpid(pid, nullptr, 0);
    return fail_errno(error, fmt::format("cannot start {}{}", path, program.cwd.empty() ? "" : " in " + program.cwd));
  }
  return pid;
}

}  // namespace friday
