// Computes for some milliseconds between two system calls: a replay of it is interrupted by Ctrl-C.
//
//   compute ROUNDS
#include <stdlib.h>
#include <unistd.h>

volatile unsigned long state = 1;

int main(int argc, char** argv) {
  const long rounds = argc > 1 ? atol(argv[1]) : 1;
  for (long i = 0; i < rounds; i++) {
    for (int step = 0; step < 1000000; step++) state = state * 6364136223846793005ul + 1442695040888963407ul;
    getppid();
  }
  return 0;
}
