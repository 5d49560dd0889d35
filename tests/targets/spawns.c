// Other programs as children: posix_spawn, system, popen, vfork and exec.
#include <spawn.h>
#include <sys/wait.h>

#include "check.h"

extern char** environ;

int main(void) {
  char* echo[] = {"echo", "spawned", NULL};
  pid_t child;
  int status;
  setbuf(stdout, NULL);
  CHECK(posix_spawn(&child, "/bin/echo", NULL, NULL, echo, environ) == 0 && waitpid(child, &status, 0) == child && status == 0);
  CHECK(posix_spawn(&child, "/absent/program", NULL, NULL, echo, environ) == ENOENT);
  CHECK(WEXITSTATUS(system("exit 3")) == 3);
  FILE* pipe = popen("echo from popen", "r");
  char line[64];
  CHECK(pipe && fgets(line, sizeof line, pipe) && strcmp(line, "from popen\n") == 0 && pclose(pipe) == 0);
  child = vfork();
  if (child == 0) {
    execl("/bin/sh", "sh", "-c", "exit 9", NULL);
    _exit(1);
  }
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
  return success();
}
