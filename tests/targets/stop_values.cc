// Debuggee of the expression tests: values of many types at stop_place, and a pointer chain that is changed in every
// way.
#include <cstdint>
#include <cstdio>

enum Colour : int8_t { red = -1, green, blue = 5 };
enum Level { low_level = 1, high_level = 0x80000001 };
enum class State { off, on };
struct Link {
  long value;
  Link* next;
  unsigned low : 3, middle : 7;
  int high : 9;
};
struct Base {
  short base_member = -7;
};
struct Object : Base {
  char letter = 'x';
  double real = 2.5;
  union {
    int whole = 0x01020304;
    unsigned char parts[4];
  };
  long row[5] = {1, -2, 3, -4, 5};
  int& alias;
  explicit Object(int& target) : alias(target) {}
  long sum(int factor) const;
};

Link n5 = {99, nullptr, 1, 2, 3}, n4 = {40, &n5, 5, 100, -200}, n3 = {30, nullptr, 2, 4, 6}, n2 = {10, &n3, 7, 127, -1},
     n1 = {1, &n2, 4, 65, 255};
Link* head = &n1;
int counter = -3;
unsigned big = 4000000000u;
unsigned char small = 200;
uint64_t huge = 0xfedcba9876543210;
bool flag = true;
Colour colour = blue;
Colour* chosen = &colour;
Level level = high_level;
State state = State::on;
float ratio = 0.1f;
char text[16] = "friday";
const char* message = "hello";
int table[3][4] = {{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}};
Object object(counter);
void (*callback)() = nullptr;

long Object::sum(int factor) const {
  long local = factor * 3;
  unsigned short narrow = 65535;
  long* cursor = const_cast<long*>(&row[2]);
  asm volatile("stop_place: .globl stop_place\n nop" : : "r"(cursor) : "memory");
  return local + narrow + *cursor + row[1];
}

extern "C" [[gnu::noinline]] void start_marker() { asm volatile(""); }
extern "C" [[gnu::noinline]] void end_marker() { asm volatile(""); }

static void change_chain() {
  head->next->value = 11;
  head->next->value = 11;
  head->next = &n3;
  n2.value = 99;
  head->value = 2;
  head->next = nullptr;
  head->next = &n2;
  head = &n4;
  head = nullptr;
  head = reinterpret_cast<Link*>(0x10);
  head = &n1;
  n2.low = 1;
  n2.middle = 5;
}

int main() {
  long total = object.sum(7);
  start_marker();
  change_chain();
  end_marker();
  printf("total %ld\n", total);
}
