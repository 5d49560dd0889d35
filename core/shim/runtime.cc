// What a C library would provide: memory functions, which the compiler also calls by name, and hashing.
#include "core/shim/trace.h"

#define XXH_INLINE_ALL
#define XXH_VECTOR 0  // XXH_SCALAR: the shim may not touch vector registers
#include <xxhash.h>

extern "C" {
// Up to this size memory is copied by words, because `rep movsb` has a start-up cost.
constexpr size_t kShort = 128;
typedef uint64_t __attribute__((may_alias, aligned(1))) Word;

void* memcpy(void* to, const void* from, size_t size) noexcept {
  void* result = to;
  if (size <= kShort) {
    char* d = (char*)to;
    const char* s = (const char*)from;
    for (; size >= 8; size -= 8, d += 8, s += 8) *(Word*)d = *(const Word*)s;
    for (; size; size--) *d++ = *s++;
    return result;
  }
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
  return result;
}
void* memmove(void* to, const void* from, size_t size) noexcept {
  char* d = (char*)to;
  const char* s = (const char*)from;
  if (d <= s || d >= s + size) return memcpy(to, from, size);
  while (size--) d[size] = s[size];
  return to;
}
void* memset(void* to, int byte, size_t size) noexcept {
  void* result = to;
  if (size <= kShort) {
    char* d = (char*)to;
    const uint64_t word = 0x0101010101010101ull * (uint8_t)byte;
    for (; size >= 8; size -= 8, d += 8) *(Word*)d = word;
    for (; size; size--) *d++ = (char)byte;
    return result;
  }
  asm volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(byte) : "memory");
  return result;
}
int memcmp(const void* a, const void* b, size_t size) noexcept {
  const unsigned char *x = (const unsigned char*)a, *y = (const unsigned char*)b;
  for (; size; size--, x++, y++)
    if (*x != *y) return *x - *y;
  return 0;
}
}

namespace friday::shim {

Control control;

uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
  const char* p = (const char*)data;
  for (; size > format::kHashBlock; p += format::kHashBlock, size -= format::kHashBlock)
    seed = XXH3_64bits_withSeed(p, format::kHashBlock, seed);
  if (size > format::kHashBlock) __builtin_unreachable();  // so that XXH3's code for longer inputs is left out
  return XXH3_64bits_withSeed(p, size, seed);
}

uint32_t record_checksum(const void* record, size_t size, uint64_t offset) {
  return (uint32_t)hash_bytes(record, size, offset);
}

void GatheredHash::add(const void* data, uint64_t size) {
  const char* from = (const char*)data;
  while (size) {
    if (filled_ == sizeof block_) {
      hash_ = hash_bytes(block_, sizeof block_, hash_);
      filled_ = 0;
    }
    if (filled_ == 0 && size > sizeof block_) {  // whole blocks where they are
      const uint64_t whole = (size - 1) / sizeof block_ * sizeof block_;
      hash_ = hash_bytes(from, whole, hash_);
      from += whole;
      size -= whole;
    }
    const uint64_t n = min<uint64_t>(size, sizeof block_ - filled_);
    memcpy(block_ + filled_, from, n);
    filled_ += (uint32_t)n;
    from += n;
    size -= n;
  }
}

uint64_t GatheredHash::end() const { return hash_bytes(block_, filled_, hash_); }

uint64_t run_hash(uint64_t contents, uint64_t seed) { return hash_bytes(&contents, sizeof contents, seed); }

}  // namespace friday::shim
