#include "console/cc_profile.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "console/bitcode_tool.h"
#include "console/complain.h"
#include "core/base/error.h"

namespace friday {
namespace {

namespace fs = std::filesystem;

struct ProfileOptions {
  std::string directory;
  std::vector<std::string> libraries, command;
};

// The program as a shell would find it.
Result<std::string> program_of(const std::string& word) {
  if (word.find('/') != std::string::npos) {
    if (access(word.c_str(), X_OK) == 0) return word;
    return fail_errno(errno, fmt::format("cannot run {}", word));
  }
  const char* const path = std::getenv("PATH");
  for (std::string rest = path ? path : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    std::string file = (fs::path(rest.substr(0, end)) / word).string();
    if (access(file.c_str(), X_OK) == 0) return file;
    rest.erase(0, std::min(end + 1, rest.size()));
  }
  return fail(ErrorCode::not_found, "cannot run {}: no directory of PATH has it. Give its path", word);
}

// Whether all files have a counting build that is newer than they are.
bool is_built(const std::vector<std::string>& files, const fs::path& directory) {
  for (const std::string& each : files) {
    std::error_code built_error, error;
    const auto built = fs::last_write_time(directory / fs::path(each).filename(), built_error);
    const auto made = fs::last_write_time(each, error);
    if (built_error || error || built <= made) return false;
  }
  return true;
}

Result<void> build_to_count(const std::vector<std::string>& files, const fs::path& directory) {
  std::vector<std::string> words{"counting"};
  words.insert(words.end(), files.begin(), files.end());
  words.insert(words.end(), {"-o", directory.string()});
  FRIDAY_TRY(code, run_bitcode_tool(words));
  if (code != 0)
    return fail(ErrorCode::bad_input, "{} cannot be built so that it counts; the reason stands above", files.front());
  return {};
}

// Children that change their user, and then execute a program that counts, write there too.
Result<void> make_counts_directory(const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return fail(ErrorCode::io, "cannot make the directory {}: {}", directory.string(), error.message());
  if (geteuid() == 0 && chmod(directory.c_str(), 01777) != 0)
    return fail_errno(errno, fmt::format("cannot open the directory {} to all users", directory.string()));
  return {};
}

void add_to_search_path(const fs::path& directory) {
  const char* const before = std::getenv("LD_LIBRARY_PATH");
  const std::string path = directory.string() + (before && *before ? ":" + std::string(before) : "");
  setenv("LD_LIBRARY_PATH", path.c_str(), 1);
}

// Becomes the program that counts, so its exit code is the command's.
Result<void> run_counting(const ProfileOptions& options) {
  FRIDAY_TRY(program, program_of(options.command.front()));
  const fs::path counts = fs::absolute(options.directory), builds = counts / "program";
  FRIDAY_TRY_VOID(make_counts_directory(counts));
  std::vector<std::string> files{program};
  files.insert(files.end(), options.libraries.begin(), options.libraries.end());
  if (!is_built(files, builds)) FRIDAY_TRY_VOID(build_to_count(files, builds));
  setenv("FRIDAY_COUNTS", counts.c_str(), 1);
  if (!options.libraries.empty()) add_to_search_path(builds);
  const std::string built = (builds / fs::path(program).filename()).string();
  std::vector<std::string> words = options.command;
  words.front() = built;
  std::vector<char*> pointers;
  for (std::string& each : words) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  execv(built.c_str(), pointers.data());
  return fail_errno(errno, fmt::format("cannot start {}", built));
}

}  // namespace

void add_profile_command(CLI::App& cut, int* status) {
  auto options = std::make_shared<ProfileOptions>();
  auto* const command =
      cut.add_subcommand("profile", "Run a program that `friday cc` built, and count how often each part of it runs");
  command->add_option("-o,--output", options->directory, "Directory for the counts; those of several runs add up")
      ->required();
  command->add_option("--library", options->libraries,
                      "Count in this shared object too, which `friday cc` built and the program loads by its name");
  command->add_option("command", options->command, "The program and its arguments, behind --")->required();
  command->footer(
      "Example:\n  friday cut profile -o counts -- ./httpd -X\n"
      "The program is built again when it is newer than what counts, which is in COUNTS/program.");
  command->callback([options, status] {
    const auto failed = run_counting(*options);
    *status = complain("cut profile", failed.error());
  });
}

}  // namespace friday
