// Linked into each file of a program that counts for a profile (counting.h). When the file is loaded, its counters move
// into files in the directory that FRIDAY_COUNTS names, one a module, which are mapped in their place (MAP_SHARED). So
// nothing has to be written later: a process that is killed has its counts, and its children count in the same files,
// as whichever user they run. What is executed has files of its own.
//
// Without FRIDAY_COUNTS the program runs as usual, and its counts are lost.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
extern char __start_friday_counts[] __attribute__((weak, visibility("hidden")));
extern char __stop_friday_counts[] __attribute__((weak, visibility("hidden")));
}

namespace {

constexpr uint64_t kPageBytes = 4096;

// See core/cut/counts.h.
struct CountsHead {
  char magic[8];
  uint32_t version, name_length;
  char fingerprint[32];
  uint64_t blocks, lengths;
};

uint64_t file_bytes(const CountsHead& head) {
  return sizeof head + (head.name_length + 7) / 8 * 8 + (head.blocks + head.lengths) * sizeof(uint64_t);
}

bool write_whole(int fd, const char* bytes, uint64_t count) {
  while (count > 0) {
    const ssize_t written = write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= static_cast<uint64_t>(written);
  }
  return true;
}

// Moves a module's counters into a file. Those that have counted already come along.
bool move_to_file(char* counters, const char* directory, unsigned number) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  char path[4096];
  const int length = snprintf(path, sizeof path, "%s/%d-%llx%09lx-%u.counts", directory, static_cast<int>(getpid()),
                              static_cast<unsigned long long>(now.tv_sec), now.tv_nsec, number);
  if (length < 0 || static_cast<size_t>(length) >= sizeof path) return errno = ENAMETOOLONG, false;
  const uint64_t bytes = file_bytes(*reinterpret_cast<CountsHead*>(counters));
  const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return false;
  const bool moved = fchmod(fd, 0644) == 0 && write_whole(fd, counters, bytes) &&
                     mmap(counters, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
  const int why = errno;
  if (!moved) unlink(path);
  close(fd);
  errno = why;
  return moved;
}

__attribute__((constructor(101))) void start_counting() {
  const char* const directory = getenv("FRIDAY_COUNTS");
  if (!directory || !*directory) return;
  const int before = errno;
  unsigned number = 0;
  for (char* at = __start_friday_counts; at < __stop_friday_counts;) {
    const uint64_t bytes = file_bytes(*reinterpret_cast<CountsHead*>(at));
    if (!move_to_file(at, directory, number++)) {
      fprintf(stderr, "friday: process %d is not counted in the profile: no file in %s (FRIDAY_COUNTS): %s\n",
              static_cast<int>(getpid()), directory, strerror(errno));
      break;
    }
    at += (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  errno = before;
}

}  // namespace
