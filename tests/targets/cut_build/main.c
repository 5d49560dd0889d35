#include <stdio.h>

#include "words.h"

static long seen;

static void note(const struct word* word) {
  seen += (long)word->length;
  if (words_verbose) printf("added %s\n", word->text);
}

int main(int argc, char** argv) {
  struct words words = {NULL, 0, note};
  for (int i = 1; i < argc; i++) add_word(&words, argv[i]);
  if (words.count > 0) printf("%ld words, %ld letters, longest %s\n", words.count, seen, longest(&words)->text);
#ifdef WITH_TWICE
  printf("twice %ld\n", twice(seen));
#endif
  return 0;
}
