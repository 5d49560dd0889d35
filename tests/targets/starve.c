// Threads, with `processes` processes that share memory, that make nothing but calls which never wait, until another one tells them to
// stop: each kind of call has to let the others run.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "check.h"

enum { PROTECT, MAP, MASK, CLOSE, ADVISE, REFUSED, DUPLICATE, MOVE, ALTSTACK, KINDS };

struct Shared {
  volatile int kind, running;
};

static void once(int kind, char* page) {
  sigset_t none;
  stack_t stack;
  switch (kind) {
    case PROTECT: CHECK(mprotect(page, 4096, PROT_READ) == 0 && mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0); break;
    case MAP: CHECK(munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096) == 0); break;
    case MASK: CHECK(sigemptyset(&none) == 0 && sigprocmask(SIG_BLOCK, &none, NULL) == 0); break;
    case CLOSE: CHECK(close(-1) == -1); break;
    case ADVISE: CHECK(madvise(page, 4096, MADV_DONTNEED) == 0 && page[0] == 0); page[0] = 1; break;
    case REFUSED: CHECK(syscall(SYS_userfaultfd, -1) == -1); break;
    case DUPLICATE: CHECK(dup2(0, 90) == 90); break;
    case MOVE: CHECK(mremap(page, 4096, 4096, 0) == page); break;
    case ALTSTACK: CHECK(sigaltstack(NULL, &stack) == 0); break;
  }
}

static void* work(void* of) {
  struct Shared* shared = of;
  char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  for (int kind; (kind = shared->kind) < KINDS;) {
    shared->running = kind;
    once(kind, page);
  }
  return NULL;
}

int main(int argc, char** argv) {
  struct Shared* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(shared != MAP_FAILED);
  shared->running = -1;
  const int apart = argc > 1 && strcmp(argv[1], "processes") == 0;
  pthread_t thread;
  pid_t child = 0;
  if (!apart) CHECK(pthread_create(&thread, NULL, work, shared) == 0);
  else if ((child = fork()) == 0) {
    work(shared);
    _exit(0);
  }
  for (int kind = 0; kind < KINDS; kind++) {
    shared->kind = kind;
    while (shared->running != kind) usleep(100);
    usleep(3000);
    printf("%d\n", kind);
  }
  shared->kind = KINDS;
  if (!apart) CHECK(pthread_join(thread, NULL) == 0);
  else CHECK(waitpid(child, NULL, 0) == child);
  return success();
}
