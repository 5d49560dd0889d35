#include "core/record/instrumentable.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/fd.h"
#include "core/base/files.h"

namespace friday {
namespace {

Result<Instrumentation> check(const std::string& path, const Executor& by, int depth) {
  const std::string file = by.root + path;
  struct stat st;
  if (stat(file.c_str(), &st) != 0) return fail_errno(errno, fmt::format("cannot stat {}", path));
  if ((st.st_mode & (S_ISUID | S_ISGID)) && st.st_uid != by.user)
    return fail(ErrorCode::unsupported,
                "{} is setuid or setgid: the loader ignores LD_PRELOAD for it, so it cannot be recorded; run a copy "
                "without the bit",
                path);
  char capabilities[64];
  if (by.user != 0 && getxattr(file.c_str(), "security.capability", capabilities, sizeof capabilities) > 0)
    return fail(ErrorCode::unsupported,
                "{} has file capabilities: the loader ignores LD_PRELOAD for it, so it cannot be recorded; run a copy "
                "without them",
                path);
  FRIDAY_TRY(fd, open_file(file, O_RDONLY));
  char start[256]{};
  ssize_t got = pread(fd.get(), start, sizeof start - 1, 0);
  if (got > 2 && start[0] == '#' && start[1] == '!') {
    if (depth > 4) return fail(ErrorCode::bad_input, "{}: scripts name each other as interpreter", path);
    std::string line(start + 2, strcspn(start + 2, "\n"));
    line.erase(line.find_last_not_of(" \t") + 1);
    size_t from = line.find_first_not_of(" \t"), to = line.find_first_of(" \t", from);
    if (from == std::string::npos) return fail(ErrorCode::bad_input, "{} has an empty interpreter line", path);
    const std::string interpreter = line.substr(from, to - from);
    FRIDAY_TRY(found, check(interpreter, by, depth + 1));
    if (found.leading.empty()) found.leading = {interpreter};
    if (to != std::string::npos) found.leading.push_back(line.substr(line.find_first_not_of(" \t", to)));
    found.leading.push_back(path);
    return found;
  }
  Elf64_Ehdr header;
  if (got < static_cast<ssize_t>(sizeof header)) return fail(ErrorCode::bad_input, "{} is not a program", path);
  memcpy(&header, start, sizeof header);
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return fail(ErrorCode::bad_input, "{} is neither an ELF program nor a script", path);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64)
    return fail(ErrorCode::unsupported, "{} is not an x86-64 program; Friday records no other kind", path);
  for (unsigned i = 0; i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (pread(fd.get(), &segment, sizeof segment, static_cast<off_t>(header.e_phoff + i * sizeof segment)) !=
        sizeof segment)
      return fail(ErrorCode::bad_input, "{} is a damaged ELF file", path);
    if (segment.p_type == PT_INTERP) return Instrumentation{};
  }
  return Instrumentation{.loaded = path, .leading = {}};
}

}  // namespace

Result<Instrumentation> check_instrumentable(const std::string& path, const Executor& by) {
  FRIDAY_TRY(found, check(path, by, 0));
  if (by.borrows)
    return fail(ErrorCode::unsupported,
                "{} was executed by a process whose real and effective user or group differ: the loader ignores "
                "LD_PRELOAD then, as for a setuid program",
                path);
  return found;
}

}  // namespace friday
