// Signals and threads: to one thread in a blocking read, to the process with one thread that waits for it, masks inherited.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

#include "check.h"

static int p[2];
static sem_t ready;
static pthread_t reader;
static volatile int handled_by_reader;

static void handler(int number) {
  (void)number;
  handled_by_reader = pthread_equal(pthread_self(), reader);
}

static void* blocked_in_read(void* unused) {
  (void)unused;
  char byte;
  sem_post(&ready);
  ssize_t n;
  while ((n = read(p[0], &byte, 1)) == 1) {
  }
  CHECK(n == -1 && errno == EINTR);
  return NULL;
}

static void* wait_for_signals(void* set) {
  int number, sum = 0;
  while (sigwait(set, &number) == 0 && number != SIGTERM) sum += number == SIGUSR2, sem_post(&ready);
  return (void*)(long)sum;
}

int main(void) {
  struct sigaction action = {.sa_handler = handler};
  sigaction(SIGUSR1, &action, NULL);
  CHECK(pipe(p) == 0);
  sem_init(&ready, 0, 0);
  pthread_create(&reader, NULL, blocked_in_read, NULL);
  sem_wait(&ready);
  while (!handled_by_reader) {  // the first may come before the read blocks; then it blocks and the next one ends it
    CHECK(pthread_kill(reader, SIGUSR1) == 0);
    usleep(2000);
  }
  void* result;
  while (pthread_tryjoin_np(reader, &result) == EBUSY) {
    pthread_kill(reader, SIGUSR1);
    usleep(2000);
  }

  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  sigaddset(&set, SIGTERM);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
  pthread_t waiter;
  pthread_create(&waiter, NULL, wait_for_signals, &set);
  for (int i = 0; i < 10; i++) {
    CHECK(kill(getpid(), SIGUSR2) == 0);
    sem_wait(&ready);
  }
  kill(getpid(), SIGTERM);
  CHECK(pthread_join(waiter, &result) == 0);
  printf("%ld\n", (long)result);
  return success();
}
