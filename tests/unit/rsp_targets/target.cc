// The debuggee of the rsp tests: each mode is a small program of its own.
#include <dlfcn.h>
#include <immintrin.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

struct Inner {
  int x;
  Inner* next;
};
struct Outer {
  char name[16];
  Inner inner;
  long tail[8];
};

extern "C" {
int counter = 0;
Outer outer = {"friday", {5, nullptr}, {1, 2, 3, 4, 5, 6, 7, 8}};
thread_local int tls_value = 40;
thread_local long tls_more = 1000;
volatile int keep_spinning = 1;
alignas(32) float lanes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
pthread_barrier_t barrier;

__attribute__((noinline)) int square(int x) { return x * x; }

__attribute__((noinline)) int work(int i) {
  int before = counter;
  counter = before + 1;
  outer.inner.x += square(i);
  return counter;
}

__attribute__((noinline)) void all_started() { asm volatile(""); }

__attribute__((noinline)) void spin() {
  while (keep_spinning) counter++;
}

__attribute__((noinline, target("avx"))) void vectors() {
  __m256 wide = _mm256_load_ps(lanes);
  asm volatile(".globl after_load\nafter_load: nop" : "+x"(wide) : : "memory");
  _mm256_store_ps(lanes, wide);
}

int linked_touch(int add);  // rsp_targets/library.cc, linked

void on_signal(int) { counter = 11; }
}

__attribute__((noinline)) std::string greet(const std::string& who) { return "hello " + who; }

int (*loaded_touch)(int) = nullptr;  // the same library once more, loaded by dlopen

void* worker(void* argument) {
  long number = reinterpret_cast<long>(argument);
  pthread_setname_np(pthread_self(), ("worker-" + std::to_string(number)).c_str());
  tls_value += static_cast<int>(number);
  tls_more *= number;
  linked_touch(static_cast<int>(number));
  if (number == 2 && loaded_touch) loaded_touch(200);
  pthread_barrier_wait(&barrier);
  pthread_barrier_wait(&barrier);
  return nullptr;
}

int run_threads() {
  pthread_barrier_init(&barrier, nullptr, 4);
  pthread_t threads[3];
  for (long i = 0; i < 3; ++i) pthread_create(&threads[i], nullptr, worker, reinterpret_cast<void*>(i + 1));
  pthread_barrier_wait(&barrier);
  all_started();
  pthread_barrier_wait(&barrier);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return 3;
}

int main(int argc, char** argv) {
  std::string mode = argc > 1 ? argv[1] : "plain";
  if (mode == "threads") return run_threads();
  if (mode == "dlopen") {
    void* library = dlopen("librsp_loaded.so", RTLD_NOW);
    if (!library) return 99;
    loaded_touch = reinterpret_cast<int (*)(int)>(dlsym(library, "loaded_touch"));
    return run_threads();
  }
  if (mode == "spin") spin();
  if (mode == "vectors") vectors();
  if (mode == "greet") return static_cast<int>(greet("world").size());
  if (mode == "crash") *static_cast<volatile int*>(nullptr) = 1;
  if (mode == "signal") {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    return counter;
  }
  for (int i = 0; i < 7; ++i) work(i);
  return counter;
}
