// Every 9 ms there is a ticket, and one of two threads is to sell it. The second thread looks 4 ms after the first.
// Each checks that the ticket is there, writes to a log, and then marks it as sold, without a lock: if the first is
// held up between check and mark for more than 4 ms, the ticket is sold twice. The program then ends with 3.
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

#include "check.h"

enum { kRounds = 60, kMillisecond = 1000000, kSecond = 1000 * kMillisecond };

static volatile int sold[kRounds];
static struct timespec start;
static int log_file;

static void wait_until(long ns) {
  struct timespec when = {start.tv_sec + (start.tv_nsec + ns) / kSecond, (start.tv_nsec + ns) % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL) == EINTR) {}
}

static void* sell(void* offset) {
  for (long round = 0; round < kRounds; round++) {
    wait_until(round * 9 * kMillisecond + (long)offset);
    if (sold[round]) continue;
    CHECK(write(log_file, "sold\n", 5) == 5);
    sold[round]++;
  }
  return NULL;
}

int main(void) {
  pthread_t threads[2];
  CHECK((log_file = open("/dev/null", O_WRONLY)) >= 0 && clock_gettime(CLOCK_MONOTONIC, &start) == 0);
  for (long i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, sell, (void*)((1 + 4 * i) * kMillisecond)) == 0);
  for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  for (int round = 0; round < kRounds; round++)
    if (sold[round] > 1) {
      dprintf(2, "ticket %d was sold twice\n", round);
      return 3;
    }
  return success();
}
