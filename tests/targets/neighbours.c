// One function stores to several records on one page, by two stores so short that a jump in place of the first displaces the second.
#include "check.h"

struct record {
  char note[16];
  long balance;
};
static struct record records[8] __attribute__((aligned(4096)));

__attribute__((noinline)) void remember(struct record* record, unsigned long first, unsigned long second) {
  __asm__ volatile("mov %[first], (%[note])\n\tmov %[second], 8(%[note])"
                   :
                   : [note] "r"(record->note), [first] "r"(first), [second] "r"(second)
                   : "memory");
}

int main(void) {
  for (unsigned long i = 1; i <= 3000; i++) {
    struct record* record = &records[i % 100 == 0 ? 1 : 2 + i % 6];
    remember(record, i, ~i);
    record->balance++;
    if (i % 50 == 0) CHECK(getppid() > 0);
  }
  CHECK(records[1].balance == 30);
  return success();
}
