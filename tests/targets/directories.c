// Names in the file system: made, linked, moved, opened in every way, listed, stated, timed, owned, and the same relative to a directory.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <utime.h>

#include "check.h"

static void make(const char *name) {
  int fd = (int)syscall(SYS_creat, name, 0600);
  CHECK(fd >= 0 && write(fd, name, strlen(name)) == (ssize_t)strlen(name) && close(fd) == 0);
}

static void listing(int dir) {
  char entries[4096];
  long n, bytes = 0;
  while ((n = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0) bytes += n;
  CHECK(n == 0 && bytes > 0 && lseek(dir, 0, SEEK_SET) == 0);
  n = syscall(SYS_getdents, dir, entries, sizeof entries);
  CHECK(n > 0 && lseek(dir, 0, SEEK_SET) == 0);
}

static void names(int dir) {
  char text[256];
  struct stat st;
  make("d/one");
  CHECK(link("d/one", "d/two") == 0 && linkat(dir, "two", dir, "three", 0) == 0 && stat("d/one", &st) == 0 && st.st_nlink == 3);
  CHECK(symlink("one", "d/soft") == 0 && symlinkat("two", dir, "softer") == 0 && readlink("d/soft", text, sizeof text) == 3);
  CHECK(readlinkat(dir, "softer", text, sizeof text) == 3 && memcmp(text, "two", 3) == 0 && lstat("d/soft", &st) == 0 && S_ISLNK(st.st_mode));
  CHECK(syscall(SYS_rename, "d/one", "d/first") == 0 && renameat(dir, "two", dir, "second") == 0);
  CHECK(syscall(SYS_renameat2, dir, "first", dir, "second", 1u /* RENAME_NOREPLACE */) == -1 && (errno == EEXIST || errno == EINVAL));
  CHECK(syscall(SYS_renameat2, dir, "first", dir, "third", 0u) == 0);
  CHECK(mkdirat(dir, "inner", 0700) == 0 && syscall(SYS_mkdir, "d/other", 0700) == 0 && syscall(SYS_rmdir, "d/other") == 0);
  CHECK(mkfifo("d/fifo", 0600) == 0 && mknodat(dir, "node", S_IFREG | 0600, 0) == 0 && syscall(SYS_mknod, "d/node2", S_IFREG | 0600, 0) == 0);
  listing(dir);
}

static void about(int dir) {
  struct statx x;
  struct statfs fs;
  struct stat st;
  CHECK(statx(dir, "third", AT_SYMLINK_NOFOLLOW, STATX_ALL, &x) == 0 && x.stx_size == 5 && statfs("d", &fs) == 0 && fstatfs(dir, &fs) == 0 && fs.f_bsize > 0);
  CHECK(syscall(SYS_stat, "d", &st) == 0 && fstatat(dir, "third", &st, 0) == 0 && st.st_size == 5);
  struct {
    int free;
    char rest[28];
  } old;
  syscall(SYS_ustat, st.st_dev, &old);
  CHECK(access("d/third", R_OK) == 0 && faccessat(dir, "third", W_OK, 0) == 0 && faccessat(dir, "none", F_OK, AT_EACCESS) == -1 && errno == ENOENT);
  syscall(SYS_faccessat2, dir, "third", R_OK, AT_EACCESS);
  CHECK(syscall(SYS_chmod, "d/third", 0640) == 0 && fchmodat(dir, "third", 0600, 0) == 0);
  CHECK(syscall(452 /* fchmodat2 */, dir, "third", 0644, 0) == 0 || errno == ENOSYS);
  CHECK(chown("d/third", getuid(), getgid()) == 0 && lchown("d/soft", getuid(), getgid()) == 0 && fchownat(dir, "third", getuid(), getgid(), 0) == 0);
  struct utimbuf seconds = {1000, 2000};
  struct timeval micro[2] = {{3000, 1}, {4000, 2}};
  struct timespec nano[2] = {{5000, 3}, {0, UTIME_OMIT}};
  CHECK(syscall(SYS_utime, "d/third", &seconds) == 0 && stat("d/third", &st) == 0 && st.st_mtime == 2000);
  CHECK(syscall(SYS_utimes, "d/third", micro) == 0 && syscall(SYS_futimesat, dir, "third", micro) == 0 && utimensat(dir, "third", nano, 0) == 0);
  CHECK(stat("d/third", &st) == 0 && st.st_atime == 5000 && st.st_mtime == 4000);
  char attributes[64] = {0};
  CHECK(syscall(468 /* file_getattr */, dir, "third", attributes, 24L, 0) == 0 || errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOTTY);
  CHECK(syscall(469 /* file_setattr */, dir, "none-such", attributes, 24L, 0) == -1);
}

static void openings(int dir) {
  struct open_how how = {.flags = O_RDWR, .resolve = RESOLVE_BENEATH};
  char text[64];
  int fd = (int)syscall(SYS_openat2, dir, "third", &how, sizeof how);
  CHECK(fd >= 0 || errno == ENOSYS || errno == EPERM);
  if (fd >= 0) {
    CHECK(read(fd, text, sizeof text) == 5 && memcmp(text, "d/one", 5) == 0 && close(fd) == 0);
    CHECK(syscall(SYS_openat2, dir, "../d/third", &how, sizeof how) == -1 && errno == EXDEV);
  }
  fd = openat(dir, "third", O_PATH);
  CHECK(fd >= 0 && read(fd, text, 1) == -1 && errno == EBADF && close(fd) == 0);
  fd = openat(dir, ".", O_TMPFILE | O_RDWR, 0600);
  CHECK(fd >= 0 ? write(fd, "temporary", 9) == 9 && close(fd) == 0 : 1);
  struct {
    struct file_handle head;
    char bytes[128];
  } handle = {.head = {.handle_bytes = 0}};
  int mount = -1;
  long long mount_64 = -1;
  CHECK(name_to_handle_at(dir, "third", &handle.head, &mount, 0) == -1);
  printf("handle %s\n", errno == EOVERFLOW ? "too long" : strerror(errno));
  if (errno == EOVERFLOW) {
    CHECK(handle.head.handle_bytes > 0 && handle.head.handle_bytes <= 128 && name_to_handle_at(dir, "third", &handle.head, &mount, 0) == 0 && mount >= 0);
    syscall(SYS_name_to_handle_at, dir, "third", &handle.head, &mount_64, 1 /* AT_HANDLE_MNT_ID_UNIQUE */);
  }
  fd = open_by_handle_at(dir, &handle.head, O_RDONLY);
  CHECK(fd >= 0 ? read(fd, text, 64) == 5 && close(fd) == 0 : 1);
  CHECK(truncate("d/third", 100) == 0 && (fd = open("d/third", O_RDWR)) >= 0 && ftruncate(fd, 50) == 0 && fchmod(fd, 0600) == 0 && fchown(fd, getuid(), getgid()) == 0);
  CHECK(fallocate(fd, 0, 0, 10000) == 0 || errno == EOPNOTSUPP);
  unsigned flags = 0;
  int block = 0;
  CHECK(syscall(SYS_ioctl, fd, 0x80086601 /* FS_IOC_GETFLAGS */, &flags) == 0 || errno == ENOTTY || errno == EOPNOTSUPP);
  CHECK(syscall(SYS_ioctl, fd, 2 /* FIGETBSZ */, &block) == 0 ? block > 0 : 1);
  struct {
    unsigned long long start, length;
    unsigned flags, mapped, count, reserved;
    struct {
      unsigned long long words[7];
    } extents[8];
  } map = {.length = ~0ull, .flags = 1 /* FIEMAP_FLAG_SYNC */, .count = 8};
  if (syscall(SYS_ioctl, fd, 0xc020660b /* FS_IOC_FIEMAP */, &map) == 0) printf("%d extents, first of %d blocks\n", map.mapped > 0, map.mapped && map.extents[0].words[2] > 0);
  CHECK(close(fd) == 0);
}

static void places(int dir) {
  char before[4096], here[4096];
  CHECK(syscall(SYS_getcwd, before, sizeof before) > 0 && chdir("d") == 0 && getcwd(here, sizeof here) && strncmp(here, before, strlen(before)) == 0);
  CHECK(fchdir(dir) == 0 && chdir(before) == 0 && getcwd(here, 2) == NULL && errno == ERANGE);
}

int main(void) {
  CHECK(mkdir("d", 0700) == 0);
  int dir = open("d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  CHECK(dir >= 0);
  names(dir);
  about(dir);
  openings(dir);
  places(dir);
  const char *left[] = {"second", "third", "three", "soft", "softer", "fifo", "node", "node2"};
  for (unsigned i = 0; i < sizeof left / sizeof *left; i++) CHECK(unlinkat(dir, left[i], 0) == 0);
  CHECK(unlinkat(dir, "inner", AT_REMOVEDIR) == 0 && close(dir) == 0 && rmdir("d") == 0);
  syscall(SYS_sync);
  return success();
}
