// What a program is started with: arguments, environment, auxiliary vector, its own name, limits, terminal or none; and what the
// loader left in registers that nobody sets, which libraries pass on as arguments of calls that have fewer.
#include <elf.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#include "check.h"

extern char** environ;

// The first code of the program that runs: before the constructors of its libraries.
unsigned long left_in_registers[4];
__attribute__((naked)) static void first(void) {
  __asm__("mov %r8, left_in_registers(%rip)\n\t"
          "mov %r9, 8+left_in_registers(%rip)\n\t"
          "mov %r10, 16+left_in_registers(%rip)\n\t"
          "mov %r11, 24+left_in_registers(%rip)\n\t"
          "ret");
}
__attribute__((section(".preinit_array"), used)) static void (*const at_first)(void) = first;

int main(int argc, char** argv) {
  const unsigned long* left = left_in_registers;
  CHECK(prctl(PR_CAPBSET_READ, 0, left[0], left[1], left[2]) >= 0);
  for (int i = 1; i < argc; i++) printf("argument %d: %s\n", i, argv[i]);
  int known = 0;
  for (char** e = environ; *e; e++)
    if (strncmp(*e, "TARGET_", 7) == 0) printf("%s\n", *e), known++;
  printf("%d variables of ours\n", known);
  CHECK(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_ENTRY) && getauxval(AT_UID) == getuid() && getauxval(AT_SECURE) == 0);
  CHECK(strstr((char*)getauxval(AT_EXECFN), "environment"));
  char name[16], exe[4096];
  CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "environment") == 0 && prctl(PR_SET_NAME, "renamed") == 0);
  ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
  CHECK(n > 0 && (exe[n] = 0, strstr(exe, "environment")));
  struct utsname system;
  CHECK(uname(&system) == 0 && strcmp(system.sysname, "Linux") == 0);
  printf("stdin %s a terminal\n", isatty(0) ? "is" : "is not");
  setenv("TARGET_NEW", "value", 1);
  CHECK(strcmp(getenv("TARGET_NEW"), "value") == 0);
  return success();
}
