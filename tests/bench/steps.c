// A program for many stops: it calls tick(), which changes `counter`, COUNT times, and then ready(). With `wait` it then prints a line and
// waits until it is told to end. Its table gives a debugger many different expressions to read; sum(), pair() and add_to() are to be
// called by it.
//
//   steps COUNT [wait]
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct Entry {
  long key, value;
  struct Entry* next;
};

struct Pair {
  long first, second;
};

enum { kEntries = 64 };
volatile long counter, scratch, scratches[8];
struct Entry table[kEntries];
static volatile sig_atomic_t told;

static void stop(int signal_number) { told = signal_number; }

__attribute__((noinline)) void tick(long i) { counter = i; }
__attribute__((noinline, used)) long sum(long a, long b) { return a + b; }
__attribute__((noinline, used)) struct Pair pair(long a, long b) { return (struct Pair){a, b}; }
__attribute__((noinline, used)) void add_to(volatile long* to, long what) { *to += what; }
__attribute__((noinline)) void ready(void) { __asm__ volatile(""); }

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  long count = atol(argv[1]);
  struct sigaction action = {.sa_handler = stop};
  sigset_t term;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigaction(SIGTERM, &action, NULL);
  for (long i = 0; i < kEntries; i++) table[i] = (struct Entry){i, i * i, &table[(i + 1) % kEntries]};
  for (long i = 1; i <= count; i++) tick(i);
  ready();
  if (argc > 2 && !strcmp(argv[2], "wait")) {
    if (write(1, "waits\n", 6) != 6) return 1;
    while (!told) pause();
  }
  return 0;
}
