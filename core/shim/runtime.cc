// What a libc would give: memory and hashing. The compiler calls the memory functions by name.
#include "core/shim/runtime.h"

#define XXH_INLINE_ALL
#define XXH_VECTOR 0  // XXH_SCALAR: the shim may not touch vector registers
#include <xxhash.h>

extern "C" {
void* memcpy(void* to, const void* from, size_t size) {
  void* result = to;
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return result;
}
void* memmove(void* to, const void* from, size_t size) {
  char* d = (char*)to;
  const char* s = (const char*)from;
  if (d <= s || d >= s + size) return memcpy(to, from, size);
  while (size--) d[size] = s[size];
  return to;
}
void* memset(void* to, int byte, size_t size) {
  void* result = to;
  asm volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
  return result;
}
int memcmp(const void* a, const void* b, size_t size) {
  const unsigned char *x = (const unsigned char*)a, *y = (const unsigned char*)b;
  for (; size; size--, x++, y++)
    if (*x != *y) return *x - *y;
  return 0;
}
}

namespace friday::shim {

Control control;

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) { return XXH3_64bits_withSeed(data, size, seed); }

uint32_t record_checksum(const void* record, size_t size, uint64_t offset) {
  return (uint32_t)XXH3_64bits_withSeed(record, size, offset);
}

}  // namespace friday::shim
