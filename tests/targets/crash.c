// Ends badly, as its argument says: by a fault, abort, a signal, or _exit in a thread; what it wrote before must be there.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "check.h"

static void* exit_here(void* unused) {
  (void)unused;
  exit(33);
}

static void on_signal(int signal) { (void)signal; }

static void on_spare_stack(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  _exit(info->si_code == SI_KERNEL && !info->si_addr ? 45 : 46);
}

// A handler finds no place for its frame, where the stack pointer leads nowhere: of a store, a division, an instruction that is none, or a signal
// that was sent. With `spare` SIGSEGV has a stack of its own.
static int without_a_stack(const char* how, int spare) {
  static char stack[65536];
  const stack_t spare_stack = {.ss_sp = stack, .ss_size = sizeof stack};
  const struct sigaction plain = {.sa_handler = on_signal}, on_stack = {.sa_sigaction = on_spare_stack, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaltstack(&spare_stack, NULL) == 0 && sigaction(SIGSEGV, spare ? &on_stack : &plain, NULL) == 0);
  CHECK(sigaction(SIGFPE, &plain, NULL) == 0 && sigaction(SIGILL, &plain, NULL) == 0 && sigaction(SIGUSR1, &plain, NULL) == 0);
  const long pid = getpid();
  if (!strcmp(how, "divide")) __asm__ volatile("mov $4096, %%rsp; xor %%ecx, %%ecx; xor %%edx, %%edx; div %%ecx" : : "a"(1) : "rcx", "rdx", "memory");
  else if (!strcmp(how, "illegal")) __asm__ volatile("mov $4096, %%rsp; ud2" : : : "memory");
  else if (!strcmp(how, "sent")) __asm__ volatile("mov $4096, %%rsp; syscall" : : "a"((long)SYS_kill), "D"(pid), "S"(SIGUSR1) : "rcx", "r11", "memory");
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
  if (strcmp(how, "stack") == 0) return without_a_stack(argc > 2 ? argv[2] : "store", argc > 3);
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
