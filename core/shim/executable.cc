// Whether the kernel or the loader (loader.cc) must start a program that a recorded process executes. The loader starts
// what is statically linked. Scripts are followed to their interpreters, as the kernel does.
#include <linux/elf.h>
#include <linux/fcntl.h>

#include "core/shim/calls.h"
#include "core/shim/memory.h"
#include "core/shim/process.h"

namespace friday::shim {

namespace {

// Whether the file's owner or capabilities would give the process other rights than it has; only the kernel can do
// that.
bool changes_rights(int fd, const FileStat& st) {
  constexpr uint32_t kSetUser = 04000, kSetGroup = 02000;
  char capabilities[64];
  const long user = native(sys::geteuid);
  if (st.mode & kSetUser && (long)st.uid != user) return true;
  if (st.mode & kSetGroup && (long)st.gid != native(sys::getegid)) return true;
  return user != 0 && native(sys::fgetxattr, fd, "security.capability", capabilities, sizeof capabilities) > 0;
}

bool is_static(int fd) {
  Elf64_Ehdr h;
  if (native(sys::pread64, fd, &h, sizeof h, 0) != sizeof h || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
      h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_machine != EM_X86_64 || h.e_phentsize != sizeof(Elf64_Phdr))
    return false;
  bool loads = false;
  for (unsigned i = 0; i < h.e_phnum; i++) {
    Elf64_Phdr segment;
    if (native(sys::pread64, fd, &segment, sizeof segment, h.e_phoff + i * sizeof segment) != sizeof segment ||
        segment.p_type == PT_INTERP)
      return false;
    loads = loads || segment.p_type == PT_LOAD;
  }
  return loads;
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace

// The name of the interpreter in a script's first line, which ends at a null byte; `argument` becomes what follows it,
// or null. Null: the line has no name.
static char* parse_script(char* line, char** argument) {
  char* end = line;
  while (*end && *end != '\n') end++;
  while (end > line && is_blank(end[-1])) end--;
  *end = 0;
  char* name = line + 2;
  while (is_blank(*name)) name++;
  char* behind = name;
  while (*behind && !is_blank(*behind)) behind++;
  *argument = nullptr;
  if (*behind) {
    *behind++ = 0;
    while (is_blank(*behind)) behind++;
    *argument = behind;
  }
  return *name ? name : nullptr;
}

Executable::Executable(long call, const uint64_t* a) {
  const bool by_descriptor = call == sys::execveat;
  const char* path = (const char*)(by_descriptor ? a[1] : a[0]);
  long directory = by_descriptor ? (long)(int)a[0] : AT_FDCWD;
  const OwnProgram own(path);
  for (unsigned depth = 0; depth < kMostScripts; depth++) {
    const bool itself = depth == 0 && by_descriptor && a[4] & AT_EMPTY_PATH && !path[0];
    const DescriptorLink link((int)directory);
    const char* name = itself ? link.text : depth == 0 && own.path() ? own.path() : path;
    const long fd = native(sys::openat, directory, name, O_RDONLY | O_CLOEXEC, 0);
    FileStat st;
    if (failed(fd)) return;
    char* const line = lines_[depth];
    const long got = native(sys::pread64, fd, line, kLongestLine, 0);
    const bool script = got > 2 && line[0] == '#' && line[1] == '!';
    if (failed(native(sys::fstat, fd, &st)) || !is_regular(st) || changes_rights((int)fd, st) ||
        (!script && !is_static((int)fd))) {
      native(sys::close, fd);
      return;
    }
    if (!script) {
      fd_ = (int)fd;
      return;
    }
    native(sys::close, fd);
    line[got] = 0;
    char* argument;
    if (depth == 0) words_[count_++] = itself ? nullptr : path;
    path = parse_script(line, &argument);
    if (!path || (depth == 0 && !words_[0])) return;
    if (argument) words_[count_++] = argument;
    words_[count_++] = path;
    directory = AT_FDCWD;
  }
}

Executable::~Executable() {
  if (fd_ >= 0) native(sys::close, fd_);
}

}  // namespace friday::shim
