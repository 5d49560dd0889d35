// Calls about memory that calls of their own leave as it is, and those that do not: locks, residency, advice, policies, memfds.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <linux/membarrier.h>

#include "check.h"

#define PAGE 4096

static char *pages(int count) {
  char *p = mmap(NULL, (size_t)count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  memset(p, 'm', (size_t)count * PAGE);
  return p;
}

static void locks(void) {
  char *p = pages(4);
  unsigned char resident[4] = {0};
  CHECK(mlock(p, 2 * PAGE) == 0 || errno == ENOMEM || errno == EPERM);
  CHECK(mlock2(p + PAGE, PAGE, MLOCK_ONFAULT) == 0 || errno == ENOMEM || errno == EPERM);
  CHECK(mincore(p, 4 * PAGE, resident) == 0 && (resident[0] & 1) && munlock(p, 4 * PAGE) == 0 && msync(p, PAGE, MS_ASYNC) == 0);
  CHECK(mlockall(MCL_FUTURE | MCL_ONFAULT) == 0 || errno == ENOMEM || errno == EPERM);
  CHECK(munlockall() == 0 && munmap(p, 4 * PAGE) == 0);
}

static void advice(void) {
  const int harmless[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL, MADV_WILLNEED, 12 /* MERGEABLE */, 13, 14 /* HUGEPAGE */, 15, 16 /* DONTDUMP */, 17, 20 /* COLD */, 22, 23};
  char *p = pages(6);
  for (unsigned i = 0; i < sizeof harmless / sizeof *harmless; i++) {
    CHECK(madvise(p, 2 * PAGE, harmless[i]) == 0 || errno == EINVAL);
    CHECK(p[0] == 'm' && p[PAGE] == 'm');
  }
  CHECK(madvise(p, PAGE, MADV_DONTNEED) == 0 && p[0] == 0 && p[PAGE] == 'm');
  // A gap: what is on both sides is dropped all the same.
  CHECK(munmap(p + 3 * PAGE, PAGE) == 0 && madvise(p + 2 * PAGE, 3 * PAGE, MADV_DONTNEED) == -1 && errno == ENOMEM);
  printf("%d %d %d\n", p[2 * PAGE], p[4 * PAGE], p[5 * PAGE]);
  CHECK(p[2 * PAGE] == 0 && p[4 * PAGE] == 0 && p[5 * PAGE] == 'm');
  CHECK(mlock(p + 5 * PAGE, PAGE) == 0 || errno == ENOMEM || errno == EPERM);
  if (madvise(p + 5 * PAGE, PAGE, 24 /* MADV_DONTNEED_LOCKED */) == 0) CHECK(p[5 * PAGE] == 0);
  CHECK(madvise(p + PAGE, PAGE, MADV_FREE) == 0 && (p[PAGE] == 0 || p[PAGE] == 'm'));
  p[PAGE] = 'f';
  CHECK(madvise(p, PAGE, 9999) == -1 && errno == EINVAL && p[PAGE] == 'f');
  memset(p, 'g', PAGE);
  if (madvise(p, PAGE, 102 /* MADV_GUARD_INSTALL */) == 0) CHECK(madvise(p, PAGE, 103 /* MADV_GUARD_REMOVE */) == 0 && p[0] == 0);
  int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
  memset(p, 'h', PAGE);
  struct iovec range = {p, PAGE};
  long n = syscall(SYS_process_madvise, self, &range, 1, 20 /* MADV_COLD */, 0);
  CHECK(n == PAGE || n == -1);
  n = syscall(SYS_process_madvise, self, &range, 1, MADV_DONTNEED, 0);
  CHECK(n == PAGE ? p[0] == 0 : p[0] == 'h');
  CHECK(close(self) == 0 || self < 0);
}

// Access that the kernel refuses for a reason that lies outside the memory: a file that was opened for reading only. What stands before the refused page has the new access then, what stands behind it has not.
static void protections(void) {
  char *p = pages(16);
  const int file = open("/proc/self/exe", O_RDONLY);
  CHECK(file >= 0 && mmap(p + 11 * PAGE, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == p + 11 * PAGE && close(file) == 0);
  CHECK(mprotect(p, 11 * PAGE, PROT_READ) == 0 && mprotect(p + 12 * PAGE, PAGE, PROT_READ) == 0);
  CHECK(mprotect(p + 11 * PAGE, PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
  CHECK(mprotect(p, 16 * PAGE, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
  for (int i = 0; i < 11; i++) p[i * PAGE] = 'p';
  const int bytes = memfd_create("bytes", 0);
  CHECK(bytes >= 0 && write(bytes, "12", 2) == 2 && lseek(bytes, 0, SEEK_SET) == 0);
  CHECK(read(bytes, p + 12 * PAGE, 1) == -1 && errno == EFAULT && read(bytes, p + 10 * PAGE, 1) == 1 && close(bytes) == 0);
  CHECK(munmap(p, 16 * PAGE) == 0);
}

static void policies(void) {
  char *p = pages(2);
  unsigned long nodes[16], mode_nodes = 1;
  int mode = -1, status[2] = {99, 99};
  memset(nodes, 0xff, sizeof nodes);
  if (syscall(SYS_get_mempolicy, &mode, nodes, 64L, NULL, 0L) != 0) CHECK(errno == ENOSYS || errno == EPERM || errno == EINVAL);
  memset(nodes, 0xff, sizeof nodes);
  if (syscall(SYS_get_mempolicy, &mode, nodes, 1024L, NULL, 4L /* MPOL_F_MEMS_ALLOWED */) == 0) CHECK(nodes[0] & 1 && nodes[15] == 0);
  CHECK(syscall(SYS_mbind, p, 2L * PAGE, 0L, NULL, 0L, 0L) == 0 || errno == ENOSYS || errno == EPERM);
  CHECK(syscall(SYS_set_mempolicy, 0L, NULL, 0L) == 0 || errno == ENOSYS || errno == EPERM);
  syscall(SYS_set_mempolicy_home_node, p, (long)PAGE, 0L, 0L), syscall(SYS_migrate_pages, 0, 64L, &mode_nodes, &mode_nodes);
  void *both[2] = {p, p + PAGE};
  CHECK(syscall(SYS_move_pages, 0, 2L, both, NULL, status, 0) == 0 ? status[0] >= 0 && status[1] >= 0 : 1);
}

static void others(void) {
  int fd = (int)syscall(SYS_memfd_create, "memory", MFD_CLOEXEC);
  CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0 && pwrite(fd, "content", 7, 100) == 7);
  char *p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(p != MAP_FAILED && memcmp(p + 100, "content", 7) == 0 && munmap(p, 2 * PAGE) == 0);
  struct {
    unsigned long long offset, length;
  } range = {0, 0};
  unsigned long long statistics[5];
  CHECK(syscall(451 /* cachestat */, fd, &range, statistics, 0) == 0 || errno == ENOSYS || errno == EOPNOTSUPP);
  CHECK(close(fd) == 0);
  CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) >= 0 || errno == ENOSYS);
  CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 || errno == EINVAL || errno == ENOSYS);
  CHECK(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0 || errno == EINVAL || errno == EPERM || errno == ENOSYS);
}

int main(void) {
  locks();
  advice();
  policies();
  others();
  protections();
  return success();
}
