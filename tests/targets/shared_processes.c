// Processes that share memory: by inheritance, by name, by number; what each sees of the others is what it saw.
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/wait.h>

#include "check.h"

enum { kProcesses = 4, kRounds = 200, kLog = kProcesses * kRounds };

struct Shared {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  sem_t semaphore;
  volatile int turn, count, stop;
  atomic_int position;
  volatile unsigned char log[kLog];
};

static struct Shared* anonymous(void) {
  struct Shared* s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(s != MAP_FAILED);
  return s;
}

// As programs had it before MAP_ANONYMOUS. The file in memory behind it is as long as the mapping.
static struct Shared* of_zero_device(void) {
  int fd = open("/dev/zero", O_RDWR);
  struct Shared* s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(fd >= 0 && s != MAP_FAILED);
  volatile char* behind = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 4096);
  CHECK(behind != MAP_FAILED && close(fd) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (!pid) {
    behind[0] = 42;
    behind[4096] = 43;
    _exit(0);
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS && behind[0] == 42);
  return s;
}

static void run(int processes, void (*child)(struct Shared*, int), struct Shared* s) {
  for (int i = 0; i < processes; i++) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid) continue;
    child(s, i);
    _exit(0);
  }
  for (int i = 0; i < processes; i++) {
    int status;
    CHECK(wait(&status) > 0 && status == 0);
  }
}

static uint64_t hash_of(const struct Shared* s) {
  uint64_t hash = 14695981039346656037u;
  for (int i = 0; i < kLog; i++) hash = (hash ^ s->log[i]) * 1099511628211u;
  return hash;
}

// Who comes first writes first; an increment that is no atomic one may be lost.
static void race(struct Shared* s, int number) {
  for (int i = 0; i < kRounds; i++) {
    int before = s->count;
    if (i % 3 == 0) sched_yield();
    s->count = before + 1;
    s->log[atomic_fetch_add(&s->position, 1)] = (unsigned char)number;
    if (i % 7 == 0) usleep(50);
  }
}

static void in_turn(struct Shared* s, int number) {
  for (int i = 0; i < kRounds; i++) {
    CHECK(pthread_mutex_lock(&s->mutex) == 0);
    while (s->turn != number) CHECK(pthread_cond_wait(&s->changed, &s->mutex) == 0);
    s->log[s->count++] = (unsigned char)number;
    s->turn = (number + 1) % kProcesses;
    CHECK(pthread_cond_broadcast(&s->changed) == 0 && pthread_mutex_unlock(&s->mutex) == 0);
    CHECK(sem_post(&s->semaphore) == 0);
  }
}

static void locks(struct Shared* s) {
  pthread_mutexattr_t mutex;
  pthread_condattr_t condition;
  CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_condattr_init(&condition) == 0 && pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
  CHECK(pthread_mutex_init(&s->mutex, &mutex) == 0 && pthread_cond_init(&s->changed, &condition) == 0);
  CHECK(sem_init(&s->semaphore, 1, 0) == 0);
  run(kProcesses, in_turn, s);
  for (int i = 0; i < kLog; i++) CHECK(s->log[i] == i % kProcesses && sem_trywait(&s->semaphore) == 0);
}

// Loops that make no call, with `pause` and without.
static void spin(struct Shared* s, int number) {
  for (int i = 0; i < 40; i++) {
    if (number % 2) while (s->turn != number) {}
    else while (s->turn != number) __builtin_ia32_pause();
    s->count++;
    s->turn = (number + 1) % kProcesses;
  }
}

// Every process maps the same file by itself; what was in it before is there.
static char name[64];
static void by_name(struct Shared* inherited, int number) {
  (void)inherited;
  int fd = shm_open(name, O_RDWR, 0);
  CHECK(fd >= 0);
  struct Shared* s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0 && s->stop == 4711);
  race(s, number);
  CHECK(munmap(s, sizeof *s) == 0);
}

static uint64_t files(void) {
  snprintf(name, sizeof name, "/friday-target-%d", getpid());
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct Shared)) == 0);
  int mark = 4711;
  CHECK(pwrite(fd, &mark, sizeof mark, offsetof(struct Shared, stop)) == sizeof mark);
  run(kProcesses, by_name, NULL);
  struct Shared* s = mmap(NULL, sizeof *s, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && close(fd) == 0 && shm_unlink(name) == 0);
  CHECK(atomic_load(&s->position) == kLog);
  return hash_of(s) + (uint64_t)s->count;
}

// Two that share nothing yet meet in a third thing, while two more wait in the groups of either.
static void meet(struct Shared* s, int number) {
  struct Shared* own = s + 1 + number % 2;
  for (int i = 0; i < 20; i++) own->count++, sched_yield();
  int fd = shm_open(name, O_RDWR, 0);
  struct Shared* third = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(fd >= 0 && third != MAP_FAILED);
  race(third, number);
}

static uint64_t groups(void) {
  snprintf(name, sizeof name, "/friday-target-%d", getpid());
  int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(fd >= 0 && ftruncate(fd, sizeof(struct Shared)) == 0);
  pid_t pids[2];
  for (int half = 0; half < 2; half++) {
    CHECK((pids[half] = fork()) >= 0);
    if (pids[half]) continue;
    struct Shared* s = mmap(NULL, 3 * sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    run(2, meet, s);
    CHECK(s[1].count >= 20 && s[2].count >= 20);
    _exit(0);
  }
  int status;
  CHECK(waitpid(pids[0], &status, 0) == pids[0] && status == 0 && waitpid(pids[1], &status, 0) == pids[1] && status == 0);
  struct Shared* s = mmap(NULL, sizeof *s, PROT_READ, MAP_SHARED, fd, 0);
  CHECK(s != MAP_FAILED && shm_unlink(name) == 0 && atomic_load(&s->position) == kLog);
  return hash_of(s) + (uint64_t)s->count;
}

static int segment;
static void by_number(struct Shared* inherited, int number) {
  (void)inherited;
  struct Shared* s = shmat(segment, NULL, 0);
  CHECK(s != (void*)-1 && s->stop == 42);
  race(s, number);
  CHECK(shmdt(s) == 0);
}

static uint64_t segments(void) {
  segment = shmget(IPC_PRIVATE, sizeof(struct Shared), 0600);
  struct Shared* s = shmat(segment, NULL, 0);
  CHECK(segment >= 0 && s != (void*)-1);
  s->stop = 42;
  CHECK(shmdt(s) == 0);
  run(kProcesses, by_number, NULL);
  CHECK((s = shmat(segment, NULL, SHM_RDONLY)) != (void*)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
  return hash_of(s) + (uint64_t)s->count;
}

// A process is killed, by the kernel for its use of processor time, while it has the turn: the others go on.
static void killed(struct Shared* s) {
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (!pid) {
    struct rlimit second = {1, 1};
    CHECK(setrlimit(RLIMIT_CPU, &second) == 0);
    s->turn = 1;
    for (;;) s->log[7]++;
  }
  int status;
  CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  for (int i = 0; i < 100; i++) s->count++, sched_yield();
  CHECK(s->count == 100);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  const char* what = arguments[1];
  struct Shared* s = !strcmp(what, "zero") ? of_zero_device() : anonymous();
  if (!strcmp(what, "race") || !strcmp(what, "zero")) {
    run(kProcesses, race, s);
    printf("%016lx %d\n", (unsigned long)hash_of(s), s->count);
  } else if (!strcmp(what, "locks")) {
    locks(s);
  } else if (!strcmp(what, "spin")) {
    run(kProcesses, spin, s);
    CHECK(s->count == 40 * kProcesses);
  } else if (!strcmp(what, "files")) {
    printf("%016lx\n", (unsigned long)files());
  } else if (!strcmp(what, "groups")) {
    printf("%016lx\n", (unsigned long)groups());
  } else if (!strcmp(what, "segments")) {
    printf("%016lx\n", (unsigned long)segments());
  } else {
    killed(s);
  }
  return success();
}
