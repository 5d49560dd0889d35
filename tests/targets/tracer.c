// Tracers: of a forked child that asks to be traced and stops itself, and of programs executed by a forked and a vfork child. Every kind of request that
// reads the child or tells it something, a breakpoint, single steps, and calls shown at entry and exit.
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "check.h"

static volatile int told = 7;
static const char* program;

__attribute__((noinline)) static int planted(int n) { return told * n; }

static int stopped_by(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, __WALL) == child && WIFSTOPPED(status));
  return status >> 8;
}

static void go(enum __ptrace_request how, pid_t child, int signal) { CHECK(ptrace(how, child, 0, signal) == 0); }

static int ended(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, __WALL) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

// Reads and changes the child's variable, registers and signal state while it is stopped, and checks that both ways to read them agree.
static void question(pid_t child) {
  struct user_regs_struct regs, set;
  struct iovec block = {&set, sizeof set};
  CHECK(ptrace(PTRACE_GETREGS, child, 0, &regs) == 0 && ptrace(PTRACE_GETREGSET, child, (void*)NT_PRSTATUS, &block) == 0);
  CHECK(block.iov_len == sizeof set && memcmp(&regs, &set, sizeof set) == 0);
  CHECK(ptrace(PTRACE_SETREGS, child, 0, &regs) == 0 && ptrace(PTRACE_SETREGSET, child, (void*)NT_PRSTATUS, &block) == 0);
  errno = 0;
  CHECK((uint64_t)ptrace(PTRACE_PEEKUSER, child, offsetof(struct user, regs.rip), 0) == regs.rip && errno == 0);
  struct user_fpregs_struct floating;
  CHECK(ptrace(PTRACE_GETFPREGS, child, 0, &floating) == 0 && ptrace(PTRACE_SETFPREGS, child, 0, &floating) == 0);
  uint64_t base = 0;
  CHECK(syscall(SYS_ptrace, 30 /* PTRACE_ARCH_PRCTL */, child, &base, 0x1003 /* ARCH_GET_FS */) == 0 && base == regs.fs_base);
  const int word = (int)ptrace(PTRACE_PEEKDATA, child, &told, 0);
  CHECK(word == 7 && ptrace(PTRACE_POKEDATA, child, &told, (ptrace(PTRACE_PEEKDATA, child, &told, 0) & ~0xffffffffl) | 9) == 0);
  int read_back = 0;
  struct iovec here = {&read_back, sizeof read_back}, there = {(void*)&told, sizeof told};
  CHECK(process_vm_readv(child, &here, 1, &there, 1, 0) == sizeof told && read_back == 9);
  siginfo_t info;
  CHECK(ptrace(PTRACE_GETSIGINFO, child, 0, &info) == 0 && info.si_signo == SIGSTOP && ptrace(PTRACE_SETSIGINFO, child, 0, &info) == 0);
  uint64_t mask = 1;
  CHECK(ptrace(PTRACE_GETSIGMASK, child, 8, &mask) == 0 && mask == 0 && ptrace(PTRACE_SETSIGMASK, child, 8, &mask) == 0);
}

// The child waits for nobody; the parent finds its own breakpoint in it, and steps.
static void break_in(pid_t child) {
  const uint64_t address = (uint64_t)planted;
  errno = 0;
  const long code = ptrace(PTRACE_PEEKTEXT, child, address, 0);
  CHECK(errno == 0 && ptrace(PTRACE_POKETEXT, child, address, (code & ~0xffl) | 0xcc) == 0);
  go(PTRACE_CONT, child, 0);
  CHECK(stopped_by(child) == SIGTRAP);
  struct user_regs_struct regs;
  CHECK(ptrace(PTRACE_GETREGS, child, 0, &regs) == 0 && regs.rip == address + 1 && (int)regs.rdi == 6);
  regs.rip = address;
  CHECK(ptrace(PTRACE_SETREGS, child, 0, &regs) == 0 && ptrace(PTRACE_POKETEXT, child, address, code) == 0);
  uint64_t path = 0;
  for (int i = 0; i < 20; i++) {
    go(PTRACE_SINGLESTEP, child, 0);
    CHECK(stopped_by(child) == SIGTRAP && ptrace(PTRACE_GETREGS, child, 0, &regs) == 0);
    path = path * 31 + (regs.rip - address);
  }
  CHECK(path);
}

static void forked(void) {
  int mapped = open("/dev/null", O_RDWR);
  const pid_t child = fork();
  if (child == 0) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0 && raise(SIGSTOP) == 0);
    _exit(planted(6));
  }
  CHECK(child > 0 && stopped_by(child) == SIGSTOP);
  CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) == 0);
  question(child);
  break_in(child);
  go(PTRACE_CONT, child, 0);
  CHECK(ended(child) == 54 && close(mapped) == 0);
}

// Counts the calls of the program that the child executes, and how many of them are writes, with what they write.
static void calls_of(pid_t child, int* writes) {
  CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT) == 0);
  int status, executed = 0;
  unsigned long exit_status = ~0ul;
  for (int signal = 0;; signal = 0) {
    go(PTRACE_SYSCALL, child, signal);
    CHECK(waitpid(child, &status, __WALL) == child);
    if (WIFEXITED(status)) break;
    CHECK(WIFSTOPPED(status));
    const int why = status >> 8;
    if (why == (SIGTRAP | 0x80)) {
      struct __ptrace_syscall_info about;
      CHECK(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof about, &about) > 0);
      if (about.op == PTRACE_SYSCALL_INFO_ENTRY && about.entry.nr == SYS_write && about.entry.args[0] == 1) ++*writes;
    } else if (why == (SIGTRAP | PTRACE_EVENT_EXEC << 8)) {
      executed++;
    } else if (why == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
      CHECK(ptrace(PTRACE_GETEVENTMSG, child, 0, &exit_status) == 0);
    } else {
      signal = WSTOPSIG(status);
    }
  }
  CHECK(WEXITSTATUS(status) == 5 && exit_status == 5 << 8 && executed <= 1);
}

static void executed(int by_vfork) {
  static char say[] = "say";
  char* const arguments[] = {(char*)program, say, NULL};
  CHECK(fflush(stdout) == 0);
  const pid_t child = by_vfork ? vfork() : fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(1);
    execv(program, arguments);
    _exit(2);
  }
  CHECK(child > 0 && stopped_by(child) == SIGTRAP);
  int writes = 0;
  calls_of(child, &writes);
  CHECK(writes == 2);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "say") == 0) {
    if (write(1, "one\n", 4) != 4 || write(1, "two\n", 4) != 4) return 1;
    return 5;
  }
  program = argv[0];
  forked();
  executed(0);
  executed(1);
  // A request that is not one, and a process that is no child.
  CHECK(ptrace(PTRACE_CONT, getpid(), 0, 0) == -1 && errno == ESRCH);
  return success();
}
