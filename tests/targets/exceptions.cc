// C++: exceptions through many frames, between threads, from a thread that is joined; futures and locks.
#include <future>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

namespace {

struct Guard {
  int& count;
  ~Guard() { count++; }
};

int unwind(int depth, int& destroyed) {
  Guard guard{destroyed};
  if (depth == 0) throw std::runtime_error("from the depth, process " + std::to_string(getpid() > 0));
  return unwind(depth - 1, destroyed) + 1;
}

}  // namespace

int main() {
  int destroyed = 0;
  for (int i = 0; i < 100; i++) {
    try {
      unwind(50, destroyed);
    } catch (const std::exception& e) {
      CHECK(std::string(e.what()) == "from the depth, process 1");
    }
  }
  CHECK(destroyed == 5100);
  std::mutex lock;
  std::vector<std::string> words;
  std::vector<std::thread> threads;
  std::exception_ptr caught;
  for (int i = 0; i < 8; i++)
    threads.emplace_back([&, i] {
      try {
        int count = 0;
        unwind(i, count);
      } catch (...) {
        std::scoped_lock guard(lock);
        words.push_back("thread " + std::to_string(i));
        caught = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(words.size() == 8);
  try {
    std::rethrow_exception(caught);
  } catch (const std::runtime_error&) {
    words.clear();
  }
  auto answer = std::async(std::launch::async, [] { return 42; });
  auto failure = std::async(std::launch::async, []() -> int { throw std::out_of_range("far"); });
  CHECK(answer.get() == 42);
  try {
    failure.get();
    return 1;
  } catch (const std::out_of_range& e) {
    printf("%s %d\n", e.what(), destroyed);
  }
  return success();
}
