// Children that execute programs of all kinds: scripts, programs without a dynamic loader, files that are none; with an
// environment of their own; by name, by descriptor, by way of /proc.
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "check.h"

static char* nothing[] = {NULL};

static int status_of(pid_t child) {
  int status;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void* wait_for_the_end(void* unused) {
  pause();
  return unused;
}

static pid_t start(const char* path, char** arguments, char** environment) {
  pid_t child = fork();
  if (child == 0) {
    execve(path, arguments, environment);
    _exit(99);
  }
  return child;
}

int main(int argc, char** argv) {
  char* shell[] = {"sh", "-c", "test -z \"$HOME\" && exit 3", NULL};
  char fixed_path[4096];
  CHECK(argc == 1 && snprintf(fixed_path, sizeof fixed_path, "%.*s/static_crash", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]) < 4096);
  CHECK(status_of(start("/bin/sh", shell, nothing)) == 3);
  // Preloads and tunables of its own.
  char* own[] = {"LD_PRELOAD=libm.so.6", "GLIBC_TUNABLES=glibc.malloc.check=0", NULL};
  char* tests[] = {"sh", "-c", "case $LD_PRELOAD in *libm.so.6) exit 4;; esac", NULL};
  CHECK(status_of(start("/bin/sh", tests, own)) == 4);
  // A script, whose interpreter has an argument.
  FILE* script = fopen("replaced.script", "w");
  CHECK(script && fputs("#!/bin/sh -e\nfalse\nexit 0\n", script) > 0 && fchmod(fileno(script), 0700) == 0 && fclose(script) == 0);
  char* words[] = {"replaced.script", NULL};
  CHECK(status_of(start("./replaced.script", words, environ)) == 1 && unlink("replaced.script") == 0);
  // No program at all.
  CHECK(status_of(start("/etc/passwd", words, environ)) == 99 && status_of(start("/", words, environ)) == 99);
  // By descriptor; with other threads that end then.
  pid_t child = fork();
  if (child == 0) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, wait_for_the_end, NULL) == 0);
    int fd = open("/bin/sh", O_RDONLY | O_CLOEXEC);
    char* five[] = {"sh", "-c", "exit 5", NULL};
    fexecve(fd, five, environ);
    _exit(99);
  }
  CHECK(status_of(child) == 5);
  // What cannot be recorded runs all the same.
  char* fixed[] = {"static_crash", "not at all", NULL};
  CHECK(status_of(start(fixed_path, fixed, environ)) == 44);
  child = vfork();
  if (child == 0) {
    execve(fixed_path, fixed, environ);
    _exit(99);
  }
  CHECK(status_of(child) == 44);
  return success();
}
