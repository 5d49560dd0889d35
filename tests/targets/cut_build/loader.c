/* Loads the plug-in that its first argument names. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* part = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  int (*answer)(int) = part ? (int (*)(int))dlsym(part, "answer") : NULL;
  if (!answer) return fprintf(stderr, "%s\n", dlerror()), 1;
  printf("answer %d\n", answer(20));
  return 0;
}
