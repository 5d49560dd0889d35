// Ten thousand lines to standard output and some to standard error, buffered in all three ways; echoes its standard input.
#include "check.h"

int main(void) {
  for (int i = 0; i < 10000; i++) printf("line %d of standard output, %x\n", i, i * 2654435761u);
  fflush(stdout);
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (int i = 0; i < 200; i++) {
    printf("line-buffered %d\n", i);
    fprintf(stderr, "standard error %d\n", i);
  }
  setvbuf(stdout, NULL, _IONBF, 0);
  for (int i = 0; i < 100; i++) printf("unbuffered %d\n", i);
  char line[256];
  while (fgets(line, sizeof line, stdin)) printf("read: %s", line);
  return success();
}
