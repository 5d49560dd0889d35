// A child answers its parent's requests, each with a line that it writes and a body that goes another WAY; both name what they
// expect, so bytes that went astray are seen. The connection is kept: what follows a body must still be found.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "check.h"

enum { kRounds = 5, kBody = 3000 };
static const char* way;
static int is(const char* name) { return strcmp(way, name) == 0; }

static char body_byte(int round, int at) { return (char)('a' + (round * 7 + at) % 26); }

static void write_all(int fd, const char* from, size_t size) {
  while (size) {
    const ssize_t done = write(fd, from, size);
    CHECK(done > 0);
    from += done;
    size -= (size_t)done;
  }
}

// A file that holds the body, at its beginning.
static int body_file(const char* body) {
  const int fd = memfd_create("body", 0);
  CHECK(fd >= 0);
  write_all(fd, body, kBody);
  CHECK(lseek(fd, 0, SEEK_SET) == 0);
  return fd;
}

static aio_context_t context;

// Asks for two halves of a body at once, and hears of both afterwards; how many bytes were moved.
static long ask(int fd, int opcode, char* bytes, size_t size) {
  struct iocb halves[2] = {{.aio_data = 1, .aio_lio_opcode = (unsigned short)opcode, .aio_fildes = (unsigned)fd, .aio_buf = (unsigned long)bytes, .aio_nbytes = size / 2}};
  struct iocb* list[2] = {&halves[0], &halves[1]};
  halves[1] = halves[0];
  halves[1].aio_buf += size / 2;
  halves[1].aio_nbytes = size - size / 2;
  CHECK(syscall(SYS_io_submit, context, 2, list) == 2);
  long sum = 0;
  for (int n = 0, got; n < 2; n += got) {
    struct io_event done[2];
    CHECK((got = (int)syscall(SYS_io_getevents, context, 1, 2, done, NULL)) >= 1);
    for (int i = 0; i < got; i++) {
      CHECK(done[i].res > 0);
      sum += done[i].res;
    }
  }
  return sum;
}

static void send_body(int to, int round) {
  static char body[kBody];
  for (int i = 0; i < kBody; i++) body[i] = body_byte(round, i);
  int through[2];
  CHECK(pipe(through) == 0);
  if (is("sendfile")) {
    const int file = body_file(body);
    off_t at = 0;
    while (at < kBody) CHECK(sendfile(to, file, &at, 1024) > 0);
    CHECK(close(file) == 0);
  } else if (is("splice")) {
    write_all(through[1], body, kBody);
    for (int left = kBody; left;) {
      const ssize_t done = splice(through[0], NULL, to, NULL, (size_t)left, 0);
      CHECK(done > 0);
      left -= (int)done;
    }
  } else if (is("tee")) {
    write_all(through[1], body, kBody);
    CHECK(tee(through[0], to, kBody, 0) == kBody);
  } else if (is("vmsplice")) {
    struct iovec parts[2] = {{body, 1000}, {body + 1000, kBody - 1000}};
    CHECK(vmsplice(to, parts, 2, 0) == kBody);
  } else if (is("aio")) {
    CHECK(ask(to, IOCB_CMD_PWRITE, body, kBody) == kBody);
  } else {
    write_all(to, body, kBody);
  }
  CHECK(close(through[0]) == 0 && close(through[1]) == 0);
}

static void read_all(int fd, char* to, size_t size) {
  while (size) {
    const ssize_t done = read(fd, to, size);
    CHECK(done > 0);
    to += done;
    size -= (size_t)done;
  }
}

static void receive_body(int from, int round) {
  static char got[kBody];
  if (is("receive")) {
    int through[2];
    CHECK(pipe(through) == 0);
    for (int left = kBody; left;) {
      const ssize_t done = splice(from, NULL, through[1], NULL, (size_t)left, 0);
      CHECK(done > 0);
      left -= (int)done;
    }
    read_all(through[0], got, kBody);
    CHECK(close(through[0]) == 0 && close(through[1]) == 0);
  } else if (is("aio-receive")) {
    CHECK(recv(from, got, kBody, MSG_PEEK | MSG_WAITALL) == kBody);  // so that the halves are whole
    CHECK(ask(from, IOCB_CMD_PREAD, got, kBody) == kBody);
  } else {
    read_all(from, got, kBody);
  }
  for (int i = 0; i < kBody; i++) CHECK(got[i] == body_byte(round, i));
}

static int answer(int from, int to) {
  for (int round = 0; round < kRounds; round++) {
    char line[16], asked;
    CHECK(read(from, &asked, 1) == 1 && asked == 'A' + round);
    snprintf(line, sizeof line, "answer %d\n", round);
    write_all(to, line, 9);
    send_body(to, round);
  }
  return 0;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  way = argv[1];
  if (strncmp(way, "aio", 3) == 0) CHECK(syscall(SYS_io_setup, 8, &context) == 0);
  int requests[2], answers[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, requests) == 0);
  if (is("tee") || is("vmsplice")) CHECK(pipe(answers) == 0);  // these need pipes
  else answers[0] = requests[0], answers[1] = requests[1];
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0 && is("aio")) CHECK((context = 0, syscall(SYS_io_setup, 8, &context)) == 0);
  if (child == 0) _exit(answer(requests[1], answers[1]));
  for (int round = 0; round < kRounds; round++) {
    const char ask = (char)('A' + round);
    CHECK(write(requests[0], &ask, 1) == 1);
    char line[9], wanted[16];
    read_all(answers[0], line, sizeof line);
    snprintf(wanted, sizeof wanted, "answer %d\n", round);
    CHECK(memcmp(line, wanted, sizeof line) == 0);
    receive_body(answers[0], round);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  return success();
}
