// The module of threads.c: a list, a counter and a history, of which each value depends on all before.
#include "threads_module.h"
#include <stdlib.h>
long count_shared;
static long history = 1;
static struct item* last;
static long seen[16];
static void note(long v) {
  history = (long)((unsigned long)history * 31 + (unsigned long)v);
  seen[history & 15]++;
}
long count_item(struct item* it) {
  note(it->value + count_shared);
  struct item* copy = malloc(sizeof *copy);
  *copy = *it;
  copy->next = last;
  last = copy;
  long r = it->work(history & 0xff, it);
  note(r);
  if (seen[3] % 7 == 0)
    while (last) {
      struct item* n = last->next;
      note(last->value);
      free(last);
      last = n;
    }
  return history;
}
void count_add(long* p) {
  note(*p);
  *p += history & 7;
}
