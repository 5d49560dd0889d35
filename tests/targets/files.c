// File and directory calls in a directory of its own.
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>

#include "check.h"

static void contents(void) {
  int fd = open("a", O_RDWR | O_CREAT | O_EXCL, 0640);
  CHECK(fd >= 0 && open("a", O_RDWR | O_CREAT | O_EXCL, 0640) == -1 && errno == EEXIST);
  char block[70000], back[70000];
  for (unsigned i = 0; i < sizeof block; i++) block[i] = (char)(i * 7);
  CHECK(write(fd, block, sizeof block) == sizeof block);
  CHECK(lseek(fd, 0, SEEK_CUR) == sizeof block && lseek(fd, 100, SEEK_SET) == 100);
  CHECK(read(fd, back, 50) == 50 && memcmp(back, block + 100, 50) == 0);
  CHECK(pread(fd, back, sizeof back, 0) == sizeof back && memcmp(back, block, sizeof back) == 0);
  CHECK(pwrite(fd, "hello", 5, 69998) == 5 && lseek(fd, 0, SEEK_CUR) == 150);
  struct iovec parts[3] = {{back, 10}, {back + 100, 0}, {back + 200, 20}};
  CHECK(readv(fd, parts, 3) == 30 && memcmp(back, block + 150, 10) == 0 && memcmp(back + 200, block + 160, 20) == 0);
  CHECK(writev(fd, parts, 3) == 30 && preadv(fd, parts, 3, 5) == 30 && pwritev(fd, parts, 3, 0) == 30);
  struct stat st;
  CHECK(fstat(fd, &st) == 0 && st.st_size == 70003 && (st.st_mode & 0777) == 0640);
  CHECK(ftruncate(fd, 10) == 0 && read(fd, back, 1) == 0);
  CHECK(posix_fallocate(fd, 0, 4096) == 0 && fsync(fd) == 0 && fdatasync(fd) == 0);
  CHECK(flock(fd, LOCK_EX) == 0 && flock(fd, LOCK_UN) == 0);
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
  CHECK(fcntl(fd, F_SETLK, &lock) == 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK);
  CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR && fcntl(fd, F_SETFL, O_APPEND) == 0 && (fcntl(fd, F_GETFL) & O_APPEND));
  int copy = dup(fd);
  CHECK(copy >= 0 && lseek(copy, 3, SEEK_SET) == 3 && lseek(fd, 0, SEEK_CUR) == 3);
  CHECK(close(copy) == 0 && close(fd) == 0 && close(fd) == -1 && errno == EBADF);
}

static void names(void) {
  struct stat st;
  struct statx stx;
  CHECK(stat("a", &st) == 0 && access("a", R_OK) == 0 && access("absent", F_OK) == -1 && errno == ENOENT);
  CHECK(statx(AT_FDCWD, "a", 0, STATX_BASIC_STATS, &stx) == 0 && stx.stx_size == (unsigned long)st.st_size);
  CHECK(rename("a", "b") == 0 && link("b", "c") == 0 && stat("b", &st) == 0 && st.st_nlink == 2);
  CHECK(symlink("b", "s") == 0 && lstat("s", &st) == 0 && S_ISLNK(st.st_mode));
  char target[16];
  CHECK(readlink("s", target, sizeof target) == 1 && target[0] == 'b');
  CHECK(chmod("b", 0600) == 0 && mkdir("d", 0700) == 0 && mkdir("d", 0700) == -1 && errno == EEXIST);
  const mode_t mask = umask(022);
  CHECK(umask(mask) == 022);
  struct timespec times[2] = {{1000000000, 5}, {1000000001, 6}};
  CHECK(utimensat(AT_FDCWD, "b", times, 0) == 0 && stat("b", &st) == 0 && st.st_mtim.tv_sec == 1000000001);
  for (int i = 0; i < 200; i++) {
    char name[32];
    snprintf(name, sizeof name, "d/file-%03d", i);
    CHECK(close(creat(name, 0600)) == 0);
  }
  DIR* dir = opendir("d");
  CHECK(dir);
  int entries = 0;
  while (readdir(dir)) entries++;
  CHECK(entries == 202 && closedir(dir) == 0 && rmdir("d") == -1 && errno == ENOTEMPTY);
  for (int i = 0; i < 200; i++) {
    char name[32];
    snprintf(name, sizeof name, "d/file-%03d", i);
    CHECK(unlink(name) == 0);
  }
  char here[4096], there[4096];
  CHECK(getcwd(here, sizeof here) && chdir("d") == 0 && getcwd(there, sizeof there) && strlen(there) == strlen(here) + 2);
  CHECK(chdir("..") == 0 && rmdir("d") == 0 && unlink("b") == 0 && unlink("c") == 0 && unlink("s") == 0);
  struct statfs fs;
  CHECK(statfs(".", &fs) == 0 && fs.f_bsize > 0);
}

static void streams(void) {
  FILE* file = fopen("lines", "w+");
  CHECK(file);
  for (int i = 0; i < 20000; i++) CHECK(fprintf(file, "line %d\n", i) > 0);
  rewind(file);
  char line[64];
  int lines = 0;
  while (fgets(line, sizeof line, file)) lines++;
  CHECK(lines == 20000 && fclose(file) == 0 && unlink("lines") == 0);
}

int main(void) {
  char directory[] = "files-XXXXXX";
  CHECK(mkdtemp(directory) && chdir(directory) == 0);
  contents();
  names();
  streams();
  CHECK(chdir("..") == 0 && rmdir(directory) == 0);
  return success();
}
