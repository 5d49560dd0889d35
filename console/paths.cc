#include "console/paths.h"

#include <unistd.h>

#include <climits>
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

}  // namespace friday
