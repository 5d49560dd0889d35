// Everything used up: the address space within a limit, descriptors, processes within a limit, threads; then given back.
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "check.h"

enum { kMost = 4096, kBlock = 64 << 20 };

static void limit(int which, rlim_t value) {
  struct rlimit both = {value, value};
  CHECK(setrlimit(which, &both) == 0);
}

// As many blocks as there is room for.
static int blocks(void** list) {
  int count = 0;
  while (count < kMost) {
    void* block = mmap(NULL, kBlock, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (block == MAP_FAILED) break;
    *(char*)block = 1;
    list[count++] = block;
  }
  CHECK(errno == ENOMEM);
  return count;
}

static void* nothing(void* unused) { return unused; }

static void address_space(void) {
  static void* list[kMost];
  limit(RLIMIT_AS, 2ul << 30);
  int first = blocks(list);
  CHECK(first >= 16 && first <= 32);
  CHECK(!malloc(kBlock) && errno == ENOMEM);
  pthread_t thread;
  pthread_attr_t how;
  CHECK(pthread_attr_init(&how) == 0 && pthread_attr_setstacksize(&how, kBlock) == 0);
  CHECK(pthread_create(&thread, &how, nothing, NULL) == EAGAIN);
  // Children begin with all of it.
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(mmap(NULL, kBlock, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? 6 : 7);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 6);
  for (int i = 0; i < first; i++) CHECK(munmap(list[i], kBlock) == 0);
  CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(first - blocks(list) <= 1);  // the thread's stack is kept for the next one
}

static void descriptors(void) {
  int fds[2000], count = 0, status;
  limit(RLIMIT_NOFILE, 100);
  while ((fds[count] = open("/dev/null", O_RDONLY)) >= 0) count++;
  CHECK(errno == EMFILE && count > 80 && count < 100);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) _exit(open("/dev/null", O_RDONLY) == -1 && errno == EMFILE ? 8 : 9);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 8);
  for (int i = 0; i < count; i++) CHECK(close(fds[i]) == 0);
}

// Processes and threads of this user, as far as /proc shows them.
static rlim_t present(void) {
  rlim_t count = 0;
  DIR* all = opendir("/proc");
  CHECK(all);
  for (struct dirent* entry; (entry = readdir(all));) {
    char name[280], line[256];
    unsigned uid = ~0u, threads = 0;
    snprintf(name, sizeof name, "/proc/%s/status", entry->d_name);
    FILE* file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(name, "r") : NULL;
    if (!file) continue;
    while (fgets(line, sizeof line, file)) {
      sscanf(line, "Uid: %u", &uid);
      sscanf(line, "Threads: %u", &threads);
    }
    fclose(file);
    if (uid == getuid()) count += threads;
  }
  CHECK(closedir(all) == 0 && count > 0);
  return count;
}

// A fork bomb that a limit holds: of processes of a user that has no others, if this one may become another user; else of a dozen
// more than there are.
static void processes(void) {
  int status;
  char byte;
  pid_t first = fork();
  if (first == 0) {
    int made = 0, go[2];
    const int root = getuid() == 0;
    CHECK(pipe(go) == 0 && (!root || setresuid(54321, 54321, 54321) == 0));
    limit(RLIMIT_NPROC, root ? 12 : present() + 12);
    for (;; made++) {
      pid_t child = fork();
      if (child == -1) break;
      if (child == 0) _exit(close(go[1]) == 0 && read(go[0], &byte, 1) == 0 ? 0 : 1);
      CHECK(made < 1000);
    }
    CHECK(errno == EAGAIN && close(go[1]) == 0);
    for (int i = 0; i < made; i++) CHECK(wait(&status) > 0 && status == 0);
    CHECK(root ? made == 11 : made > 0);  // others of this user come and go
    _exit(11);
  }
  CHECK(waitpid(first, &status, 0) == first && WIFEXITED(status) && WEXITSTATUS(status) == 11);
}

int main(int argc, char** argv) {
  if (argc == 1 || strcmp(argv[1], "descriptors") == 0) descriptors();
  if (argc == 1 || strcmp(argv[1], "processes") == 0) processes();
  if (argc == 1 || strcmp(argv[1], "memory") == 0) address_space();
  return success();
}
