/* Points on the ring: 64-bit numbers, compared clockwise, and the generator that every choice of a run comes from. */
#include <stdio.h>
#include <stdlib.h>

#include "chord.h"

/* An id from its hexadecimal text, as idtoa() writes it. */
chordID atoid(const char *text) {
  return strtoull(text, NULL, 16);
}

/* Writes 16 digits and a NUL to `text` and returns it. */
char *idtoa(chordID id, char *text) {
  snprintf(text, 17, "%016llx", (unsigned long long)id);
  return text;
}

/*
 * Does *x lie strictly between a and *b, clockwise? With a == *b that is the whole ring but this point. Nodes' ids are
 * passed by address, as links give them; the middle one is the id of a packet and is passed by value.
 */
int is_between(const chordID *x, chordID a, const chordID *b) {
  chordID distance = *x - a;
  chordID width = *b - a;
  return distance != 0 && (width == 0 || distance < width);
}

/* Is x in (a, b], the part of the ring that b owns when a is its predecessor? */
int in_range(chordID x, chordID a, chordID b) {
  return x == b || is_between(&x, a, &b);
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t next_random(uint64_t *state) {
  uint64_t value = mix(*state);
  *state += 0x9e3779b97f4a7c15u;
  return value;
}
