// kill(0, SIGNAL), by the program and by a child of it: all of its process group are told once each, and nobody beside.
#include <signal.h>
#include <sys/wait.h>

#include "check.h"

static volatile int count[65];
static void note(int number) { count[number]++; }

int main(void) {
  const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGPIPE, SIGWINCH, SIGPWR, SIGIO, SIGVTALRM, SIGPROF, SIGXCPU, SIGURG, 40, 64};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) CHECK(signal(numbers[i], note) != SIG_ERR);
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) CHECK(kill(0, numbers[i]) == 0 && count[numbers[i]] == 1);
  for (int i = 0; i < 500; i++) CHECK(kill(0, 40) == 0 && count[40] == i + 2);  // as fast as they can be taken
  const pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
      CHECK(kill(0, numbers[i]) == 0 && count[numbers[i]] == (numbers[i] == 40 ? 502 : 2));
    }
    _exit(3);
  }
  int status;
  pid_t found;
  do found = waitpid(child, &status, 0);
  while (found < 0 && errno == EINTR);
  CHECK(found == child && WIFEXITED(status) && WEXITSTATUS(status) == 3);
  for (int i = 0; i < 100; i++) usleep(1000);  // time for what must not come
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    printf("%d: %d\n", numbers[i], count[numbers[i]]);
    CHECK(count[numbers[i]] == (numbers[i] == 40 ? 502 : 2));
  }
  return success();
}
