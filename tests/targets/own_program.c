// What a program finds out about itself: /proc/self/exe as a link, a file and a program to execute, its auxiliary
// vector, its name, its heap. With the argument "again" it is the program that was executed; with "script", the
// interpreter of a script.
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

static char own[PATH_MAX];

static void check_link(void) {
  char link[PATH_MAX] = "", by_pid[64];
  CHECK(readlink("/proc/self/exe", link, sizeof link - 1) > 0 && strcmp(link, own) == 0);
  snprintf(by_pid, sizeof by_pid, "/proc/%d/exe", (int)getpid());
  memset(link, 0, sizeof link);
  CHECK(readlinkat(AT_FDCWD, by_pid, link, sizeof link - 1) > 0 && strcmp(link, own) == 0);
  memset(link, 0, sizeof link);
  CHECK(readlink("/proc/thread-self/exe", link, sizeof link - 1) > 0 && strcmp(link, own) == 0);
  CHECK(readlink("/proc/self/exit", link, sizeof link - 1) < 0 && errno == ENOENT);
  // An answer that has no room is cut off, as usual.
  CHECK(readlink("/proc/self/exe", link, 3) == 3 && memcmp(link, own, 3) == 0);
}

static void check_file(void) {
  struct stat by_name, by_link;
  CHECK(stat(own, &by_name) == 0 && stat("/proc/self/exe", &by_link) == 0);
  CHECK(by_name.st_ino == by_link.st_ino && by_name.st_dev == by_link.st_dev && by_name.st_size == by_link.st_size);
  CHECK(lstat("/proc/self/exe", &by_link) == 0 && S_ISLNK(by_link.st_mode));
  CHECK(access("/proc/self/exe", X_OK) == 0);
  // It opens as the lowest descriptor, and no other stays open.
  const int lowest = dup(0);
  CHECK(lowest > 0 && close(lowest) == 0);
  for (int i = 0; i < 3; i++) {
    const int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    Elf64_Ehdr header;
    CHECK(fd == lowest && fstat(fd, &by_link) == 0 && by_link.st_ino == by_name.st_ino);
    CHECK(read(fd, &header, sizeof header) == sizeof header && memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
          close(fd) == 0);
  }
}

static void check_vector(void) {
  const Elf64_Phdr* headers = (const Elf64_Phdr*)getauxval(AT_PHDR);
  const unsigned long count = getauxval(AT_PHNUM), entry = getauxval(AT_ENTRY);
  int entered = 0;
  unsigned long first = 0;
  for (unsigned long i = 0; i < count; i++)
    if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0)
      first = (unsigned long)headers - sizeof(Elf64_Ehdr) - headers[i].p_vaddr;
  for (unsigned long i = 0; i < count; i++)
    entered |= headers[i].p_type == PT_LOAD && headers[i].p_flags & PF_X &&
               entry - first - headers[i].p_vaddr < headers[i].p_memsz;
  CHECK(entered && getauxval(AT_PHENT) == sizeof(Elf64_Phdr) && getauxval(AT_RANDOM) && getauxval(AT_SYSINFO_EHDR));
  CHECK(getenv("FRIDAY_PROGRAM") == NULL);
}

static int run(const char* path, char** words) {
  const pid_t child = fork();
  if (child == 0) {
    execv(path, words);
    _exit(99);
  }
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

int main(int argc, char** argv) {
  CHECK(argc >= 1);
  if (argc > 1 && strcmp(argv[1], "again") == 0) return argc == 3 && strcmp(argv[2], "one more word") == 0 ? 7 : 1;
  if (argc > 1 && strcmp(argv[1], "script word") == 0)
    return argc == 4 && strcmp(argv[2], "./own_program.script") == 0 && strcmp(argv[3], "last") == 0 &&
                   strcmp((char*)getauxval(AT_EXECFN), "./own_program.script") == 0
               ? 8
               : 1;
  CHECK(realpath(argv[0], own));
  char name[17] = "";
  CHECK(prctl(PR_GET_NAME, name) == 0 && strncmp(name, strrchr(own, '/') + 1, 15) == 0);
  char executed[PATH_MAX];
  CHECK(realpath((char*)getauxval(AT_EXECFN), executed) && strcmp(executed, own) == 0);
  check_link();
  check_file();
  check_vector();
  char* const before = (char*)syscall(SYS_brk, 0);  // musl's own function only tells where the heap ends
  CHECK((char*)syscall(SYS_brk, before + (1 << 20)) == before + (1 << 20) && memset(before, 1, 1 << 20));
  CHECK((char*)syscall(SYS_brk, before) == before);
  char* words[] = {argv[0], "again", "one more word", NULL};
  CHECK(run("/proc/self/exe", words) == 7 && run(own, words) == 7);
  char line[PATH_MAX + 32];
  const int script = open("own_program.script", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
  const int size = snprintf(line, sizeof line, "#! %s script word \n", own);
  CHECK(script >= 0 && write(script, line, (size_t)size) == size && close(script) == 0);
  char* script_words[] = {"left out", "last", NULL};
  // The kernel cuts the first line off behind 255 bytes.
  CHECK((size > 255 || run("./own_program.script", script_words) == 8) && unlink("own_program.script") == 0);
  return success();
}
