// See threads.c.
#pragma once
struct item {
  long value;
  struct item* next;
  long (*work)(long, void*);
};
extern long count_shared;
long count_item(struct item*);
void count_add(long*);
