/* Debuggee of the GDB/MI tests: plain C that ends as its first argument says. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct state {
  int value;
  const char* text;
};

struct state state = {1, "tab\t quote\" backslash\\ \001\002 \303\251 \377"};

static int step(int n) {
  state.value += n;
  return state.value;
}

int main(int argc, char** argv) {
  step(1);
  step(2);
  if (argc > 1 && strcmp(argv[1], "abort") == 0) abort();
  if (argc > 1 && strcmp(argv[1], "segv") == 0) *(volatile int*)8 = 1;
  return argc > 1 && strcmp(argv[1], "fail") == 0 ? 42 : 0;
}
