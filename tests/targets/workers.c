// Four named threads that take turns: each counts in a thread-local variable and in a global one. For the debugger there are
// functions besides that nobody calls: some that fail in every way, some that make system calls, some that only compute.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include "check.h"

enum { kMostThreads = 32, kTurns = 25 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;
long total;
__thread long own;

__attribute__((noinline)) void turn(long number, int i) {
  pthread_mutex_lock(&lock);
  total += number;
  own += number;
  pthread_mutex_unlock(&lock);
  CHECK(own == 1000 * number + (i + 1) * number);
}

static void* work(void* argument) {
  const long number = (long)argument;
  char name[16];
  snprintf(name, sizeof name, "worker-%ld", number);
  CHECK(pthread_setname_np(pthread_self(), name) == 0);
  own = 1000 * number;
  for (int i = 0; i < kTurns; i++) {
    pthread_barrier_wait(&together);
    turn(number, i);
    pthread_barrier_wait(&together);
  }
  return NULL;
}

__attribute__((used)) int crash_now(int* nowhere) {
  total = -1;
  return *nowhere;
}

__attribute__((used)) int block_now(void) {
  total = -2;
  return pause();
}

__attribute__((used)) int spin_now(void) {
  for (volatile int i = 0;; i++) {}
}

__attribute__((used)) int abort_now(void) { abort(); }

__attribute__((used)) int exit_now(void) {
  total = -3;
  exit(3);
}

__attribute__((used)) int lock_now(void) {
  total = -4;
  return pthread_mutex_lock(&lock);
}

// Changes all kinds of memory, and the mappings, before it crashes.
__attribute__((used)) int change_all_now(int* nowhere) {
  char* page = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* block = malloc(1 << 18);
  memset(page, 1, 1 << 16);
  memset(block, 2, 1 << 18);
  own = total = -5;
  return *nowhere;
}

__attribute__((used)) int say_now(const char* text) { return write(1, text, strlen(text)) == (ssize_t)strlen(text); }
__attribute__((used)) int ids_now(int which) { return which == 0 ? getpid() : which == 1 ? gettid() : getppid(); }
__attribute__((used)) int touch_now(void) { return open("/tmp/friday-touched", O_CREAT | O_WRONLY, 0600) < 0 ? errno : 0; }
__attribute__((used)) int reach_now(void) { return socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0; }
// Without the C library, whose functions change memory of the program when they are called for the first time.
static long sigaction_now(const void* action, void* old) {
  register long size __asm__("r10") = 8;
  long result = SYS_rt_sigaction;
  __asm__ volatile("syscall" : "+a"(result) : "D"((long)SIGUSR1), "S"(action), "d"(old), "r"(size) : "rcx", "r11", "memory");
  return result;
}
__attribute__((used)) long handle_now(void) {
  const unsigned long ignore[] = {1, 0, 0, 0};
  return sigaction_now(ignore, NULL);
}
__attribute__((used)) long handled_now(void) {
  unsigned long old[4];
  return sigaction_now(NULL, old);
}
__attribute__((used)) int signal_now(void) { return kill(getppid(), 0) < 0 ? errno : 0; }

__attribute__((used, noinline)) long sum_of(long a, signed char b, unsigned short c, int d, unsigned e, _Bool f) { return a + b + c + d + e + f; }
__attribute__((used, noinline)) double half_of(double x, float y) { return x / 2 + (double)y; }
__attribute__((used, noinline)) float third_of(float x) { return x / 3; }
__attribute__((used, noinline)) void add_now(long what) { total += what; }
__attribute__((used, noinline)) long change_by_text_now(const char* text) { return total += *text; }
__attribute__((used, noinline)) long first_of(const char* text) { return *text; }
__attribute__((used, noinline)) long length_of(const char* text) { return (long)strlen(text); }
__attribute__((used, noinline)) long number_of(const char* text) { return strtol(text, NULL, 10); }
__attribute__((used, noinline)) long nested_of(long a) { return sum_of(a, 1, 2, 3, 4, 1) + sum_of(a, 0, 0, 0, 0, 0); }

// The number of calls that did as they should where nothing may be had from outside the process: of five.
__attribute__((used)) int calls_now(void) {
  int p[2], good = 0;
  struct timespec now = {0, 0};
  good += pipe(p) == -1 && errno == EPERM;
  good += open("/dev/null", O_RDONLY) == -1 && errno == EPERM;
  good += syscall(SYS_clock_gettime, CLOCK_REALTIME, &now) == 0 && now.tv_sec > 0;
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  good += page != MAP_FAILED && munmap(page, 4096) == 0;
  good += fork() == -1;
  return good;
}

int main(int count, char** arguments) {
  const long how_many = count > 1 ? atol(arguments[1]) : 4;
  pthread_t threads[kMostThreads];
  CHECK(how_many > 0 && how_many <= kMostThreads);
  CHECK(number_of("5") == 5);  // strtol is bound from here on
  CHECK(pthread_barrier_init(&together, NULL, (unsigned)how_many) == 0);
  for (long i = 0; i < how_many; i++) CHECK(pthread_create(&threads[i], NULL, work, (void*)(i + 1)) == 0);
  for (long i = 0; i < how_many; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(total == kTurns * how_many * (how_many + 1) / 2);
  return success();
}
