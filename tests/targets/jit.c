// Code made at run time, as a JIT does: it makes system calls from a page that was written and then made executable, and from one
// that is written while it runs; both are changed and run again. What they call is recorded like all else.
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>

#include "check.h"

typedef long (*Function)(long a, long b, long c);

// mov $number, %eax; syscall; add $more, %rax; ret
static void generate(unsigned char* at, int number, signed char more) {
  unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x0f, 0x05, 0x48, 0x83, 0xc0, 0, 0xc3};
  memcpy(code + 1, &number, sizeof number);
  code[10] = (unsigned char)more;
  memcpy(at, code, sizeof code);
}

int main(void) {
  // Never writable and executable at once.
  unsigned char* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(page != MAP_FAILED);
  for (int round = 0; round < 100; round++) {
    CHECK(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
    generate(page, SYS_getppid, (signed char)round);
    generate(page + 64, SYS_write, 0);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    CHECK(((Function)page)(0, 0, 0) == getppid() + round);
  }
  CHECK(((Function)(page + 64))(1, (long)"written\n", 8) == 8);
  // Code that is changed where it stands, by itself among others.
  unsigned char* both = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(both != MAP_FAILED);
  generate(both, SYS_getppid, 0);
  for (int round = 0; round < 100; round++) {
    long was = ((Function)both)(0, 0, 0);
    both[10]++;
    CHECK(((Function)both)(0, 0, 0) == was + 1);
  }
  // A read into code: the kernel writes it.
  int ends[2];
  unsigned char fresh[12];
  generate(fresh, SYS_getpid, 0);
  CHECK(pipe(ends) == 0 && write(ends[1], fresh, sizeof fresh) == sizeof fresh && read(ends[0], both, sizeof fresh) == sizeof fresh);
  CHECK(((Function)both)(0, 0, 0) == getpid());
  // What can be read can be executed, for as long as the program wants it so.
  const int before = personality(0xffffffff);
  CHECK(before >= 0 && personality((unsigned long)before | READ_IMPLIES_EXEC) == before);
  unsigned char* plain = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(plain != MAP_FAILED && personality((unsigned long)before) == (before | READ_IMPLIES_EXEC));
  generate(plain, SYS_getppid, 3);
  CHECK(((Function)plain)(0, 0, 0) == getppid() + 3);
  return success();
}
