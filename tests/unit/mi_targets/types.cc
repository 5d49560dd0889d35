// Debuggee of the GDB/MI tests: one of each kind of type and of each way a function can have several addresses. The
// tests stop in inspect(), where everything is in scope.
#include <cstdint>
#include <cstdio>

enum Color { red, green = 5, also_green = 5 };

struct Base {
  int base_field = 7;
  virtual ~Base() {}
};

struct Shared : virtual Base {
  int own = 8;
};

struct Node : Base {
  typedef int Small;
  int id = 3;
  unsigned flag : 3;
  int balance : 5;
  char name[16] = "node three";
  double weight = 2.5;
  Node* next = nullptr;
  static int count;
  Color color = green;
  union {
    int word;
    float real;
  };
  bool ready = true;
  Small small = -4;
  int& linked = id;
};
int Node::count = 3;

struct Point {
  struct {
    short x, y;
  };
  Point* other;
};

typedef unsigned char Key[4];

Node srv;
Node* srv_pointer = &srv;
Node* null_node;
Point origin{{11, -12}, &origin};
int numbers[4] = {10, 20, 30, 40};
int matrix[2][3] = {{1, 2, 3}, {4, 5, 6}};
double ratio = 0.25;
long double wide = 1.5L;
Key key = {1, 2, 254, 255};
const char* message = "hi";
char16_t letter = u'x';
uint64_t big = 0xfedcba9876543210u;
int8_t negative = -5;
Shared shared;
int (*function)(int);
thread_local int per_thread = 4;
struct {
  int inside;
} anonymous = {9};

namespace space {
template <class T>
T twice(T x) {
  return x + x;
}
}  // namespace space

inline __attribute__((always_inline)) int inlined(int x) { return x * numbers[x & 3]; }

int overloaded(int x) { return x; }
int overloaded(double x) { return static_cast<int>(x) + 1; }

__attribute__((noinline)) int inspect(int parameter, Node& reference) {
  int local = parameter * 2;
  int& alias = local;
  Node* pointer = &reference;
  alias += inlined(parameter);
  alias += inlined(local);
  std::printf("%d %d\n", local, pointer->id);  // the tests stop here
  return local;
}

int main() {
  srv.flag = 5;
  srv.balance = -2;
  srv.word = 77;
  function = overloaded;
  int total = inspect(3, srv) + space::twice(3) + static_cast<int>(space::twice(2.0));
  total += overloaded(1) + overloaded(2.0) + inlined(total);
  srv.id = 4;  // the watch tests stop after this
  return total & 1;
}

// Types that have several names.
typedef __float128 Quad;
typedef Point Place;
typedef struct {
  int inside;
} Nameless;
Quad quad = 1.5;
Point plan_point;
extern const Point const_point = {};
volatile Place named_point;
extern const Nameless nameless = {9};

// What gdb's translation to bytecode, or its `whatis`, does not know.
struct Caller {
  int (*call)(int);
};
Caller caller = {overloaded};
struct Elsewhere* elsewhere = reinterpret_cast<Elsewhere*>(&caller);
struct Flexible {
  int count;
  int items[];
} flexible = {0};
struct Nothing {
} nothing;
