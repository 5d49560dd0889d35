// A library with thread-local variables of its own; NAME makes the two copies of it distinct.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

extern "C" {
thread_local long JOIN(NAME, _pad)[4] = {1, 2, 3, 4};
thread_local int JOIN(NAME, _value) = 7;

__attribute__((noinline)) int JOIN(NAME, _touch)(int add) {
  JOIN(NAME, _pad)[3] += add;
  return JOIN(NAME, _value) += add;
}
}
