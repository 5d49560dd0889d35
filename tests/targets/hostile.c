// A program that a crafted recording makes hostile. It does nothing but read /proc/self/maps, so that it knows where the shim's own
// system call stands; tests/e2e/test_hostile_replay.py then changes `attack` in the recording's copy of this file, and what runs
// at replay is code that its recording never ran. Arguments: a file that must not come to be, a TCP port that nobody may connect to, a
// process that must live on, and the addresses of the code and the table of friday-stub.
#include <fcntl.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "check.h"

// Found by its first words, "attack no.: ", and then the number of the attack: 0, none.
extern const uint32_t attack[4];
const uint32_t attack[4] = {0x61747461, 0x6e206b63, 0x203a2e6f, 0};

static uint32_t number(void) { return *(const volatile uint32_t*)&attack[3]; }

static char* path;
static int port, victim;
static uintptr_t friday_stub_code, friday_stub_table;
static uintptr_t entry;  // of a `syscall; ret` that Syscall User Dispatch lets through

static long through(uintptr_t at, long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("call *%[at]" : "=a"(result), "+r"(r10), "+r"(r8), "+r"(r9) : [at] "r"(at), "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
#define KERNEL(number, a, b, c, d, e, f) through(entry, number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

// A `syscall; ret` that the shim has never seen, and so has not patched.
static long raw(long number, long a, long b, long c) {
  char* code = (char*)KERNEL(SYS_mmap, 0, 0x1000, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(code, "\x0f\x05\xc3", 3);
  return through((uintptr_t)code, number, a, b, c, 0, 0, 0);
}

// The kernel's 32-bit entry; its pointers have 32 bits.
static long compat(long number, long a, long b, long c, int sysenter) {
  long result;
  if (sysenter) __asm__ volatile("push %%rbp\n\tmov %%rsp, %%rbp\n\tmov %%esp, %%ebp\n\tsysenter\n\tpop %%rbp" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
  else __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "r8", "r9", "r10", "r11", "memory");
  return result;
}

static void dispatch_off(void) { KERNEL(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0, 0); }

static void create(void) { KERNEL(SYS_open, path, O_CREAT | O_WRONLY, 0600, 0, 0, 0); }

static void connect_out(void) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const long fd = KERNEL(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0, 0);
  KERNEL(SYS_connect, fd, &to, sizeof to, 0, 0, 0);
}

static char* low_path(void) {
  char* low = (char*)KERNEL(SYS_mmap, 0, 0x10000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  return strcpy(low, path);
}

static void by_sysenter(void) {
  dispatch_off();
  char* low = low_path();
  __asm__ volatile("mov %%rsp, %%r12\n\tmov %0, %%rsp" : : "r"(low + 0x8000) : "r12");
  compat(5 /* open */, (long)low, O_CREAT | O_WRONLY, 0600, 1);
}

static void child_creates(void) {
  if (KERNEL(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0) == 0) {
    dispatch_off();
    raw(SYS_open, (long)path, O_CREAT | O_WRONLY, 0600);
    for (;;) {}
  }
}

static void execute(void) {
  char* arguments[] = {"/bin/sh", "-c", "echo > $0", path, NULL};
  char* environment[] = {NULL};
  KERNEL(SYS_execve, "/bin/sh", arguments, environment, 0, 0, 0);
}

// Through friday-stub (core/shim/stub.S), which built the process: it makes the system calls in its table, and stops at an int3.
static void through_friday_stub(void) {
  const uint64_t calls[2][8] = {{SYS_open, (uint64_t)path, O_CREAT | O_WRONLY, 0600, 0, 0, 0, 0}, {~0ull, 0, 0, 0, 0, 0, 0, 0}};
  dispatch_off();
  memcpy((void*)friday_stub_table, calls, sizeof calls);
  ((void (*)(void))friday_stub_code)();
}

static void write_descriptors(void) {
  for (long fd = 0; fd < 3; fd++) {
    KERNEL(SYS_pwrite64, fd, "changed by a replayed process", 29, 0, 0, 0);
    KERNEL(SYS_ftruncate, fd, 5, 0, 0, 0, 0);
  }
  for (long fd = 0; fd < 1024; fd++) KERNEL(SYS_write, fd, "changed by a replayed process", 29, 0, 0, 0);
}

static void untraced(void) {
  if (KERNEL(SYS_clone, SIGCHLD | CLONE_UNTRACED, 0, 0, 0, 0, 0) == 0) {
    dispatch_off();
    raw(SYS_open, (long)path, O_CREAT | O_WRONLY, 0600);
    for (;;) {}
  }
}

// Not for ever: the machine is shared with other tests.
static void grow(void) {
  const size_t size = 1 << 30;
  char* more = (char*)KERNEL(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t at = 0; at < size; at += 4096) more[at] = 1;
  for (;;) {}
}

// What no process has mapped any more: shared memory whose pages are let go of, while its file lives.
static void grow_unseen(void) {
  const size_t size = 16 << 20;
  for (int i = 0; i < 64; i++) {
    char* more = (char*)KERNEL(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t at = 0; at < size; at += 4096) more[at] = 1;
    KERNEL(SYS_madvise, more, size, MADV_DONTNEED, 0, 0, 0);
  }
  for (;;) {}
}

// The tables of pages that are the kernel's page of zeros: none of them is this process's memory.
static void grow_tables(void) {
  const size_t size = 512ull << 30, step = 2 << 20;
  char* more = (char*)KERNEL(SYS_mmap, 0, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  KERNEL(SYS_madvise, more, size, MADV_NOHUGEPAGE, 0, 0, 0);
  for (size_t at = 0; at < size; at += step) (void)*(volatile char*)(more + at);
  for (;;) {}
}

static void fork_on(void) {
  for (;;) KERNEL(SYS_clone, SIGCHLD, 0, 0, 0, 0, 0);
}

static void attacked(void) {
  switch (number()) {
    case 1: create(); break;
    case 2: connect_out(); break;
    case 3: dispatch_off(); raw(SYS_open, (long)path, O_CREAT | O_WRONLY, 0600); break;
    case 4: dispatch_off(); compat(5 /* open */, (long)low_path(), O_CREAT | O_WRONLY, 0600, 0); break;
    case 5: by_sysenter(); break;
    case 6: child_creates(); break;
    case 7: execute(); break;
    case 8: KERNEL(SYS_kill, victim, SIGKILL, 0, 0, 0, 0); break;
    case 9: KERNEL(SYS_ptrace, 0x4206 /* PTRACE_SEIZE */, victim, 0, 0, 0, 0); break;
    case 10: KERNEL(SYS_open, "/proc/self/mem", O_RDWR, 0, 0, 0, 0); break;
    case 11: {
      char about[120] = "";
      KERNEL(SYS_io_uring_setup, 4, about, 0, 0, 0, 0);
      break;
    }
    case 12: dispatch_off(); raw(0x40000000 | SYS_open, (long)path, O_CREAT | O_WRONLY, 0600); break;
    case 13: through_friday_stub(); break;
    case 14: write_descriptors(); break;
    case 15: untraced(); break;
    case 16: {
      long now[2];
      ((long (*)(long*, void*))0xffffffffff600000)(now, NULL);
      break;
    }
    case 17: KERNEL(SYS_openat, AT_FDCWD, "/etc/hostname", O_RDONLY, 0, 0, 0); break;
    case 18: KERNEL(SYS_tgkill, victim, victim, SIGKILL, 0, 0, 0); break;
    case 19: KERNEL(SYS_setsid, 0, 0, 0, 0, 0, 0); break;
    case 20: KERNEL(SYS_prctl, PR_SET_PDEATHSIG, 0, 0, 0, 0, 0); break;
    case 21: grow(); break;
    case 22: fork_on(); break;
    case 23: KERNEL(SYS_kill, KERNEL(SYS_getppid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0); break;
    case 24: grow_unseen(); break;
    case 25: grow_tables(); break;
    default: break;
  }
}

// Where `syscall; ret` stands in the shim.
static void look_for_shim(void) {
  FILE* maps = fopen("/proc/self/maps", "r");
  CHECK(maps);
  char line[512];
  while (fgets(line, sizeof line, maps)) {
    unsigned long low, high;
    if (!strstr(line, "friday-shim.so") || !strstr(line, " r-xp ") || sscanf(line, "%lx-%lx", &low, &high) != 2) continue;
    for (unsigned long at = low; at + 3 <= high && !entry; at++)
      if (memcmp((const void*)at, "\x0f\x05\xc3", 3) == 0) entry = at;
  }
  fclose(maps);
}

int main(int count, char** arguments) {
  CHECK(count == 6);
  path = arguments[1], port = atoi(arguments[2]), victim = atoi(arguments[3]);
  friday_stub_code = strtoul(arguments[4], NULL, 0), friday_stub_table = strtoul(arguments[5], NULL, 0);
  look_for_shim();
  if (entry) attacked();
  return success();
}
