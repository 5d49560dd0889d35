// What a program is started with: arguments, environment, auxiliary vector, its own name, limits, terminal or none.
#include <elf.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#include "check.h"

extern char** environ;

int main(int argc, char** argv) {
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
