#include "words.h"

#include <stdlib.h>
#include <string.h>

int words_verbose = 1;

void add_word(struct words* words, const char* text) {
  size_t length = strlen(text);
  struct word* word = malloc(sizeof *word + length + 1);
  if (!word) abort();
  memcpy(word->text, text, length + 1);
  word->length = length;
  word->next = words->first;
  words->first = word;
  words->count++;
  if (words->added) words->added(word);
}

const struct word* longest(const struct words* words) {
  const struct word* best = words->first;
  for (const struct word* each = words->first; each; each = each->next)
    if (each->length > best->length) best = each;
  return best;
}
