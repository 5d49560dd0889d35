// What the shim cannot live with, as its argument says: Syscall User Dispatch by the program (`dispatch`, as Wine has it), a base of %gs (`gs`),
// by its own instruction (`wrgsbase`) or by a selector (`selector`), a mapping where Friday has its own (`map`),
// 32-bit calls (`int80`). The program is not to notice.
#include <asm/prctl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "check.h"

static volatile char selector;
static volatile int caught;

static void on_call(int number, siginfo_t* info, void* given) {
  greg_t* registers = ((ucontext_t*)given)->uc_mcontext.gregs;
  selector = 0;  // SYSCALL_DISPATCH_FILTER_ALLOW
  CHECK(number == SIGSYS && info->si_code == 2 /* SYS_USER_DISPATCH */ && info->si_syscall == SYS_getuid);
  CHECK(info->si_call_addr == (void*)registers[REG_RIP] && registers[REG_RAX] == SYS_getuid);
  registers[REG_RAX] = 4711;
  caught++;
}

static void dispatch(void) {
  struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGSYS, &action, NULL) == 0 && prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector) == 0);
  for (int i = 0; i < 100; i++) {
    selector = 1;  // SYSCALL_DISPATCH_FILTER_BLOCK
    CHECK(getuid() == 4711 && caught == i + 1);
  }
}

static void base_of_gs(void) {
  static uint64_t words[4] = {0, 0, 77, 0};
  uint64_t base = 1, word;
  CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == 0);
  CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, words) == 0 && syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == (uint64_t)words);
  for (int i = 0; i < 100; i++) {
    __asm__ volatile("mov %%gs:16, %0" : "=r"(word));
    CHECK(word == 77 && getppid() > 0);
  }
  CHECK(words[0] == 0 && words[1] == 0 && words[3] == 0);
}

// As base_of_gs() where the kernel lets programs use the instructions (CR4.FSGSBASE; HWCAP2_FSGSBASE of getauxval(3)).
static void base_by_instruction(void) {
  static uint64_t words[4] = {0, 0, 77, 0};
  uint64_t base, word;
  if (!(getauxval(AT_HWCAP2) & 2)) return;
  __asm__ volatile("rdgsbase %0" : "=r"(base));
  CHECK(base == 0);
  __asm__ volatile("wrgsbase %0" ::"r"(words));
  for (int i = 0; i < 100; i++) {
    __asm__ volatile("mov %%gs:16, %0" : "=r"(word));
    __asm__ volatile("rdgsbase %0" : "=r"(base));
    CHECK(word == 77 && base == (uint64_t)words && getppid() > 0);
  }
  CHECK(words[0] == 0 && words[1] == 0 && words[3] == 0);
}

// A selector brings a base along, of 0 here.
static void base_by_selector(void) {
  unsigned selector = 0x2b;  // the segment of data that each process has
  __asm__ volatile("mov %0, %%gs" ::"r"(selector));
  for (int i = 0; i < 100; i++) {
    __asm__ volatile("mov %%gs, %0" : "=r"(selector));
    CHECK(selector == 0x2b && getppid() > 0);
  }
  __asm__ volatile("push $0; pop %%gs; mov %%gs, %0" : "=r"(selector));
  CHECK(selector == 0 && getppid() > 0);
}

static void map(void) {
  const uint64_t places[] = {0x100000000000, 0x100000400000, 0x150000000000};
  for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
    char* place = (char*)places[i];
    CHECK(mmap(place, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place);
    memset(place, 7, 1 << 20);
    CHECK(getppid() > 0 && place[0] == 7 && place[(1 << 20) - 1] == 7);
  }
}

static void calls_of_32_bits(void) {
  for (int i = 0; i < 100; i++) {
    long result = 20;  // getpid of i386; writev of x86-64
    __asm__ volatile("int $0x80" : "+a"(result) : "b"(0), "c"(0), "d"(0) : "memory", "r8", "r9", "r10", "r11");
    CHECK(result == getpid() || result == -ENOSYS);
  }
}

// A process of several threads cannot be left by Friday at one call of one of them: these calls fail there, and a notice says so.
static void* beside(void* arg) {
  pthread_barrier_wait(arg);
  pthread_barrier_wait(arg);
  return NULL;
}
static void in_a_crowd(void) {
  pthread_t thread;
  pthread_barrier_t barrier;
  CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, beside, &barrier) == 0);
  pthread_barrier_wait(&barrier);
  char* place = (char*)0x100000400000;
  char* got = mmap(place, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(got == place || (got == MAP_FAILED && errno == ENOMEM));
  printf("mapped %d\n", got == place);
  fflush(stdout);
  for (int i = 0; i < 100; i++) CHECK(getppid() > 0);
  CHECK(mprotect(place, 4096, PROT_READ) == 0 || errno == ENOMEM);
  pthread_barrier_wait(&barrier);
  CHECK(pthread_join(thread, NULL) == 0);
}

// Beside a thread that makes calls all the time, these are made for it.
static void* calls_beside(void* arg) {
  for (int i = 0; i < 1000; i++) CHECK(getppid() > 0);
  return arg;
}
static void calls_of_32_bits_in_a_crowd(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, calls_beside, NULL) == 0);
  calls_of_32_bits();
  CHECK(pthread_join(thread, NULL) == 0);
  calls_of_32_bits();
}

// Instructions that a process of one thread is left for: with two threads they end it with SIGILL while it is recorded. Natively all is well.
static void instructions_in_a_crowd(void) {
  const char* const names[] = {"wrgsbase", "selector"};
  void (*const instructions[])(void) = {base_by_instruction, base_by_selector};
  for (unsigned n = 0; n < sizeof instructions / sizeof *instructions; n++) {
    pid_t child = fork();
    if (child == 0) {
      pthread_t thread;
      pthread_barrier_t barrier;
      CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0 && pthread_create(&thread, NULL, beside, &barrier) == 0);
      pthread_barrier_wait(&barrier);
      instructions[n]();
      pthread_barrier_wait(&barrier);
      CHECK(pthread_join(thread, NULL) == 0);
      _exit(5);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("%s: %#x\n", names[n], status);
    fflush(stdout);
  }
}

int main(int argc, char** argv) {
  CHECK(argc > 1 && getppid() > 0);
  if (strcmp(argv[1], "instructions") == 0) instructions_in_a_crowd();
  if (strcmp(argv[1], "dispatch") == 0) dispatch();
  if (strcmp(argv[1], "gs") == 0) base_of_gs();
  if (strcmp(argv[1], "wrgsbase") == 0) base_by_instruction();
  if (strcmp(argv[1], "selector") == 0) base_by_selector();
  if (strcmp(argv[1], "map") == 0) map();
  if (strcmp(argv[1], "crowd") == 0) in_a_crowd();
  if (strcmp(argv[1], "int80") == 0) calls_of_32_bits();
  if (strcmp(argv[1], "int80_crowd") == 0) calls_of_32_bits_in_a_crowd();
  struct timespec now;
  for (int i = 0; i < 100; i++) CHECK(getppid() > 0 && clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return success();
}
