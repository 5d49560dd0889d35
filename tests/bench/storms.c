// Loops that consist of hand-overs between processes or threads. Prints how many there were per second.
//
//   storms pingpong COUNT   a byte goes to another process and back, through two pipes
//   storms futex COUNT      four threads take turns by a mutex and a condition variable, COUNT times each
//   storms fork COUNT       a child is forked, ends, and is waited for
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 4 };

static long count;

static void check(int fine, const char* what) {
  if (fine) return;
  perror(what);
  exit(1);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void pingpong(void) {
  int there[2], back[2];
  char byte = 'x';
  check(pipe(there) == 0 && pipe(back) == 0, "pipe");
  pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) {
    close(there[1]);
    while (read(there[0], &byte, 1) == 1) check(write(back[1], &byte, 1) == 1, "write");
    _exit(0);
  }
  for (long i = 0; i < count; i++) check(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1, "round trip");
  close(there[1]);
  check(waitpid(child, NULL, 0) == child, "waitpid");
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;

static void* take_turns(void* number) {
  for (long i = 0; i < count; i++) {
    pthread_mutex_lock(&mutex);
    while (turn % kThreads != (long)number) pthread_cond_wait(&changed, &mutex);
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  return NULL;
}

static void futexes(void) {
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; i++) check(pthread_create(&threads[i], NULL, take_turns, (void*)i) == 0, "pthread_create");
  for (int i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
}

static void forks(void) {
  for (long i = 0; i < count; i++) {
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0) _exit(0);
    check(waitpid(child, NULL, 0) == child, "waitpid");
  }
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  count = atol(argv[2]);
  double from = now();
  if (strcmp(argv[1], "pingpong") == 0) pingpong();
  else if (strcmp(argv[1], "futex") == 0) futexes();
  else if (strcmp(argv[1], "fork") == 0) forks();
  else return 2;
  printf("%.1f\n", (double)count / (now() - from));
  return 0;
}
