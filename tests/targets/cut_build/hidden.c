/* An address that goes through a multiplication is beyond the analysis; whoever checks it must find that out. */
#include <stdint.h>
#include <stdlib.h>

static int secret;
volatile uintptr_t factor = 3;

int main(void) {
  uintptr_t hidden = (uintptr_t)&secret * factor;
  int* again = (int*)(hidden / factor);
  *again = 1;
  return secret == 1 ? 0 : 1;
}
