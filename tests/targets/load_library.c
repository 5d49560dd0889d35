// Libraries loaded at run time, one of which makes calls by instructions of its own; loaded, used, unloaded, loaded again.
#include <dlfcn.h>

#include "check.h"

int main(int argc, char** argv) {
  void* math = dlopen("libm.so.6", RTLD_NOW);
  CHECK(math);
  double (*cosine)(double) = (double (*)(double))dlsym(math, "cos");
  CHECK(cosine && cosine(0) == 1.0);
  char path[4096];
  CHECK(argc > 0 && snprintf(path, sizeof path, "%s_part.so", argv[0]) > 0);
  for (int i = 0; i < 5; i++) {
    void* part = dlopen(path, i & 1 ? RTLD_LAZY : RTLD_NOW);
    if (!part) dprintf(2, "%s\n", dlerror());
    CHECK(part);
    long (*pid)(void) = (long (*)(void))dlsym(part, "part_pid");
    long (*times)(int) = (long (*)(int))dlsym(part, "part_times");
    unsigned long long (*ticks)(void) = (unsigned long long (*)(void))dlsym(part, "part_ticks");
    CHECK(pid && times && ticks && pid() == getpid() && times(1000) == 1000);
    unsigned long long before = ticks();
    CHECK(before && ticks() > before);
    CHECK(dlclose(part) == 0);
  }
  CHECK(dlopen("libabsent.so.1", RTLD_NOW) == NULL && dlclose(math) == 0);
  return success();
}
