#include "core/record/proc_files.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/files.h"

namespace friday {

namespace {

uint64_t pid_namespace(const std::string& process) {
  struct stat st;
  return stat(fmt::format("/proc/{}/ns/pid", process).c_str(), &st) == 0 ? st.st_ino : 0;
}

}  // namespace

std::string process_name(pid_t pid) {
  std::string name = read_file(fmt::format("/proc/{}/comm", pid)).value_or("?");
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

pid_t own_number(pid_t pid) {
  const std::string status = read_file(fmt::format("/proc/{}/status", pid)).value_or("");
  const size_t line = status.find("\nNSpid:"), end = status.find('\n', line + 1);
  if (line == std::string::npos || end == std::string::npos) return pid;
  return atoi(status.c_str() + status.find_last_of(" \t", end));
}

std::optional<pid_t> find_process(pid_t own, uint64_t space) {
  if (space == pid_namespace("self")) return own;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid > 0 && own_number(pid) == own && pid_namespace(std::to_string(pid)) == space) return pid;
  }
  return std::nullopt;
}

char thread_state(pid_t pid, pid_t thread) {
  const std::string stat = read_file(fmt::format("/proc/{}/task/{}/stat", pid, thread)).value_or("");
  const size_t name_ends = stat.rfind(") ");  // the name may contain any character
  return name_ends == std::string::npos || name_ends + 2 >= stat.size() ? 0 : stat[name_ends + 2];
}

}  // namespace friday
