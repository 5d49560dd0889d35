// Recursion through 6 MB of stack, with calls on the way down and up. With `crowded`, code that makes calls is mapped just above the stack
// first, where many kernels put the vdso.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"

static uint32_t descend(int depth) {
  volatile uint8_t frame[1000];
  for (unsigned i = 0; i < sizeof frame; i += 100) frame[i] = (uint8_t)(depth + (int)i);
  if (depth % 64 == 0) CHECK(getpid() > 0);
  uint32_t below = depth ? descend(depth - 1) : 1;
  if (depth % 97 == 0) CHECK(getppid() > 0);
  for (unsigned i = 0; i < sizeof frame; i += 100) {
    CHECK(frame[i] == (uint8_t)(depth + (int)i));
    below = below * 31 + frame[i];
  }
  return below;
}

static void map_code_above_the_stack(const char* library) {
  CHECK(dlopen(library, RTLD_NOW));
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[4096], rights[8];
  unsigned long low, high, offset, top = 0, size = 0, code = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    CHECK(sscanf(line, "%lx-%lx %7s %lx", &low, &high, rights, &offset) == 4);
    if (strstr(line, "load_library_part.so") && rights[2] == 'x') size = high - low, code = offset;
    if (strstr(line, "[stack]")) top = high;
  }
  CHECK(top && size && fclose(maps) == 0);
  int file = open(library, O_RDONLY);
  void *wanted = NULL, *got = MAP_FAILED;
  for (unsigned long above = 0x80000; got == MAP_FAILED && above < 0xc0000; above += 0x4000) {
    wanted = (void*)(top + above);
    got = mmap(wanted, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED_NOREPLACE, file, (off_t)code);
  }
  CHECK(got == wanted && close(file) == 0);
}

int main(int argc, char** argv) {
  if (argc > 1 && !strcmp(argv[1], "crowded")) {
    char path[4096];
    CHECK(snprintf(path, sizeof path, "%.*s/load_library_part.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]) > 0);
    map_code_above_the_stack(path);
  }
  for (int i = 0; i < 3; i++) printf("%08x\n", descend(5900));
  return success();
}
