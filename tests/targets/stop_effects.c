// Functions of which core/stop/effects reads what they may change: stop_effects_test asks. main calls those of the C library that are to
// be bound by then.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT __attribute__((used, noinline, noipa))

static char* end;
static long total;

KEPT long effect_none(long a, const long* b) { return a + *b; }
KEPT void effect_variable(long a) { total += a; }
KEPT void effect_pointer(long* a) { *a = 1; }
KEPT long effect_length(const char* text) { return (long)strlen(text) + 1; }
KEPT int effect_compare(const char* a, const char* b) { return strcmp(a, b) == 0 || memcmp(a, b, 2) == 0; }
KEPT long effect_number(const char* text) { return (long)strtoul(text, NULL, 16) + 1; }
KEPT long effect_number_tail(const char* text) { return strtol(text, NULL, 10); }
KEPT long effect_number_rest(const char* text) { return strtol(text, &end, 10); }
KEPT long effect_number_given(const char* text, char** rest) { return strtol(text, rest, 10); }
// Null on one of the ways only.
KEPT long effect_number_perhaps(const char* text, char** rest, int whole) { return strtol(text, whole ? NULL : rest, 10) + 1; }
KEPT long effect_both(const char* text) {
  effect_variable(1);
  return effect_number(text) + effect_length(text);
}
KEPT int effect_unbound(const char* a) { return (int)strspn(a, total ? "a" : "b") + 1; }
KEPT void effect_copy(char* to, const char* from) { strcpy(to, from); }
KEPT int effect_print(const char* text) { return puts(text); }
KEPT long effect_table(long (*function)(const char*), const char* text) { return function(text) + 1; }

KEPT void ready(void) { errno = 0; }

int main(int argc, char** argv) {
  errno = 1;
  char copy[64];
  char* rest = argv[0];
  effect_copy(copy, "12");
  total = effect_none(argc, &total) + effect_length(copy) + effect_compare(copy, argv[0]) + effect_number(copy) + effect_number_tail(copy) +
          effect_number_rest(copy) + effect_number_given(copy, &rest) + effect_number_perhaps(copy, &rest, argc > 1) + effect_both(copy) +
          effect_print(copy) + effect_table(effect_number, copy);
  effect_pointer(&total);
  ready();
  if (argc > 5) total += effect_unbound(copy);
  return total != 1;
}
