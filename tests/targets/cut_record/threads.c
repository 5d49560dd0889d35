// Four threads enter the module, which calls back and blocks; then a child process goes on with it.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "threads_module.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long work(long v, void* p) {
  usleep(random() % 50);
  long mine = v;
  count_add(&mine);
  return mine + random() % 10;
}
static void* run(void* number) {
  long sum = 0;
  for (int i = 0; i < 200; i++) {
    struct item* it = malloc(sizeof *it);
    memset(it, 0, sizeof *it);
    it->value = random() % 1000;
    it->work = work;
    count_shared = (long)number * 1000 + i;
    sum += count_item(it);
    if (i % 3 == 0) {
      pthread_mutex_lock(&lock);
      count_add(&sum);
      pthread_mutex_unlock(&lock);
    }
    free(it);
  }
  return (void*)sum;
}
int main(void) {
  srandom(time(0) ^ getpid());
  pthread_t t[4];
  for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, run, (void*)i);
  long all = 0;
  void* r;
  for (int i = 0; i < 4; i++) {
    pthread_join(t[i], &r);
    all += (long)r;
  }
  pid_t c = fork();
  if (c == 0) {
    long x = random();
    for (int i = 0; i < 50; i++) count_add(&x);
    printf("child %ld\n", x);
    exit(0);
  }
  for (int i = 0; i < 20; i++) count_add(&all);
  printf("%ld\n", all);
  return 0;
}
