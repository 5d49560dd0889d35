// Memory that is written past the program's own stores: a child writes into its parent by process_vm_writev, or the program into itself by
// its file in /proc. A call that fails changes nothing.
#include <fcntl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "check.h"

static volatile int there[4];

static void by_child(void) {
  int begin[2];
  char none;
  CHECK(pipe(begin) == 0);
  pid_t parent = getpid(), child = fork();
  CHECK(child >= 0);
  if (!child) {
    int values[4] = {11, 22, 33, 44};
    struct iovec from = {values, sizeof values}, nowhere = {(void*)8, sizeof values}, to = {(void*)there, sizeof there};
    CHECK(process_vm_writev(parent, &from, 1, &nowhere, 1, 0) < 0);
    CHECK(process_vm_writev(parent, &from, 1, &to, 1, 0) == sizeof values);
    CHECK(write(begin[1], "", 1) == 1);
    _exit(0);
  }
  int status;
  CHECK(read(begin[0], &none, 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
}

static void by_file(void) {
  int values[4] = {11, 22, 33, 44};
  CHECK(getppid() > 0);  // something to replay
  int memory = open("/proc/self/mem", O_RDWR);
  CHECK(memory >= 0 && pwrite(memory, values, sizeof values, (off_t)(uintptr_t)there) == sizeof values && close(memory) == 0);
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  if (strcmp(arguments[1], "file")) by_child();
  else by_file();
  if (!strcmp(arguments[1], "unseen")) return success();
  CHECK(there[0] == 11 && there[3] == 44);
  return success();
}
