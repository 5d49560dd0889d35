// What every target uses: a check that names its place, and the success line that the runner looks for.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition)                                                                                        \
  do {                                                                                                          \
    if (!(condition)) {                                                                                         \
      dprintf(2, "%s:%d: failed: %s (errno %d, %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
      _exit(1);                                                                                                 \
    }                                                                                                           \
  } while (0)

static inline int success(void) {
  CHECK(puts("SUCCESS") >= 0 && fflush(stdout) == 0);
  return 0;
}
