// The session of debug_session.c in C++: overloads, templates, namespaces, constructors and destructors, operators,
// lambdas, virtual methods, exceptions, containers. Built at -O0 and at -O2.
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

#include "check.h"

#define APART __attribute__((noinline, noipa))
constexpr int kWorkers = 3;

namespace shapes {
struct Shape {
  int sides;
  std::string name;
  APART Shape(int count, std::string given) : sides(count), name(std::move(given)) { sides += 0; }
  APART virtual ~Shape() { sides = -1; }
  APART virtual long area() const { return sides; }
  APART Shape& operator+=(int more) {
    sides += more;
    return *this;
  }
  APART long operator()(int factor) const { return sides * factor; }
};
struct Square final : Shape {
  long edge;
  APART explicit Square(long length) : Shape(4, "square"), edge(length) { edge += 0; }
  APART long area() const override { return edge * edge; }
};
namespace inner {
APART long area(long a, long b) { return a * b; }
}  // namespace inner
}  // namespace shapes

long total, measured;
shapes::Square* current;
static thread_local long own = 7;
static pthread_barrier_t together, finished;

APART long measure(int x) { return x + 1; }
APART long measure(double x) { return static_cast<long>(x) + 2; }
APART long measure(const shapes::Shape& shape) { return shape.area() + 3; }

template <typename T>
APART T largest(T a, T b) {
  return a < b ? b : a;
}

inline long thrice(long x) {
  measured += x;
  long result = x * 3;
  return result;
}

APART long use_inline(long x) {
  long a = thrice(x);
  long b = thrice(x + 1);
  return a * b;
}

APART long throws(int which) {
  if (which > 1) throw std::runtime_error("too many");
  return which;
}

APART long careful(int which) {
  try {
    return throws(which);
  } catch (const std::runtime_error& error) {
    total += thrice(300) + 100;
    return static_cast<long>(std::string(error.what()).size());
  }
}

APART void all_started() { total++; }

static void work(long number) {
  CHECK(pthread_setname_np(pthread_self(), ("worker-" + std::to_string(number)).c_str()) == 0);
  own = 100 * number;
  pthread_barrier_wait(&together);
  pthread_barrier_wait(&finished);
  CHECK(own == 100 * number);
}

APART void use_containers() {
  std::vector<long> row = {1, 2, 3};
  for (long each : row) total += each;
}

APART void use_threads() {
  CHECK(pthread_barrier_init(&together, nullptr, kWorkers + 1) == 0 &&
        pthread_barrier_init(&finished, nullptr, kWorkers + 1) == 0);
  std::vector<std::thread> threads;
  for (long i = 1; i <= kWorkers; i++) threads.emplace_back(work, i);
  pthread_barrier_wait(&together);
  all_started();
  CHECK(own == 7);
  pthread_barrier_wait(&finished);
  for (auto& thread : threads) thread.join();
}

// Each of its locals has its value from the first line on: at -O2 gdb shows those in whose block the program is, begun
// or not, and what an uninitialised one holds differs from run to run.
int main() {
  auto square = std::make_unique<shapes::Square>(3);
  current = square.get();
  total = measured = measure(4);
  total += measure(2.5);
  total += measure(*square);
  *square += 2;
  current->edge = 5;
  total += (*square)(10);
  total += shapes::inner::area(6, 7);
  total += largest(1, 2) + largest(3L, 4L);
  total += static_cast<long>(largest(0.5, 0.25) * 2);
  auto add = [](long more) {
    total += more;
    return total;
  };
  for (long i = 1; i <= 3; i++) add(i);
  total += use_inline(5);
  total += careful(1) + careful(2);
  use_containers();
  square.reset();
  use_threads();
  return success();
}
