// Several threads and processes write and read one pipe or socket without a lock: whose bytes came first no log can say.
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "check.h"

enum { kThreads = 2, kLines = 2000, kChildren = 4, kRecords = 1200, kWakes = 500 };
static int to;

static void* write_lines(void* who) {
  char line[32];
  for (int n = 0; n < kLines; n++) {
    const int length = snprintf(line, sizeof line, "thread %d line %d\n", *(int*)who, n);
    CHECK(write(to, line, (size_t)length) == length);
  }
  return NULL;
}

static void* write_wakes(void* unused) {
  for (int n = 0; n < kWakes; n++) CHECK(write(to, "!", 1) == 1);
  return unused;
}

static void in_threads(void* (*work)(void*)) {
  pthread_t threads[kThreads];
  static int numbers[kThreads];
  for (int n = 0; n < kThreads; n++) {
    numbers[n] = n;
    CHECK(pthread_create(&threads[n], NULL, work, &numbers[n]) == 0);
  }
  for (int n = 0; n < kThreads; n++) CHECK(pthread_join(threads[n], NULL) == 0);
}

// Threads write lines, and wait for room together; a child counts them.
static void lines(void) {
  int ends[2];
  CHECK(pipe(ends) == 0 && fcntl(ends[1], F_SETPIPE_SZ, 4096) == 4096);
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    close(ends[1]);
    char text[700];
    int count = 0;
    for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;)
      for (ssize_t n = 0; n < got; n++) count += text[n] == '\n';
    _exit(count == kThreads * kLines ? 0 : 1);
  }
  close(ends[0]);
  to = ends[1];
  in_threads(write_lines);
  close(ends[1]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}

// Children that were forked beforehand take records from one end, whoever comes first.
static void prefork(int kind) {
  int ends[2];
  CHECK(kind ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 : pipe(ends) == 0);
  pid_t children[kChildren];
  for (int n = 0; n < kChildren; n++) {
    CHECK((children[n] = fork()) >= 0);
    if (children[n]) continue;
    close(ends[1]);
    char record[32];
    int count = 0;
    while (read(ends[0], record, sizeof record) == sizeof record) count++;
    _exit(count % 64);
  }
  close(ends[0]);
  for (int n = 0; n < kRecords; n++) {
    char record[32] = {0};
    snprintf(record, sizeof record, "record number %d", n);
    CHECK(write(ends[1], record, sizeof record) == sizeof record);
  }
  close(ends[1]);
  for (int n = 0; n < kChildren; n++) CHECK(waitpid(children[n], NULL, 0) == children[n]);
}

// Threads wake another one of their process, which empties the pipe, as run-time systems do.
static void* drain(void* from) {
  const int fd = *(int*)from;
  CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
  char marks[64];
  for (int left = kThreads * kWakes; left;) {
    struct pollfd ready = {fd, POLLIN, 0};
    CHECK(poll(&ready, 1, -1) == 1);
    const ssize_t got = read(fd, marks, sizeof marks);
    CHECK(got > 0);
    left -= (int)got;
  }
  return NULL;
}

static void wake(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  to = ends[1];
  pthread_t reader;
  CHECK(pthread_create(&reader, NULL, drain, &ends[0]) == 0);
  in_threads(write_wakes);
  CHECK(pthread_join(reader, NULL) == 0);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  if (strcmp(argv[1], "lines") == 0) lines();
  else if (strcmp(argv[1], "wake") == 0) wake();
  else prefork(strcmp(argv[1], "socket") == 0);
  return success();
}
