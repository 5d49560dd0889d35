// Bytes moved without a buffer: splice, tee, vmsplice both ways, sendfile, copy_file_range; preadv2 and pwritev2.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "check.h"

int main(void) {
  int p[2], q[2], s[2];
  int from = open("splice-from", O_RDWR | O_CREAT | O_TRUNC, 0600), to = open("splice-to", O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(from >= 0 && to >= 0 && unlink("splice-from") == 0 && unlink("splice-to") == 0);
  CHECK(pipe(p) == 0 && pipe(q) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0);
  char text[64] = "", second[64] = "";
  CHECK(write(from, "0123456789abcdefghij", 20) == 20);

  loff_t at = 4, out = 3;
  CHECK(splice(from, &at, p[1], NULL, 6, 0) == 6 && at == 10);
  CHECK(tee(p[0], q[1], 100, 0) == 6 && tee(p[0], q[1], 2, SPLICE_F_NONBLOCK) == 2);
  CHECK(read(q[0], text, 8) == 8 && memcmp(text, "45678945", 8) == 0);
  CHECK(splice(p[0], NULL, to, &out, 6, SPLICE_F_MOVE) == 6 && out == 9 && lseek(to, 0, SEEK_CUR) == 0);
  CHECK(pread(to, text, 9, 0) == 9 && memcmp(text, "\0\0\0" "456789", 9) == 0);
  CHECK(splice(p[0], NULL, q[1], NULL, 5, SPLICE_F_NONBLOCK) == -1 && errno == EAGAIN);

  // What is given to a pipe may stand where nobody can write.
  char *fixed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(fixed != MAP_FAILED);
  strcpy(fixed, "never written");
  CHECK(mprotect(fixed, 4096, PROT_READ) == 0);
  struct iovec gift[2] = {{fixed, 5}, {"more text", 4}}, room[2] = {{text, 3}, {second, 60}};
  CHECK(vmsplice(p[1], gift, 2, 0) == 9);
  CHECK(vmsplice(p[0], room, 2, 0) == 9 && memcmp(text, "nev", 3) == 0 && memcmp(second, "ermore", 6) == 0);

  CHECK(lseek(from, 0, SEEK_SET) == 0);
  off_t where = 10;
  CHECK(sendfile(s[0], from, &where, 4) == 4 && where == 14 && sendfile(s[0], from, NULL, 3) == 3);
  CHECK(read(s[1], text, 64) == 7 && memcmp(text, "abcd012", 7) == 0);
  CHECK(splice(p[0], NULL, s[0], NULL, 4, SPLICE_F_NONBLOCK) == -1 && write(p[1], "pipe", 4) == 4);
  CHECK(splice(p[0], NULL, s[0], NULL, 4, 0) == 4 && splice(s[1], NULL, q[1], NULL, 4, 0) == 4);
  CHECK(read(q[0], text, 64) == 4 && memcmp(text, "pipe", 4) == 0);

  loff_t in = 2;
  out = 0;
  ssize_t n = copy_file_range(from, &in, to, &out, 5, 0);
  CHECK((n == 5 && in == 7 && out == 5) || (n == -1 && (errno == EXDEV || errno == EOPNOTSUPP || errno == ENOSYS)));
  if (n == 5) CHECK(pread(to, text, 5, 0) == 5 && memcmp(text, "23456", 5) == 0);
  CHECK(lseek(from, 3, SEEK_SET) == 3 && (copy_file_range(from, NULL, to, NULL, 5, 0) == 5 || n < 0));

  struct iovec parts[2] = {{text, 4}, {second, 10}}, words[2] = {{"ONE", 3}, {"three", 5}};
  CHECK(preadv2(from, parts, 2, 5, 0) == 14 && memcmp(text, "5678", 4) == 0 && memcmp(second, "9abcdefghi", 10) == 0);
  CHECK(pwritev2(to, words, 2, 1, RWF_DSYNC) == 8 && lseek(to, 0, SEEK_SET) == 0 && preadv2(to, parts, 2, -1, 0) >= 9 && memcmp(text + 1, "ONE", 3) == 0);
  CHECK(pwritev2(p[1], words, 2, -1, 0) == 8 && preadv2(p[0], parts, 2, -1, 0) == 8 && memcmp(text, "ONEt", 4) == 0);
  CHECK(pwritev2(s[1], words, 2, -1, 0) == 8 && preadv2(s[0], parts, 2, -1, 0) == 8 && memcmp(second, "hree", 4) == 0);
  n = preadv2(from, parts, 2, 0, RWF_NOWAIT);
  CHECK(n == 14 || (n == -1 && (errno == EAGAIN || errno == EOPNOTSUPP)));
  CHECK(preadv(from, parts, 2, 1) == 14 && pwritev(to, words, 2, 0) == 8 && readahead(from, 0, 4096) == 0);
  CHECK(fallocate(to, FALLOC_FL_KEEP_SIZE, 0, 8192) == 0 || errno == EOPNOTSUPP);
  CHECK(sync_file_range(to, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 || errno == ENOSYS);
  CHECK(posix_fadvise(to, 0, 0, POSIX_FADV_DONTNEED) == 0 && fdatasync(to) == 0 && fsync(to) == 0 && syncfs(to) == 0);
  return success();
}
