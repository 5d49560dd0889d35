// What no recording sees, one limit of docs/determinism.md for each argument: the output differs at replay.
// private: a file that is written to behind a private mapping. code: `rdtsc` in code made at run time. killed: stores
// of a child that somebody else kills while it computes, into memory that it shares; its process id goes to the file
// `child`.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"

static void private_file(void) {
  char name[] = "unseen-XXXXXX";
  int fd = mkstemp(name);
  CHECK(fd >= 0 && unlink(name) == 0 && write(fd, "old", 3) == 3);
  const volatile char* mapped = mmap(NULL, 3, PROT_READ, MAP_PRIVATE, fd, 0);
  CHECK(mapped != MAP_FAILED && pwrite(fd, "new", 3, 0) == 3);
  printf("%c%c%c\n", mapped[0], mapped[1], mapped[2]);
}

static void code(void) {
  const unsigned char text[] = {0x0f, 0x31, 0xc3};  // rdtsc; ret
  unsigned char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  memcpy(page, text, sizeof text);
  printf("%u\n", ((unsigned (*)(void))page)());
}

static void killed(void) {
  volatile unsigned long* count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int begin[2];  // the parent could not write the file while the child computes
  CHECK(count != MAP_FAILED && pipe(begin) == 0);
  pid_t child = fork();
  CHECK(child >= 0);
  if (child == 0) {
    char byte;
    CHECK(read(begin[0], &byte, 1) == 1);
    alarm(60);  // if nobody kills it
    for (;;) ++*count;
  }
  FILE* told = fopen("child", "w");
  CHECK(told && fprintf(told, "%d\n", child) > 0 && fclose(told) == 0);
  CHECK(write(begin[1], "", 1) == 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  printf("%lu\n", *count);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  if (!strcmp(argv[1], "private")) private_file();
  else if (!strcmp(argv[1], "code")) code();
  else killed();
  return success();
}
