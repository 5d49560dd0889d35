// A process that gets messages from another one into its stack, and calls a function often between them. Replayed by
// friday_replay_pauses with a watch there and a breakpoint here.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

constexpr int kMessages = 12;

static volatile int ticks;

extern "C" __attribute__((noinline, noclone)) void tick(int number) { ticks = number; }

extern "C" __attribute__((noinline, noclone)) void receive(int from, char* to) {
  for (int part = 0; part < 4; part++)
    if (read(from, to + 4 * part, 4) != 4) abort();
}

int main() {
  int ends[2];
  if (pipe(ends) != 0) abort();
  if (fork() == 0) {
    for (int i = 0; i < 4 * kMessages; i++) {
      const char part[4] = {static_cast<char>('a' + i % 26), 'b', static_cast<char>(i % 3), 0};
      if (write(ends[1], part, sizeof part) != sizeof part) abort();
    }
    _exit(0);
  }
  char message[16] = {};
  for (int i = 0; i < kMessages; i++) {
    receive(ends[0], message);
    for (int k = 0; k < 20; k++) {
      tick(k);
      message[12] = static_cast<char>(k / 2);
    }
  }
  printf("%d\n", message[4]);
  return wait(nullptr) > 0 ? 0 : 1;
}
