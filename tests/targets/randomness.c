// Values that no two runs share: getrandom, /dev/urandom, AT_RANDOM, addresses.
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/random.h>

#include "check.h"

int main(void) {
  unsigned long a[64], b, c;
  CHECK(getrandom(a, sizeof a, 0) == sizeof a && getentropy(&b, sizeof b) == 0);
  int fd = open("/dev/urandom", O_RDONLY);
  CHECK(fd >= 0 && read(fd, &c, sizeof c) == sizeof c && close(fd) == 0);
  unsigned long sum = b ^ c ^ *(unsigned long*)getauxval(AT_RANDOM) ^ (unsigned long)&sum ^ (unsigned long)malloc(100) ^ (unsigned long)main;
  for (int i = 0; i < 64; i++) sum = sum * 31 + a[i];
  srandom((unsigned)sum);
  printf("%lx %ld\n", sum, random());
  for (int i = 0; i < 2000; i++) CHECK(getrandom(&b, sizeof b, GRND_NONBLOCK) == sizeof b);
  return success();
}
