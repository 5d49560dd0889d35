#include "console/paths.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>

namespace friday {

std::string executable_path() {
  char path[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : std::string();
}

namespace {

std::string beside(const char* directory) {
  return (std::filesystem::path(executable_path()).parent_path().parent_path() / directory).string();
}

}  // namespace

std::string library_directory() { return beside("lib"); }
std::string package_directory() { return beside("python"); }
std::string docs_directory() { return beside("docs"); }

std::string sessions_directory() {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value ? value : "");
  };
  if (const std::string own = set("FRIDAY_SESSIONS"); !own.empty()) return own;
  if (const std::string data = set("XDG_DATA_HOME"); !data.empty()) return data + "/friday";
  return set("HOME") + "/.local/share/friday";
}

std::string recording_named(const std::string& text) {
  std::error_code unknown;
  if (text.empty() || text.find('/') != std::string::npos || std::filesystem::exists(text, unknown)) return text;
  const std::string session = sessions_directory() + "/" + text;
  return std::filesystem::is_directory(session, unknown) ? session : text;
}

bool is_recording(const std::filesystem::path& place) {
  std::error_code unknown;
  return std::filesystem::exists(place / "recording.json", unknown);
}

std::vector<std::filesystem::path> recordings_in(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> found;
  std::error_code unreadable;
  for (auto entry = std::filesystem::directory_iterator(
           directory, std::filesystem::directory_options::skip_permission_denied, unreadable);
       !unreadable && entry != std::filesystem::directory_iterator(); entry.increment(unreadable))
    if (is_recording(entry->path())) found.push_back(entry->path());
  std::ranges::sort(found);
  return found;
}

}  // namespace friday
