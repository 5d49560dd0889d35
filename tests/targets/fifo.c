// A pipe with a name, between parent and child: each open waits for the other's.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

int main(void) {
  char name[] = "fifo-XXXXXX", text[16];
  CHECK(mkdtemp(name) && chdir(name) == 0 && mkfifo("f", 0600) == 0);
  pid_t child = fork();
  if (child == 0) {
    int writer = open("f", O_WRONLY);
    CHECK(writer >= 0 && write(writer, "through it", 10) == 10);
    _exit(0);
  }
  int reader = open("f", O_RDONLY);
  CHECK(reader >= 0 && read(reader, text, sizeof text) == 10 && read(reader, text, 1) == 0);
  CHECK(waitpid(child, NULL, 0) == child && unlink("f") == 0 && chdir("..") == 0 && rmdir(name) == 0);
  return success();
}
