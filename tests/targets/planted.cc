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
struct Bits {
  uint32_t low : 3, kind : 5, wide : 9, rest : 15;
};
struct Record {
  char name[21];  // so that nothing behind it lies where copies by words begin
  Inner inner;
  char text[40];
  uint16_t port;
  Bits bits;
};

// What the sink ends up with.
uint64_t by_copies, by_struct, by_inheritance, by_sharing, by_text, by_half, by_file, constant_value;
uint64_t by_record_file, by_placed_file, by_twin_file, by_own_pipe;
uint64_t *freed, *unmapped;  // what they point to was given back
uint32_t by_network_order;
std::string by_string;
Record record;
Bits by_bits, from_start = {1, 21, 300, 0};

static volatile uint64_t seed = 12345;
static uint64_t* shared;

extern "C" {
PLANT uint64_t plant_value() { return seed * 3 + 7; }
PLANT uint64_t plant_inherited() { return seed * 5 + 1; }
PLANT uint64_t plant_shared() { return seed * 11 + 2; }
PLANT uint64_t plant_in_file() { return seed * 13 + 5; }
PLANT uint64_t plant_in_pipe() { return seed * 19 + 8; }
PLANT uint32_t plant_network_order() { return static_cast<uint32_t>(seed) * 17 + 0x01020304; }
PLANT uint32_t plant_kind() { return static_cast<uint32_t>(seed * 23 + 9) % 31 + 1; }
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

// Two writes to a file, one behind the other; two at places of their own, the later of which is read; and two that are
// the same.
static void write_files() {
  struct {
    uint64_t number, value;
  } line = {1, plant_in_file()}, other = {2, ~line.value};
  const int records = open("planted.records", O_CREAT | O_TRUNC | O_RDWR, 0600);
  check(write(records, &line, sizeof line) == sizeof line && write(records, &other, sizeof other) == sizeof other,
        "write");
  const int placed = open("planted.placed", O_CREAT | O_TRUNC | O_RDWR, 0600);
  check(
      pwrite(placed, &other, sizeof other, 64) == sizeof other && pwrite(placed, &line, sizeof line, 64) == sizeof line,
      "pwrite");
  const int twins = open("planted.twins", O_CREAT | O_TRUNC | O_RDWR, 0600);
  for (int i = 0; i < 2; i++) check(write(twins, &line, sizeof line) == sizeof line, "write");
}

static void read_files() {
  uint64_t words[2];
  const int records = open("planted.records", O_RDONLY), placed = open("planted.placed", O_RDONLY),
            twins = open("planted.twins", O_RDONLY);
  check(read(records, words, sizeof words) == sizeof words, "read");
  by_record_file = words[1];
  check(pread(placed, words, 8, 72) == 8, "pread");
  by_placed_file = words[0];
  check(read(twins, words, sizeof words) == sizeof words, "read");
  by_twin_file = words[1];
  check(unlink("planted.records") == 0 && unlink("planted.placed") == 0 && unlink("planted.twins") == 0, "unlink");
  int own[2];
  uint64_t values[2] = {0, plant_in_pipe()};
  check(pipe(own) == 0 && write(own[1], values, sizeof values) == sizeof values, "pipe");
  check(read(own[0], words, 12) == 12 && read(own[0], reinterpret_cast<char*>(words) + 12, 4) == 4, "read");
  by_own_pipe = words[1];
}

static void source(int out) {
  static Record made;
  made.inner.number = __builtin_bswap32(plant_network_order());
  made.inner.value = plant_value();
  plant_text(made.text);
  made.port = plant_port();
  made.bits.low = 2;
  made.bits.kind = plant_kind();
  made.bits.wide = 400;
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
    write_files();
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
  by_bits = record.bits;
  for (volatile int i = 0; i < 5; i++) {  // its neighbours change
    by_bits.low = static_cast<unsigned>(i) & 7;
    by_bits.wide = by_bits.wide + 1u;
    from_start.low = static_cast<unsigned>(i) & 7;
  }
  by_text = strtoull(std::to_string(by_copies).c_str(), nullptr, 10);
  constant_value = 4711;
  freed = static_cast<uint64_t*>(malloc(64));
  unmapped = static_cast<uint64_t*>(malloc(4 << 20));
  freed[4] = unmapped[4] = by_copies;
  asm volatile("" : : : "memory");
  free(freed);
  free(unmapped);
  const int file = open("/proc/self/exe", O_RDONLY);
  check(file >= 0 && pread(file, &by_file, sizeof by_file, 0) == sizeof by_file, "pread");
  read_files();
  arrived();
  return 0;
}
