// Loads the libraries that its arguments name, one after the other: load_variants_a.so for a, and so on; -a unloads it again. Each has a
// variable `chosen` and a function `choose` that changes it, of another type and at another place in each.
// tests/e2e/test_debug_variants.py runs several of these programs with different arguments.
#include <dlfcn.h>

#include "check.h"

static long sum;

__attribute__((noinline)) static void between(const char* name) { __asm__ volatile("" : "+r"(name), "+m"(sum)); }

int main(int argc, char** argv) {
  volatile struct {
    unsigned first : 3, second : 5;
  } parts = {5, 9};
  for (int i = 1; i < argc; i++) {
    const int unload = argv[i][0] == '-';
    char path[4096];
    CHECK(snprintf(path, sizeof path, "%s_%s.so", argv[0], argv[i] + unload) > 0);
    void* library = dlopen(path, RTLD_NOW);
    if (!library) dprintf(2, "%s\n", dlerror());
    CHECK(library);
    long (*choose)(int) = (long (*)(int))dlsym(library, "choose");
    CHECK(choose);
    for (int k = 1; k <= 3; k++) sum += choose(k);
    between(argv[i]);
    if (unload) CHECK(dlclose(library) == 0);
  }
  sum += parts.first;
  between("end");
  return success();
}
