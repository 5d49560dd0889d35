// Values that no two runs share: getrandom, in the kernel and in the vdso, /dev/urandom, AT_RANDOM, addresses.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "check.h"

typedef ssize_t VdsoGetrandom(void* buffer, size_t size, unsigned flags, void* state, size_t state_size);

// As glibc 2.41 calls it: the loader has asked for the layout of a state (man vgetrandom) before anything was recorded.
static unsigned long from_vdso(void) {
  void* vdso = dlopen("linux-vdso.so.1", RTLD_NOW | RTLD_NOLOAD);
  VdsoGetrandom* call = vdso ? (VdsoGetrandom*)(uintptr_t)dlsym(vdso, "__vdso_getrandom") : NULL;
  if (!call) return 0;
  struct { unsigned size, protection, flags, reserved[13]; } layout = {144, PROT_READ | PROT_WRITE, 8 /* MAP_DROPPABLE */ | MAP_ANONYMOUS, {0}};
  const ssize_t known = call(NULL, 0, 0, &layout, ~0UL);
  CHECK(known == 0 || known == -ENOSYS);
  void* state = mmap(NULL, 4096, (int)layout.protection, (int)layout.flags, -1, 0);
  CHECK(state != MAP_FAILED || errno == EINVAL);
  if (state == MAP_FAILED) state = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  unsigned long value, sum = 0;
  for (int i = 0; i < 100; i++) {
    CHECK(call(&value, sizeof value, 0, state, layout.size) == sizeof value);
    sum = sum * 31 + value;
  }
  return sum;
}

int main(void) {
  unsigned long a[64], b, c;
  CHECK(getrandom(a, sizeof a, 0) == sizeof a && getentropy(&b, sizeof b) == 0);
  int fd = open("/dev/urandom", O_RDONLY);
  CHECK(fd >= 0 && read(fd, &c, sizeof c) == sizeof c && close(fd) == 0);
  unsigned long sum = b ^ c ^ *(unsigned long*)getauxval(AT_RANDOM) ^ (unsigned long)&sum ^ (unsigned long)malloc(100) ^ (unsigned long)main;
  for (int i = 0; i < 64; i++) sum = sum * 31 + a[i];
  sum ^= from_vdso();
  srandom((unsigned)sum);
  printf("%lx %ld\n", sum, random());
  for (int i = 0; i < 2000; i++) CHECK(getrandom(&b, sizeof b, GRND_NONBLOCK) == sizeof b);
  return success();
}
