// Ends badly, as its argument says: by a fault, abort, a signal, or _exit in a thread; what it wrote before must be there.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "check.h"

static void* exit_here(void* unused) {
  (void)unused;
  exit(33);
}

static void on_signal(int signal) { (void)signal; }

// The handler finds no place for its frame.
static int without_a_stack(int divides) {
  signal(SIGSEGV, on_signal);
  signal(SIGFPE, on_signal);
  if (divides) __asm__ volatile("mov $4096, %%rsp; xor %%ecx, %%ecx; xor %%edx, %%edx; div %%ecx" : : "a"(1) : "rcx", "rdx", "memory");
  else __asm__ volatile("mov $4096, %%rsp; movl $1, 16" : : : "memory");
  __builtin_unreachable();
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "";
  if (strcmp(how, "first") == 0) *(volatile int*)16 = 1;
  printf("about to end by %s\n", how);
  fflush(stdout);
  for (int i = 0; i < 1000; i++) CHECK(getppid() > 0);
  if (strcmp(how, "fault") == 0) *(volatile int*)16 = 1;
  if (strcmp(how, "stack") == 0 || strcmp(how, "stack divide") == 0) return without_a_stack(how[5] == ' ');
  if (strcmp(how, "abort") == 0) abort();
  if (strcmp(how, "term") == 0) kill(getpid(), SIGTERM);
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "illegal") == 0) __builtin_trap();
  if (strcmp(how, "divide") == 0) {
    volatile int zero = 0;
    return 100 / zero;
  }
  if (strcmp(how, "bus") == 0) {
    FILE* empty = tmpfile();
    CHECK(empty);
    char* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(empty), 0);
    CHECK(page != MAP_FAILED);
    return *(volatile char*)page;
  }
  if (strcmp(how, "overflow") == 0) {
    volatile char* p = (volatile char*)&how;
    for (;; p -= 1024) *p = 1;
  }
  if (strcmp(how, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, exit_here, NULL);
    for (;;) pause();
  }
  return 44;
}
