// A variable that is read and stored to in all the ways that a watch of reads must tell apart, each by one instruction.
#include <pthread.h>

#include "check.h"

volatile long value, beside;  // on one page
static volatile long copies[2];

__attribute__((noinline)) static long read_it(void) {
  long found;
  __asm__ volatile("movq %1, %0" : "=r"(found) : "m"(value));
  return found;
}

__attribute__((noinline)) static void store(long wanted) { __asm__ volatile("movq %1, %0" : "=m"(value) : "r"(wanted)); }
__attribute__((noinline)) static void add(long more) { __asm__ volatile("addq %1, %0" : "+m"(value) : "r"(more)); }

__attribute__((noinline)) static void copy(void) {
  const volatile void* from = &value;
  volatile void* to = copies;
  long size = sizeof value;
  __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(size) : : "memory");
}

__attribute__((noinline)) static void* by_thread(void* unused) {
  (void)unused;
  copies[1] = read_it();
  return NULL;
}

int main(void) {
  int ends[2];
  pthread_t thread;
  store(1);
  CHECK(read_it() == 1);
  beside = 1;
  store(1);
  add(4);
  copy();
  CHECK(copies[0] == 5);
  CHECK(pipe(ends) == 0);
  CHECK(write(ends[1], (const void*)&value, sizeof value) == sizeof value);  // read by a system call
  store(7);
  beside = 2;
  CHECK(read(ends[0], (void*)&value, sizeof value) == sizeof value);  // stored by one
  CHECK(pthread_create(&thread, NULL, by_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(copies[1] == 5);
  return success();
}
