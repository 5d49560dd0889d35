// A server with one module: it reads requests that differ from run to run, and hands them to the module.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "module.h"

static unsigned long served;  // outside
static long bias;

static unsigned noise(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned)now.tv_nsec ^ (unsigned)random();
}

static long score(const struct request* of) { return bias + of->number % 7 + (long)(noise() % 5); }

static void show(const struct entry* entry, void* state) {
  *(long*)state += entry->total;
  served += (unsigned long)entry->count;
}

static void fill(struct request* request, int number) {
  request->number = number;
  snprintf(request->name, sizeof request->name, "name%u", noise() % 5);
  request->length = 16 + noise() % 48;
  request->body = malloc(request->length);
  for (size_t i = 0; i < request->length; i++) request->body[i] = (char)noise();
  request->score = score;
}

int main(int argc, char** argv) {
  const int count = argc > 1 ? atoi(argv[1]) : 20;
  srandom((unsigned)time(NULL) ^ (unsigned)getpid());
  bias = noise() % 10;
  long sum = 0;
  for (int i = 0; i < count; i++) {
    struct request request;
    fill(&request, i);
    module_limit = (int)(noise() % 6);
    struct answer answer = module_handle(&request);
    sum += answer.total + answer.status + answer.text[0];
    free(request.body);
    if (i % 5 == 4) module_visit(show, &sum);
  }
  long numbers[4] = {(long)noise(), 3, (long)noise(), 1};
  qsort(numbers, 4, sizeof *numbers, module_compare);
  module_end();
  printf("%d requests, %lu, %ld\n", count, served, sum + numbers[0]);
  return 0;
}
