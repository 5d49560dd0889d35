// What programs look up about themselves in /proc/self: maps, descriptors, threads, status, environment, limits, memory.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/auxv.h>

#include "check.h"

static volatile int end;
static _Alignas(8) char here[1 << 20];

static void* wait_for_end(void* unused) {
  while (!end) usleep(1000);
  return unused;
}

static size_t slurp(const char* name, char* to, size_t size) {
  int fd = open(name, O_RDONLY);
  size_t have = 0;
  ssize_t got;
  CHECK(fd >= 0);
  while (have < size - 1 && (got = read(fd, to + have, size - 1 - have)) > 0) have += (size_t)got;
  to[have] = 0;
  CHECK(close(fd) == 0);
  return have;
}

static int entries(const char* name) {
  DIR* directory = opendir(name);
  int count = 0;
  CHECK(directory);
  while (readdir(directory)) count++;
  CHECK(closedir(directory) == 0);
  return count - 2;
}

// Each mapping as it is listed can be read if it says so.
static void check_maps(void) {
  unsigned long low, high, mine = (unsigned long)&end, stack = (unsigned long)&low;
  char rights[5];
  int found = 0, mem = open("/proc/self/mem", O_RDONLY);
  CHECK(mem >= 0 && slurp("/proc/self/maps", here, sizeof here) > 100);
  for (char* line = strtok(here, "\n"); line; line = strtok(NULL, "\n")) {
    CHECK(sscanf(line, "%lx-%lx %4s", &low, &high, rights) == 3 && low < high);
    if (mine >= low && mine < high) found += rights[1] == 'w';
    if (stack >= low && stack < high) found += rights[1] == 'w';
    char byte;
    if (rights[0] == 'r' && !strstr(line, "[v")) CHECK(pread(mem, &byte, 1, (off_t)low) == 1);
  }
  CHECK(found == 2 && close(mem) == 0);
}

int main(int argc, char** argv) {
  pthread_t thread;
  CHECK(argc == 1 && pthread_create(&thread, NULL, wait_for_end, NULL) == 0);
  check_maps();
  CHECK(entries("/proc/self/fd") >= 4 && entries("/proc/self/task") == 2 && entries("/proc/self/fdinfo") >= 4);
  CHECK(slurp("/proc/self/status", here, sizeof here) > 100 && strstr(here, "Threads:\t2\n"));
  CHECK(slurp("/proc/self/cmdline", here, sizeof here) == strlen(argv[0]) + 1 && strcmp(here, argv[0]) == 0);
  CHECK(slurp("/proc/self/environ", here, sizeof here) > 0 && slurp("/proc/self/limits", here, sizeof here) > 100);
  CHECK(slurp("/proc/self/auxv", here, sizeof here) % 16 == 0 && slurp("/proc/self/smaps", here, sizeof here) > 100);
  CHECK(slurp("/proc/self/auxv", here, sizeof here) > 0);
  for (const unsigned long* entry = (const unsigned long*)(void*)here; *entry; entry += 2)
    CHECK(*entry != AT_ENTRY || entry[1] == getauxval(AT_ENTRY));
  char path[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  CHECK(length > 0);
  path[length] = 0;
  CHECK(strstr(path, "scan_self") && slurp("/proc/self/comm", here, sizeof here) > 0 && strncmp(here, "scan_self", 9) == 0);
  end = 1;
  CHECK(pthread_join(thread, NULL) == 0);
  return success();
}
