// Extended attributes: all twelve calls, on a file, a link and a descriptor, with room too small and none asked for; and the
// four that take a directory, where the kernel has them.
#include <fcntl.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "check.h"

static int supported(void) {
  if (setxattr("attributed", "user.friday", "value", 5, 0) == 0) return 1;
  CHECK(errno == ENOTSUP || errno == EPERM || errno == ENOSPC);
  return 0;
}

static void at_calls(void) {
  struct {
    uint64_t value;
    uint32_t size, flags;
  } arguments = {(uint64_t) "other", 5, 0};
  char value[32] = "", list[128] = "";
  if (syscall(463, AT_FDCWD, "attributed", 0, "user.at", &arguments, sizeof arguments) != 0) {
    CHECK(errno == ENOSYS || errno == EPERM);
    return;
  }
  arguments.value = (uint64_t)value, arguments.size = sizeof value;
  CHECK(syscall(464, AT_FDCWD, "attributed", 0, "user.at", &arguments, sizeof arguments) == 5 && memcmp(value, "other", 5) == 0);
  long n = syscall(465, AT_FDCWD, "attributed", 0, list, sizeof list);
  CHECK(n > 0 && memmem(list, (size_t)n, "user.at", 8));
  CHECK(syscall(466, AT_FDCWD, "attributed", 0, "user.at") == 0);
}

int main(void) {
  int fd = open("attributed", O_RDWR | O_CREAT, 0600);
  char value[64] = "", list[256];
  CHECK(fd >= 0 && symlink("attributed", "attributed-link") == 0);
  const int has = supported();
  printf("%s\n", has ? "with attributes" : "without");
  if (has) {
    CHECK(getxattr("attributed", "user.friday", value, sizeof value) == 5 && memcmp(value, "value", 5) == 0);
    CHECK(getxattr("attributed", "user.friday", NULL, 0) == 5 && getxattr("attributed", "user.friday", value, 2) == -1 && errno == ERANGE);
    CHECK(getxattr("attributed-link", "user.friday", value, 0) == 5 && getxattr("attributed", "user.none", value, 9) == -1 && errno == ENODATA);
    CHECK(fsetxattr(fd, "user.second", "22", 2, XATTR_CREATE) == 0 && fsetxattr(fd, "user.second", "22", 2, XATTR_CREATE) == -1 && errno == EEXIST);
    CHECK(fgetxattr(fd, "user.second", value, sizeof value) == 2 && memcmp(value, "22", 2) == 0);
    ssize_t n = flistxattr(fd, list, sizeof list);
    CHECK(n > 0 && memmem(list, (size_t)n, "user.friday", 12) && memmem(list, (size_t)n, "user.second", 12));
    CHECK(listxattr("attributed", list, sizeof list) == n && listxattr("attributed", NULL, 0) == n);
    CHECK(llistxattr("attributed-link", list, sizeof list) >= 0);
    CHECK(lsetxattr("attributed-link", "user.link", "x", 1, 0) == -1 && lgetxattr("attributed", "user.friday", value, 64) == 5);
    at_calls();
    CHECK(fremovexattr(fd, "user.second") == 0 && lremovexattr("attributed", "user.friday") == 0);
    CHECK(removexattr("attributed", "user.friday") == -1 && errno == ENODATA);
  } else {
    fgetxattr(fd, "user.a", value, 4), fsetxattr(fd, "user.a", "b", 1, 0), flistxattr(fd, list, 100), fremovexattr(fd, "user.a");
    getxattr("attributed", "user.a", value, 4), listxattr("attributed", list, 100), removexattr("attributed", "user.a");
    lgetxattr("attributed", "user.a", value, 4), llistxattr("attributed", list, 9), lremovexattr("attributed", "user.a");
    lsetxattr("attributed", "user.a", "b", 1, 0), at_calls();
  }
  CHECK(unlink("attributed") == 0 && unlink("attributed-link") == 0);
  return success();
}
