// A file mapped shared that grows, shrinks and is filled by calls whose bytes the program never has: what lies behind its end
// faults, what comes back reads as zero, and the handler of SIGBUS sees where.
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include "check.h"

enum { kPage = 4096 };
static sigjmp_buf back;
static char* volatile fault_at;

static void on_bus(int signal, siginfo_t* info, void* context) {
  (void)context;
  CHECK(signal == SIGBUS && info->si_code == BUS_ADRERR);
  fault_at = info->si_addr;
  siglongjmp(back, 1);
}

static int faults(char* at) {
  fault_at = NULL;
  if (sigsetjmp(back, 1) == 0) (void)*(volatile char*)at;
  return fault_at == at;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
  CHECK(sigaction(SIGBUS, &action, NULL) == 0);
  char name[] = "ends-XXXXXX", other[] = "from-XXXXXX";
  int fd = mkstemp(name), from = mkstemp(other);
  CHECK(fd >= 0 && from >= 0 && unlink(other) == 0 && ftruncate(fd, kPage + 10) == 0);
  char* map = mmap(NULL, 8 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  CHECK(map != MAP_FAILED);
  CHECK(!faults(map + kPage + 4000) && faults(map + 2 * kPage) && faults(map + 7 * kPage));

  CHECK(pwrite(fd, "grown", 5, 3 * kPage) == 5 && strcmp(map + 3 * kPage, "grown") == 0 && !faults(map + 2 * kPage) && faults(map + 4 * kPage));
  CHECK(fallocate(fd, 0, 0, 5 * kPage) == 0 && !faults(map + 4 * kPage) && faults(map + 5 * kPage));
  strcpy(map + 100, "to be lost");
  int again = open(name, O_RDWR | O_TRUNC);
  CHECK(again >= 0 && faults(map));
  CHECK(truncate(name, 2 * kPage) == 0 && map[100] == 0 && faults(map + 2 * kPage));

  CHECK(write(from, "copied by the kernel", 20) == 20);
  loff_t in = 0, out = 200;
  CHECK(copy_file_range(from, &in, fd, &out, 20, 0) == 20 && out == 220 && memcmp(map + 200, "copied by the kernel", 20) == 0);
  off_t begin = 7;
  CHECK(lseek(fd, 300, SEEK_SET) == 300 && sendfile(fd, from, &begin, 13) == 13 && memcmp(map + 300, "by the kernel", 13) == 0);
  int ends[2];
  out = 400;
  CHECK(pipe(ends) == 0 && write(ends[1], "spliced", 7) == 7 && splice(ends[0], NULL, fd, &out, 7, 0) == 7 && memcmp(map + 400, "spliced", 7) == 0);
  // Whatever was read above decides what is told here.
  unsigned sum = 0;
  for (int i = 0; i < 2 * kPage; i++) sum = sum * 31 + (unsigned char)map[i];
  printf("%u\n", sum);
  CHECK(unlink(name) == 0);
  return success();
}
