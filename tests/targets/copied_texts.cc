// Texts of many lengths, copied as programs copy them. test_origin.py follows each copy back to its source.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

constexpr int kCopies = 24;
constexpr int kLengths[kCopies] = {1,  2,  3,  4,  5,  7,  8,  9,  12, 15,  16,  17,
                                   23, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 200};

struct Block {
  char text[44];
};
struct Pair {
  char from[208], by_memcpy[208], by_strcpy[208], by_snprintf[208];
  Block block, by_struct;
  std::string string, by_string;
};
Pair pairs[kCopies];
char joined[208];

static volatile unsigned seed = 7;

extern "C" __attribute__((noinline, noclone)) void plant(char* text, int length) {
  for (int i = 0; i < length; i++) text[i] = static_cast<char>('!' + (seed * 5 + static_cast<unsigned>(i) * 11) % 90);
}
extern "C" __attribute__((noinline, noclone)) void arrived() { asm volatile(""); }

int main() {
  for (int k = 0; k < kCopies; k++) {
    Pair& pair = pairs[k];
    plant(pair.from, kLengths[k]);
    memcpy(pair.by_memcpy, pair.from, static_cast<size_t>(kLengths[k]));
    strcpy(pair.by_strcpy, pair.from);
    snprintf(pair.by_snprintf, sizeof pair.by_snprintf, "%s", pair.from);
    plant(pair.block.text, std::min<int>(kLengths[k], sizeof pair.block.text - 1));
    pair.by_struct = pair.block;
    pair.string = pair.from;
    pair.by_string = pair.string;
  }
  memcpy(joined, pairs[10].from, 16);
  memcpy(joined + 16, pairs[20].from, 60);
  arrived();
  return 0;
}
