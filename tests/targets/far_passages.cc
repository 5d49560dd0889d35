// A function that is called three million times between two events, a loop that counts in memory alone, and a function
// that leaves memory as it was. The last two are for a debugger to call.
#include <unistd.h>

#include <cstdint>
#include <cstdio>

constexpr uint64_t kTurns = 3'000'000;
uint64_t sum;
static volatile uint64_t number;

extern "C" __attribute__((noinline, noclone)) void turn(uint64_t value) {
  sum = sum * 3 + value;
  if (sum % 7 == 0) sum += value / 2;
}

extern "C" __attribute__((noinline, noclone)) void again() { number = number + 1; }

static volatile uint64_t scratch;

extern "C" __attribute__((noinline, noclone)) uint64_t twice(uint64_t value) {
  const uint64_t before = scratch;
  scratch = value;
  const uint64_t result = 2 * scratch;
  scratch = before;
  return result;
}

extern "C" __attribute__((noinline, noclone)) uint64_t store_often(uint64_t times) {
  const uint64_t before = scratch;
  for (uint64_t i = 0; i < times; i++) scratch = i;
  scratch = before;
  return times;
}

extern "C" __attribute__((noinline, noclone)) void store_and_fault(volatile int* nowhere) {
  scratch = 77;
  *nowhere = 1;
}

int main() {
  if (write(STDOUT_FILENO, "begin\n", 6) != 6) return 1;
  for (uint64_t i = 1; i <= kTurns; i++) turn(i);
  if (write(STDOUT_FILENO, "half\n", 5) != 5) return 1;
  for (uint64_t i = 1; i <= 2000; i++) again();
  for (uint64_t i = 1; i <= 200; i++) sum += twice(i);
  printf("%llu\n", static_cast<unsigned long long>(sum + number));
  return 0;
}
