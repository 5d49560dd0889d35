// Arguments that optimised code has passed on and no longer has: only what the caller gave tells where they are.
#include <cstdio>
#include <map>
#include <string>
#include <vector>

struct Order {
  std::string name;
  std::vector<int> amounts;
};

static volatile int seen = 0;

__attribute__((noinline, noipa)) static void mark(int value) { seen = seen + value; }

__attribute__((noinline, noclone)) static int judge(const std::string& line, const std::map<std::string, int>& ages,
                                                    const Order* order, int key) {
  mark(static_cast<int>(line.size() + ages.size() + order->amounts.size()) + key);
  mark(1);
  return seen;
}

int main() {
  const char* names[] = {"anna", "bert", "carl", "dora"};
  std::map<std::string, int> ages;
  for (int i = 0; i < 4; i++) {
    std::string line = names[i];
    ages[line] = 10 * i;
    Order order{line + "'s order", {i, 2 * i, 3 * i}};
    std::printf("%d\n", judge(line, ages, &order, i));
  }
  return 0;
}
