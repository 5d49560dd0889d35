// What catchpoints are for: exceptions, a signal with a handler, processes made and replaced, and one that dies of a
// fault.
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

namespace app {
struct Broken : std::runtime_error {
  using runtime_error::runtime_error;
};
}  // namespace app

static volatile int told;
static void note(int) { told++; }

static void work(int n) {
  if (n == 3) throw app::Broken("three");  // it throws here
}

__attribute__((noinline)) static void fault() { *(volatile int*)8 = 1; }  // it dies here

int main() {
  signal(SIGUSR1, note);
  for (int i = 0; i < 5; i++) {
    try {
      work(i);
    } catch (const std::exception& error) {
      printf("caught %s\n", error.what());
      fflush(stdout);
    }
    raise(SIGUSR1);
  }
  if (fork() == 0) {
    execl("/no/such/program", "program", (char*)nullptr);
    execl("/bin/true", "true", (char*)nullptr);
    _exit(9);
  }
  int status;
  wait(&status);
  if (fork() == 0) fault();
  wait(&status);
  printf("told %d times, SUCCESS\n", told);
}
