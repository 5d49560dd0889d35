// Stopping and going on: a child is stopped while it waits, while it computes and by itself; its parent is told of each, and the
// handler of SIGCONT runs when it goes on. A stop that a handler takes in the terminal's place is none.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

static volatile sig_atomic_t continued, caught;
static void on_continue(int signal) {
  (void)signal;
  continued++;
}
static void on_terminal(int signal) {
  (void)signal;
  caught++;
}

static void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  CHECK(sigaction(signal, &action, NULL) == 0);
}

// Says over `to` where it stands and waits on `from` for a byte; it ends with how often it was continued.
static int child(int from, int to) {
  char byte;
  handle(SIGCONT, on_continue);
  CHECK(write(to, "1", 1) == 1 && read(from, &byte, 1) == 1);  // stopped in this read
  CHECK(continued == 1);
  CHECK(write(to, "2", 1) == 1);
  while (continued < 2) CHECK(getppid() > 0);  // and here, among calls
  CHECK(write(to, "3", 1) == 1 && read(from, &byte, 1) == 1);
  CHECK(raise(SIGSTOP) == 0 && continued == 3);
  handle(SIGTSTP, on_terminal);
  CHECK(write(to, "4", 1) == 1 && read(from, &byte, 1) == 1 && caught == 1);
  return continued;
}

static void expect_stop(pid_t pid, int number) {
  int status;
  CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == number);
  siginfo_t info;
  CHECK(kill(pid, SIGCONT) == 0 && waitid(P_PID, pid, &info, WCONTINUED) == 0 && info.si_code == CLD_CONTINUED);
}

static void hear(int from, char what) {
  char byte;
  CHECK(read(from, &byte, 1) == 1 && byte == what);
}

int main(void) {
  int down[2], up[2], status;
  CHECK(pipe(down) == 0 && pipe(up) == 0);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) _exit(child(down[0], up[1]));
  hear(up[0], '1');
  CHECK(kill(pid, SIGSTOP) == 0);
  expect_stop(pid, SIGSTOP);
  CHECK(write(down[1], "x", 1) == 1);
  hear(up[0], '2');
  CHECK(kill(pid, SIGSTOP) == 0);
  expect_stop(pid, SIGSTOP);
  hear(up[0], '3');
  CHECK(write(down[1], "x", 1) == 1);  // not before it was seen to go on: another stop takes that back
  expect_stop(pid, SIGSTOP);
  hear(up[0], '4');
  CHECK(kill(pid, SIGTSTP) == 0 && write(down[1], "x", 1) == 1);
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  // One that never runs again is killed where it stands.
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    CHECK(write(up[1], "5", 1) == 1);
    for (;;) pause();
  }
  hear(up[0], '5');
  CHECK(kill(pid, SIGSTOP) == 0 && waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
  CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  return success();
}
