/* A list of words: the parts of a small program that tests/e2e/test_cut_build.py builds in several ways. */
#ifndef WORDS_H
#define WORDS_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct word {
  struct word* next;
  size_t length;
  char text[];
};

struct words {
  struct word* first;
  long count;
  void (*added)(const struct word*);
};

void add_word(struct words* words, const char* text);
const struct word* longest(const struct words* words);
long twice(long number); /* of the assembler: twice.S */
extern int words_verbose;

#ifdef __cplusplus
}
#endif
#endif
