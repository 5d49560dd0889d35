// Children of all kinds: eight at once, one that is killed, one that stops and goes on, a grandchild, one never waited for.
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static pid_t start(void (*work)(int), int argument) {
  fflush(stdout);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    work(argument);
    _exit(argument);
  }
  return child;
}

static void print_number(int n) {
  char line[32];
  int length = snprintf(line, sizeof line, "child %d\n", n);
  CHECK(write(3, line, (size_t)length) == length);
}
static void stop_oneself(int n) {
  (void)n;
  raise(SIGSTOP);
}
static void have_child(int n) {
  pid_t child = start(print_number, n + 10);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == n + 10);
}

int main(void) {
  int p[2], status, seen = 0;
  CHECK(pipe(p) == 0 && dup2(p[1], 9) == 9 && dup2(p[0], 8) == 8 && dup2(9, 3) == 3 && close(9) == 0);
  close(4);
  for (int i = 0; i < 8; i++) start(print_number, i);
  for (int i = 0; i < 8; i++) {
    CHECK(waitpid(-1, &status, 0) > 0 && WIFEXITED(status));
    seen |= 1 << WEXITSTATUS(status);
  }
  CHECK(seen == 255 && waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD);

  pid_t child = start(stop_oneself, 0);
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
  CHECK(waitpid(child, &status, WNOHANG) == 0 && kill(child, SIGKILL) == 0);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

  child = start(stop_oneself, 5);
  CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && kill(child, SIGCONT) == 0);
  siginfo_t info;
  CHECK(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 5 && info.si_code == CLD_EXITED);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);

  child = start(have_child, 20);
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 20);
  close(3);
  char text[4096];
  size_t length = 0;
  for (ssize_t n; (n = read(8, text + length, sizeof text - length)) > 0;) length += (size_t)n;
  int lines = 0;
  for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
  printf("%d lines\n", lines);
  CHECK(lines == 9);
  start(exit, 0);
  return success();
}
