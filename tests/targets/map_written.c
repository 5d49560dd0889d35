// Files that are mapped shared and changed by calls: the mapping shows at once what a call has put where, cleared, moved or cut off.
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/openat2.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "check.h"

enum { kPage = 4096, kPages = 16 };

static char name[] = "written-XXXXXX";
static int file;
static char* mapped;

static int again(int flags) {
  int fd = open(name, O_RDWR | flags);
  CHECK(fd >= 0);
  return fd;
}

static void fresh(off_t size) {
  CHECK(ftruncate(file, 0) == 0 && ftruncate(file, size) == 0 && lseek(file, 0, SEEK_SET) == 0);
}

static void appends(void) {
  fresh(4);
  const struct iovec two[2] = {{"bb", 2}, {"cc", 2}};
  int fd = again(O_APPEND);
  CHECK(write(fd, "aa", 2) == 2 && !strcmp(mapped + 4, "aa"));
  CHECK(writev(fd, two, 2) == 4 && !strcmp(mapped + 4, "aabbcc"));
  CHECK(pwrite(fd, "dd", 2, 0) == 2 && !strcmp(mapped + 4, "aabbccdd"));
  CHECK(pwritev(fd, two, 2, 1) == 4 && !strcmp(mapped + 4, "aabbccddbbcc"));
  CHECK(pwritev2(file, two, 2, 0, RWF_APPEND) == 4 && !strcmp(mapped + 16, "bbcc"));
  CHECK(pwritev2(file, two, 1, -1, RWF_APPEND) == 2 && !strcmp(mapped + 20, "bb"));
  CHECK(write(file, "ee", 2) == 2 && !strcmp(mapped + 22, "ee"));
  CHECK(pwritev2(file, two, 1, 2, 0) == 2 && !memcmp(mapped, "\0\0bbaa", 6));
  CHECK(close(fd) == 0 && (fd = again(0)) >= 0 && lseek(fd, 1, SEEK_SET) == 1);
  CHECK(fcntl(fd, F_SETFL, O_APPEND) == 0 && write(fd, "ff", 2) == 2 && pwrite(fd, "gg", 2, 3) == 2 && !strcmp(mapped + 24, "ffgg"));
  CHECK(fcntl(fd, F_SETFL, 0) == 0 && pwrite(fd, "h", 1, 0) == 1 && mapped[0] == 'h' && close(fd) == 0);
}

// One letter a page.
static void check_pages(const char* letters) {
  CHECK(lseek(file, 0, SEEK_END) == (off_t)(strlen(letters) * kPage));
  for (int i = 0; letters[i]; i++)
    for (int at = 0; at < kPage; at += 1365) CHECK(mapped[i * kPage + at] == (letters[i] == '.' ? 0 : letters[i]));
}

static int allocates(int mode, off_t offset, off_t length) {
  if (fallocate(file, mode, offset, length) == 0) return 1;
  CHECK(errno == EOPNOTSUPP);  // not all file systems can do it
  return 0;
}

static void allocations(void) {
  fresh(6 * kPage);
  for (int i = 0; i < 6; i++) memset(mapped + i * kPage, 'a' + i, kPage);
  if (!allocates(FALLOC_FL_COLLAPSE_RANGE, kPage, kPage)) return;
  check_pages("acdef");
  if (!allocates(FALLOC_FL_INSERT_RANGE, 2 * kPage, 2 * kPage)) return;
  check_pages("ac..def");
  if (!allocates(FALLOC_FL_ZERO_RANGE, 5 * kPage, 3 * kPage)) return;
  check_pages("ac..d...");
  CHECK(allocates(FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 4 * kPage, 9 * kPage));
  check_pages("ac......");
  CHECK(allocates(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage));
  check_pages(".c......");
  CHECK(allocates(FALLOC_FL_KEEP_SIZE, 8 * kPage, kPage));
  check_pages(".c......");
  CHECK(allocates(0, 8 * kPage, kPage));
  mapped[8 * kPage] = 'z';
  CHECK(lseek(file, 0, SEEK_END) == 9 * kPage);
}

// Stores behind the end of a file, which then grows: whether they are in it depends on the file system.
static void grows(void) {
  for (int way = 0; way < 5; way++) {
    fresh(100);
    memset(mapped, 's', kPage);
    if (way == 0) CHECK(ftruncate(file, 2 * kPage) == 0);
    if (way == 1) CHECK(truncate(name, 300) == 0);
    if (way == 2) CHECK(pwrite(file, "w", 1, kPage + 5) == 1);
    if (way == 3) CHECK(pwrite(file, "w", 1, 200) == 1);
    if (way == 4) CHECK(allocates(0, 250, 50));
    printf("%d: %d %d %d\n", way, mapped[99], mapped[100], mapped[199]);
  }
}

static sigjmp_buf back;
static void on_bus(int signal) { (void)signal, siglongjmp(back, 1); }

// A mapping that grows does not make its file longer.
static void larger_mapping(void) {
  fresh(0);
  CHECK(signal(SIGBUS, on_bus) != SIG_ERR && munmap(mapped + 4 * kPage, (kPages - 4) * kPage) == 0);
  char* larger = mremap(mapped, 4 * kPage, kPages * kPage, MREMAP_MAYMOVE);
  CHECK(larger != MAP_FAILED && pwrite(file, "short", 5, kPage) == 5);
  mapped = larger;
  volatile int fault = 0;
  if (sigsetjmp(back, 1)) fault = 1;
  else mapped[2 * kPage] = 1;
  CHECK(fault && mapped[kPage] == 's');
}

static void copies(void) {
  fresh(2 * kPage);
  memset(mapped, 'o', 2 * kPage);
  int from = open("/proc/self/exe", O_RDONLY);
  CHECK(from >= 0 && sendfile(file, from, NULL, 1000) == 1000 && !memcmp(mapped, "\177ELF", 4) && mapped[1000] == 'o' && close(from) == 0);
  int pipes[2];
  loff_t to = 3000;
  CHECK(pipe(pipes) == 0 && write(pipes[1], "through a pipe", 14) == 14);
  CHECK(splice(pipes[0], NULL, file, &to, 14, 0) == 14 && !memcmp(mapped + 2999, "othrough a pipeo", 16));
  loff_t out = 5000, in = 3000;
  CHECK(copy_file_range(file, &in, file, &out, 14, 0) == 14 && !memcmp(mapped + 4999, "othrough a pipeo", 16));
}

static void cut_off(void) {
  fresh(100);
  memset(mapped, 'x', 100);
  struct open_how how = {.flags = O_RDWR | O_TRUNC};
  long fd = syscall(SYS_openat2, AT_FDCWD, name, &how, sizeof how);
  CHECK(fd >= 0 && ftruncate(file, 100) == 0 && mapped[0] == 0 && mapped[99] == 0);
  memset(mapped, 'y', 100);
  CHECK(close(creat(name, 0600)) == 0 && ftruncate((int)fd, 100) == 0 && mapped[0] == 0 && close((int)fd) == 0);
}

// What a call puts into a file that nobody may read, and that it has open for writing only.
static void unreadable(void) {
  fresh(kPage);
  int pipes[2], fd = open(name, O_WRONLY);
  CHECK(fd >= 0 && pipe(pipes) == 0 && write(pipes[1], "unseen", 6) == 6 && fchmod(file, 0) == 0);
  CHECK(geteuid() != 0 || seteuid(65534) == 0);
  CHECK(splice(pipes[0], NULL, fd, NULL, 6, 0) == 6 && !strcmp(mapped, "unseen"));
  CHECK(getuid() != 0 || seteuid(0) == 0);
}

int main(int count, char** arguments) {
  file = mkstemp(name);
  CHECK(file >= 0 && ftruncate(file, kPages * kPage) == 0);
  mapped = mmap(NULL, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(mapped != MAP_FAILED);
  if (count == 2 && !strcmp(arguments[1], "unreadable")) {
    unreadable();
  } else {
    appends();
    allocations();
    grows();
    larger_mapping();
    copies();
    cut_off();
  }
  CHECK(unlink(name) == 0);
  return success();
}
