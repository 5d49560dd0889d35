// Expressions whose place or value changes with what leads there: indexes, pointers of other types, sums. After each store the
// values are kept, and printed at the end: the witness with which tests/e2e/test_debug_stores.py compares the hits.
#include <stdio.h>
#include <stdlib.h>

struct Item {
  int key;
  long value;
};

enum { kItems = 8, kMoments = 200, kWays = 7 };
static struct Item items[kItems], other[kItems];
static struct Item* chosen = items;
static struct Item *second = other, **path = &chosen;
static void* untyped = items;
static volatile int at, inner[kItems] = {3, 1, 4, 1, 5, 2, 6, 0};
static volatile long low, high;
static volatile unsigned char flags;

static long kept[kMoments][kWays];
static int moments;

static long value_at(const struct Item* item) { return item ? item->value : -1; }

__attribute__((noinline)) static void keep(void) {
  long* now = kept[moments++];
  now[0] = value_at(chosen ? &chosen[at] : 0);
  now[1] = ((struct Item*)untyped)->value;
  now[2] = value_at(*path ? *path : 0);
  now[3] = items[inner[inner[at]]].key;
  now[4] = low + high;
  now[5] = (flags & 6) != 0;
  now[6] = low > high;
}

__attribute__((noinline)) void ready(void) { __asm__ volatile("" ::: "memory"); }

int main(void) {
  unsigned random = 7;
  for (int i = 0; i < kItems; i++) items[i] = (struct Item){i, 10 + i}, other[i] = (struct Item){i, 10 + i % 3};
  keep();
  ready();
  for (int step = 1; step < kMoments; step++) {
    random = random * 1103515245 + 12345;
    const int r = random >> 16 & 0x7fff, i = r % kItems;
    switch (r / kItems % 12) {
      case 0: at = i; break;
      case 1: items[i].value = r % 5; break;
      case 2: other[i].value = r % 5; break;
      case 3: chosen = r & 64 ? other : items; break;
      case 4: untyped = r & 64 ? &other[i] : &items[i]; break;
      case 5: path = r & 64 ? &second : &chosen; break;
      case 6: second = r & 64 ? items + 1 : other + 2; break;
      case 7: inner[i] = (r >> 6) % kItems; break;
      case 8: items[i].key = r % 3; break;
      case 9: low = r % 7; break;
      case 10: high = r % 5; break;
      case 11: flags = (unsigned char)r; break;
    }
    keep();
  }
  for (int way = 0; way < kWays; way++) {
    for (int i = 0; i < moments; i++) printf("%ld ", kept[i][way]);
    printf("\n");
  }
  return 0;
}
