#include "core/record/readiness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "core/base/fd.h"

namespace friday {
namespace {

constexpr size_t kLongestLine = 64 << 10;  // bytes of a line that a pattern is looked for in

// Whether a table of sockets in /proc/PID/net has the port in this state (the kernel's TCP_LISTEN; TCP_CLOSE for UDP).
bool has_socket(const std::string& table, uint16_t port, unsigned state) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(table.c_str(), "re"), fclose);
  if (!file) return false;
  char line[512];
  while (fgets(line, sizeof line, file.get())) {
    unsigned local = 0, in = 0;
    // "  0: 0100007F:1F90 00000000:0000 0A ..."
    if (sscanf(line, " %*u: %*32[0-9A-Fa-f]:%x %*32[0-9A-Fa-f]:%*x %x", &local, &in) == 2 && local == port &&
        in == state)
      return true;
  }
  return false;
}

std::unique_ptr<regex_t> compile(const std::string& pattern, std::string* problem) {
  auto regex = std::make_unique<regex_t>();
  const int error = regcomp(regex.get(), pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  if (!error) return regex;
  char text[200];
  regerror(error, regex.get(), text, sizeof text);
  *problem = text;
  return nullptr;
}

uint64_t size_of(const std::string& path) {
  struct stat st;
  return stat(path.c_str(), &st) == 0 ? static_cast<uint64_t>(st.st_size) : 0;
}

}  // namespace

Result<Readiness> parse_ready(const std::string& text) {
  Readiness ready;
  if (text == "exit") return ready;
  if (text.starts_with("output ")) {
    ready.kind = Readiness::Kind::output;
    ready.pattern = text.substr(7);
    std::string problem;
    auto regex = compile(ready.pattern, &problem);
    if (!regex)
      return fail(ErrorCode::bad_input, "\"{}\" is no regular expression (POSIX extended): {}", ready.pattern, problem);
    regfree(regex.get());
    return ready;
  }
  const char* end = text.data() + text.size();
  if (text.starts_with("port ")) {
    ready.kind = Readiness::Kind::port;
    const auto [behind, error] = std::from_chars(text.data() + 5, end, ready.port);
    if (error == std::errc{} && behind == end && ready.port) return ready;
  }
  return fail(
      ErrorCode::bad_input,
      "\"{}\" does not say when a node is ready: write \"port 7000\", \"output REGEX\" (a pattern of its output), "
      "or \"exit\" (it has ended with 0)",
      text);
}

bool is_port_open(pid_t pid, uint16_t port) {
  constexpr unsigned kTcpListen = 10, kTcpClose = 7;  // net/tcp_states.h of the kernel
  const std::string net = fmt::format("/proc/{}/net/", pid);
  return has_socket(net + "tcp", port, kTcpListen) || has_socket(net + "tcp6", port, kTcpListen) ||
         has_socket(net + "udp", port, kTcpClose) || has_socket(net + "udp6", port, kTcpClose);
}

ReadyWatch::ReadyWatch(Readiness what, const std::vector<std::string>& files) : what_(std::move(what)) {
  if (what_.kind != Readiness::Kind::output) return;
  for (const std::string& path : files)
    if (std::ranges::find(files_, path, &File::path) == files_.end()) files_.push_back({path, size_of(path), ""});
  std::string problem;
  regex_.reset(compile(what_.pattern, &problem).release());
}

bool ReadyWatch::is_ready(pid_t pid, int status) {
  if (what_.kind == Readiness::Kind::exit) return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (what_.kind == Readiness::Kind::port) return status < 0 && is_port_open(pid, what_.port);
  return std::ranges::any_of(files_, [this](File& file) { return appears_in(file); });
}

bool ReadyWatch::matches(std::string line) const {
  std::ranges::replace(line, '\0', ' ');
  return regexec(regex_.get(), line.c_str(), 0, nullptr, 0) == 0;
}

bool ReadyWatch::appears_in(File& file) {
  const UniqueFd opened(open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!opened) return false;
  char buffer[16 << 10];
  for (ssize_t n; (n = pread(opened.get(), buffer, sizeof buffer, static_cast<off_t>(file.read))) > 0;) {
    file.read += static_cast<uint64_t>(n);
    file.line.append(buffer, static_cast<size_t>(n));
    for (size_t end; (end = file.line.find('\n')) != std::string::npos; file.line.erase(0, end + 1))
      if (matches(file.line.substr(0, end))) return true;
    if (file.line.size() > kLongestLine) file.line.erase(0, file.line.size() - kLongestLine);
  }
  return matches(file.line);  // a prompt, for example
}

}  // namespace friday
