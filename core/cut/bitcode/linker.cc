// friday-ld: stands between clang and the linker. It adds one small object to the inputs, with the linker's own command
// (record.h), and becomes the linker. clang starts it as it would start any linker, so everything that clang knows of
// the link is in the command: start files, libraries, the objects of sources that were compiled in the same run.
//
// FRIDAY_LINKER has what `friday cc` knows of the linker that the user asked for: its path, or the command that asks
// clang for it, one word a line.
//
// It starts in front of each link and needs no library but C's and C++'s.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "core/cut/bitcode/link_inputs.h"
#include "core/cut/bitcode/link_object.h"
#include "core/cut/bitcode/record.h"
#include "core/cut/bitcode/response.h"

namespace friday::cut {
namespace {

// What strips a program while it is linked: without debug information there would be no records.
bool strips(std::string_view argument) {
  return argument == "-s" || argument == "-S" || argument == "--strip-all" || argument == "-strip-all" ||
         argument == "--strip-debug" || argument == "-strip-debug";
}

// The linker's output is a program or a shared object. Objects that are linked again (ld -r) keep the records of their
// inputs, and have no command of their own: that of the program is the one that counts.
bool makes_program(const std::vector<std::string>& arguments) {
  return std::ranges::none_of(arguments, [](const std::string& each) {
    return each == "-r" || each == "-i" || each == "-Ur" || each == "--relocatable" || each == "-relocatable" ||
           each == "--version" || each == "-v" || each == "-V" || each == "--help" || each.starts_with("--print-");
  });
}

// Whether the linker may drop the object that it is given. lld and gold keep all that no segment loads.
bool may_drop(const std::string& linker, const std::vector<std::string>& arguments) {
  const std::string name = linker.substr(linker.find_last_of('/') + 1);
  return std::ranges::find(arguments, "--gc-sections") != arguments.end() && name.find("lld") == std::string::npos &&
         name.find("gold") == std::string::npos;
}

// The path of a file without a name that has these bytes. The linker inherits it.
std::string file_with(std::string_view bytes) {
  const int fd = memfd_create("friday-link.o", 0);
  while (fd >= 0 && !bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno != EINTR) return "";
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(written, 0)));
  }
  return fd < 0 ? "" : "/proc/self/fd/" + std::to_string(fd);
}

// What stands in a file; empty if it cannot be read.
std::string contents_of(const std::string& path) {
  std::string text;
  FILE* const file = fopen(path.c_str(), "rbe");
  char buffer[1 << 16];
  for (size_t n; file && (n = fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  if (file) fclose(file);
  return text;
}

// The inputs that clang removes when the link is done: it chose names in the directory for temporary files for them.
std::vector<KeptInput> temporaries(const std::vector<std::string>& command) {
  std::string directory = "/tmp";
  for (const char* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})  // as LLVM looks for it
    if (const char* value = getenv(name)) {
      directory = value;
      break;
    }
  while (directory.ends_with('/')) directory.pop_back();
  std::vector<KeptInput> kept;
  for (const LinkInput& each : inputs_of(command, "")) {
    if (each.kind == InputKind::archive || each.path.substr(0, each.path.find_last_of('/')) != directory) continue;
    const bool has_records = each.kind == InputKind::recorded;
    kept.push_back({each.path, has_records, has_records ? "" : contents_of(each.path)});
  }
  return kept;
}

// What a command prints, without the end of the line; empty if it fails.
std::string answer_of(std::vector<std::string> words) {
  int ends[2];
  if (pipe(ends) != 0) return "";
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::vector<char*> pointers;
    for (std::string& each : words) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char buffer[PATH_MAX];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) != 0;)
    if (n > 0) text.append(buffer, static_cast<size_t>(n));
    else if (errno != EINTR) break;
  close(ends[0]);
  int status = 0;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  if (child < 0 || status != 0) return "";
  return text.substr(0, text.find('\n'));
}

// The linker that `chosen` means (FRIDAY_LINKER).
std::string linker_of(std::string_view chosen) {
  std::vector<std::string> lines;
  for (size_t end; !chosen.empty(); chosen.remove_prefix(std::min(end + 1, chosen.size())))
    lines.emplace_back(chosen.substr(0, end = std::min(chosen.find('\n'), chosen.size())));
  if (lines.size() == 1) return lines.front();
  const std::string found = lines.empty() ? "" : answer_of(std::move(lines));
  return found.empty() ? "ld" : found;
}

// Becomes the linker; returns its exit code if that fails.
int become(const std::string& linker, const std::vector<std::string>& arguments) {
  std::vector<char*> words{const_cast<char*>(linker.c_str())};
  for (const std::string& each : arguments) words.push_back(const_cast<char*>(each.c_str()));
  words.push_back(nullptr);
  execvp(linker.c_str(), words.data());
  fprintf(stderr,
          "friday cc: cannot start the linker %s: %s. It is the one that -fuse-ld, --ld-path or -B names, else ld\n",
          linker.c_str(), strerror(errno));
  return 1;
}

int link(const std::string& linker, std::vector<std::string> arguments) {
  std::vector<std::string> expanded = expand_responses(arguments);
  if (!makes_program(expanded)) return become(linker, arguments);
  Record record{.kind = Record::Kind::link, .arguments = {linker}};
  char directory[PATH_MAX];
  if (getcwd(directory, sizeof directory)) record.directory = directory;
  std::erase_if(expanded, strips);
  record.arguments.insert(record.arguments.end(), expanded.begin(), expanded.end());
  record.stored = encode_inputs(temporaries(record.arguments));
  std::erase_if(arguments, strips);
  if (const std::string object = file_with(link_object(encode(record), may_drop(linker, expanded))); !object.empty())
    arguments.push_back(object);
  else fprintf(stderr, "friday cc: the program will not know how it was linked: %s\n", strerror(errno));
  return become(linker, arguments);
}

}  // namespace
}  // namespace friday::cut

int main(int argc, char** argv) {
  const char* chosen = getenv("FRIDAY_LINKER");
  const std::string linker = friday::cut::linker_of(chosen ? chosen : "");
  unsetenv("FRIDAY_LINKER");
  return friday::cut::link(linker, {argv + 1, argv + argc});
}
