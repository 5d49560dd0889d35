// Mappings that the kernel sees otherwise than who replays might: neighbours that are one, parts that are gone, and what the loader shows.
// Arguments: `neighbours`, `segment`, `loaded`, `stack`, `fault`.
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <ucontext.h>

#include "check.h"

enum { kPage = 4096 };

// What has come out is compared at replay.
static void tell(unsigned long number) {
  const int fd = open("/dev/null", O_WRONLY);
  CHECK(fd >= 0 && write(fd, &number, sizeof number) == sizeof number && close(fd) == 0);
}

static void two_neighbours(void) {
  const int file = open("odd.map", O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(file >= 0 && unlink("odd.map") == 0);
  char page[kPage];
  for (int i = 0; i < 4; i++) {
    memset(page, 'a' + i, sizeof page);
    CHECK(write(file, page, sizeof page) == sizeof page);
  }
  for (int shared = 0; shared < 2; shared++) {
    const int kind = shared ? MAP_SHARED : MAP_PRIVATE;
    char* room = mmap(NULL, 16 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED);
    CHECK(mmap(room, kPage, PROT_READ, kind | MAP_FIXED, file, 0) == room);
    CHECK(mmap(room + kPage, kPage, PROT_READ, kind | MAP_FIXED, file, kPage) == room + kPage);
    // One mapping to the kernel: it moves and grows as one.
    char* moved = mremap(room, 2 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, room + 8 * kPage);
    CHECK(moved == room + 8 * kPage);
    unsigned long sum = 0;
    for (int i = 0; i < 4; i++) sum = sum * 256 + (unsigned char)moved[i * kPage];
    CHECK(sum == 0x61626364);
    tell(sum);
  }
}

static void part_of_a_segment(void) {
  const int segment = shmget(IPC_PRIVATE, 4 * kPage, 0600);
  CHECK(segment >= 0);
  char* place = mmap(NULL, 8 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(place != MAP_FAILED && shmat(segment, place, SHM_REMAP) == place && shmctl(segment, IPC_RMID, NULL) == 0);
  memset(place, 1, 4 * kPage);
  CHECK(munmap(place, kPage) == 0 && munmap(place + 2 * kPage, kPage) == 0);
  char* between = mmap(place + 2 * kPage, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(between == place + 2 * kPage);
  *between = 5;
  CHECK(shmdt(place) == 0);
  // Both parts are gone, and what stands between them is there.
  for (int i = 0; i < 4; i++) {
    unsigned char resident;
    const int gone = mincore(place + i * kPage, kPage, &resident) != 0;
    CHECK(gone == (i != 2));
    tell((unsigned long)gone);
    if (gone) CHECK(mmap(place + i * kPage, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == place + i * kPage);
  }
  tell((unsigned long)*between);
}

// As a garbage collector does that looks for roots: all writable memory of all libraries.
static int add_up(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size;
  unsigned long* sum = data;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_W)) continue;
    const unsigned char* byte = (const unsigned char*)(info->dlpi_addr + part->p_vaddr);
    for (size_t n = 0; n < part->p_memsz; n++) *sum = *sum * 31 + byte[n];
  }
  return 0;
}

static void what_is_loaded(void) {
  unsigned long sum = 0;
  dl_iterate_phdr(add_up, &sum);
  tell(sum);
}

static sigjmp_buf back;
static ucontext_t at_fault;
static volatile unsigned depth;

static void on_fault(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)info;
  at_fault = *(ucontext_t*)context;
  siglongjmp(back, 1);
}

static void catch_faults(void) {
  static char stack[1 << 16];
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  CHECK(sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
}

__attribute__((noinline)) static unsigned deeper(unsigned most) {
  volatile char room[kPage];
  room[0] = 1;
  depth++;
  return most > 1 ? deeper(most - 1) + (unsigned)room[0] : 1;
}

// A limit that the program sets itself holds at replay: lower, where it ends in a fault, and higher.
static void own_stack(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
  const rlim_t before = limit.rlim_cur;
  catch_faults();
  limit.rlim_cur = 1 << 20;
  CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
  if (sigsetjmp(back, 1) == 0) CHECK(deeper(4000) == 0);
  CHECK(depth > 100 && depth < 300);
  tell(depth);
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > 32 << 20 ? 32 << 20 : limit.rlim_max;
  if (limit.rlim_cur > before) {
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    depth = 0;
    const unsigned pages = (unsigned)((before + (limit.rlim_cur - before) / 2) / (kPage + 256));
    if (sigsetjmp(back, 1) == 0) CHECK(deeper(pages) == pages);
    tell(depth);
  }
}

// Whether a page that may not be written was there depends on what the kernel did around it: a huge page brings it along.
static void in_a_huge_page(void) {
  enum { kHuge = 2 << 20 };
  char* room = mmap(NULL, 2 * kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(room != MAP_FAILED);
  char* huge = (char*)(((uintptr_t)room + kHuge - 1) & ~(uintptr_t)(kHuge - 1));
  (void)madvise(huge, kHuge, MADV_HUGEPAGE);
  huge[0] = 1;
  CHECK(mprotect(huge + 16 * kPage, kPage, PROT_READ) == 0);
  catch_faults();
  if (sigsetjmp(back, 1) == 0) {
    *(volatile char*)(huge + 16 * kPage) = 1;
    CHECK(!"written");
  }
  const greg_t error = at_fault.uc_mcontext.gregs[REG_ERR];
  CHECK(error & 2);
  tell((unsigned long)error);
}

// Addresses that allocators draw by lot (PartitionAlloc, V8) and only wish for: some are those that Friday uses itself.
static void wished_places(void) {
  const uintptr_t wishes[] = {0x100000000000, 0x10ff00000000, 0x118000000000, 0x130000000000, 0x130800000000, 0x14ff00000000, 0x160000000000, 0x18f000000000, 0x200000000000};
  for (unsigned i = 0; i < sizeof wishes / sizeof *wishes; i++) {
    char* got = mmap((void*)wishes[i], 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED && mprotect(got + kPage, 2 * kPage, PROT_READ | PROT_WRITE) == 0);
    memset(got + kPage, (int)i + 1, 2 * kPage);
    CHECK(madvise(got + kPage, kPage, MADV_DONTNEED) == 0 && got[kPage] == 0 && got[2 * kPage] == (char)(i + 1));
    if (i % 2) CHECK(munmap(got, kPage) == 0 && munmap(got + 3 * kPage, (1 << 20) - 3 * kPage) == 0);
    // Where something is, another wish finds another place.
    CHECK(mmap((void*)wishes[i], kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED ? errno == EEXIST : got != (void*)wishes[i] || i % 2);
    tell((unsigned char)got[2 * kPage]);
  }
}

int main(int count, char** arguments) {
  CHECK(count == 2);
  if (!strcmp(arguments[1], "neighbours")) two_neighbours();
  else if (!strcmp(arguments[1], "segment")) part_of_a_segment();
  else if (!strcmp(arguments[1], "loaded")) what_is_loaded();
  else if (!strcmp(arguments[1], "stack")) own_stack();
  else if (!strcmp(arguments[1], "fault")) in_a_huge_page();
  else if (!strcmp(arguments[1], "wishes")) wished_places();
  else CHECK(!"known");
  return success();
}
