/* Counts in a child that is killed, in one that executes the program again, and in the parent. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile long sink;

void work(long times) {
  for (long i = 0; i < times; i++) sink += i;
}

void copy(const char* from, size_t bytes) {
  static char to[64];
  memcpy(to, from, bytes);
  sink += to[0];
}

int main(int argc, char** argv) {
  if (argc > 1) {
    work(1000);
    _exit(0);
  }
  copy("a text of some length", (size_t)argc + 10);
  if (fork() == 0) {
    if (getuid() == 0 && setuid(65534) != 0) abort();
    work(100);
    kill(getpid(), SIGKILL);
  }
  wait(NULL);
  if (fork() == 0) {
    execl(argv[0], argv[0], "again", (char*)NULL);
    abort();
  }
  wait(NULL);
  work(10);
  return 0;
}
