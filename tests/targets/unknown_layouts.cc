// Classes with the names of the standard library's, as a version that Friday has not been taught could lay them out.
#include <cstddef>

namespace std::__another {
template <typename T>
struct char_traits {};
template <typename T>
struct allocator {};

template <typename T, typename Traits = char_traits<T>, typename Allocator = allocator<T>>
struct basic_string {  // the mark of a long one stands in the last byte
  struct Long {
    T* __data_;
    size_t __size_, __cap_;
  };
  struct Short {
    T __data_[23];
    unsigned char __size_;
  };
  union {
    Long __l;
    Short __s;
  };
};
template <typename T, typename Allocator = allocator<T>>
struct vector {  // the number of items instead of their end
  T* __begin_;
  size_t __size_, __capacity;
};
template <typename T, size_t count>
struct array {
  T items[count];
};
template <typename T, size_t extent = static_cast<size_t>(-1)>
struct span {
  T* __data_;
  size_t length;
};
template <typename... T>
struct tuple {
  int values[2];
};
template <typename... T>
struct variant {
  union Alternatives {
    struct {
      int __value;
    } __head;
    double others;
  } __data;
  unsigned __index;
};
template <typename T>
struct atomic {
  T* owner;
  struct {
    size_t __a_value;
  } count;
};
}  // namespace std::__another

namespace {
int items[] = {1, 2, 3};
struct {
  std::__another::basic_string<char> text{.__s = {"short", 5}};
  std::__another::vector<int> numbers{items, 3, 3};
  std::__another::array<int, 3> row{{1, 2, 3}};
  std::__another::span<int> part{items, 3};
  std::__another::tuple<int, int> both{{1, 2}};
  std::__another::variant<int, double> choice{{{1}}, 0};
  std::__another::atomic<int> shared{items, {7}};
} all;
}  // namespace

extern "C" __attribute__((noinline)) void ready() { asm volatile("" : : "r"(&all) : "memory"); }

int main() { ready(); }
