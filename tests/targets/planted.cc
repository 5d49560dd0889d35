// Values whose way is known: a source plants them, a relay passes them on, and a sink ends up with each in a global
// variable. test_origin.py follows them back. The first process is the sink; it forks the other two.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define PLANT __attribute__((noinline, noclone))

struct Inner {
  uint32_t number;
  uint64_t value;
};
struct Record {
  char name[21];  // so that nothing behind it lies where copies by words begin
  Inner inner;
  char text[40];
  uint16_t port;
};

// What the sink ends up with.
uint64_t by_copies, by_struct, by_inheritance, by_sharing, by_text, by_half, by_file, constant_value;
uint32_t by_network_order;
std::string by_string;
Record record;

static volatile uint64_t seed = 12345;
static uint64_t* shared;

extern "C" {
PLANT uint64_t plant_value() { return seed * 3 + 7; }
PLANT uint64_t plant_inherited() { return seed * 5 + 1; }
PLANT uint64_t plant_shared() { return seed * 11 + 2; }
PLANT uint32_t plant_network_order() { return static_cast<uint32_t>(seed) * 17 + 0x01020304; }
PLANT uint16_t plant_port() { return static_cast<uint16_t>(seed * 7); }
PLANT void plant_text(char* text) {
  for (int i = 0; i < 30; i++) text[i] = static_cast<char>('a' + (seed + static_cast<uint64_t>(i) * 3) % 26);
}
PLANT void arrived() { asm volatile(""); }
}

static void check(bool good, const char* what) {
  if (good) return;
  perror(what);
  exit(1);
}

static void read_all(int fd, void* to, size_t size, size_t most) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = read(fd, static_cast<char*>(to) + done, std::min(size - done, most));
    check(got > 0, "read");
    done += static_cast<size_t>(got);
  }
}

static void source(int out) {
  static Record made;
  made.inner.number = __builtin_bswap32(plant_network_order());
  made.inner.value = plant_value();
  plant_text(made.text);
  made.port = plant_port();
  *shared = plant_shared();
  Record local = made;  // a copy of the whole structure
  check(write(out, &local, sizeof local) == sizeof local, "write");
}

static void relay(int in, int out) {
  char buffer[sizeof(Record)];
  read_all(in, buffer, sizeof buffer, 13);  // in parts that end inside of members
  char* moved = static_cast<char*>(malloc(sizeof buffer));
  memcpy(moved, buffer, sizeof buffer);
  iovec parts[] = {{moved, 10}, {moved + 10, sizeof buffer - 10}};
  check(writev(out, parts, 2) == sizeof buffer, "writev");
}

int main() {
  shared = static_cast<uint64_t*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  check(shared != MAP_FAILED, "mmap");
  static uint64_t inherited;
  inherited = plant_inherited();
  int first[2], second[2], up[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, first) == 0 && pipe(second) == 0 && pipe(up) == 0, "socketpair");
  if (fork() == 0) {
    source(first[0]);
    check(write(up[1], &inherited, sizeof inherited) == sizeof inherited, "write");
    _exit(0);
  }
  if (fork() == 0) {
    relay(first[1], second[1]);
    _exit(0);
  }
  uint64_t got;
  read_all(up[0], &got, sizeof got, 8);
  by_inheritance = got;
  static Record received;
  read_all(second[0], &received, sizeof received, sizeof received);
  for (int i = 0; i < 2; i++) wait(nullptr);
  record = received;
  uint64_t moved;
  memmove(&moved, &record.inner.value, sizeof moved);
  by_copies = moved;
  const Inner inner = record.inner;
  by_struct = inner.value;
  by_network_order = __builtin_bswap32(inner.number);
  by_string = std::string(record.text, 30);
  by_sharing = *shared;
  by_half = record.port;
  by_text = strtoull(std::to_string(by_copies).c_str(), nullptr, 10);
  constant_value = 4711;
  const int file = open("/proc/self/exe", O_RDONLY);
  check(file >= 0 && pread(file, &by_file, sizeof by_file, 0) == sizeof by_file, "pread");
  arrived();
  return 0;
}
