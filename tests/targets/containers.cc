// Holds every kind of container of the C++ standard library, full, empty and not yet made.
// tests/e2e/test_debug_containers.py reads them at ready(1) and ready(2), between which some change.
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace {

struct Account {
  int id;
  double balance;
  std::string owner;
};

struct Tree {  // holds itself
  std::string name;
  std::vector<Tree> children;
  std::map<int, Tree> by_number;
};

struct alignas(32) Wide {
  long double value;
};

struct Slot {  // its alignment is known by a member only
  alignas(64) int number;
  int more;
};

struct __attribute__((packed)) Packed {
  char letter;
  long double value;
};

using Names = std::vector<std::string>;

struct Everything {
  Names names{"one", "", "a name that is longer than fifteen characters"};
  std::vector<Account> accounts{{1, 1.5, "anna"}, {2, -2, "bert"}};
  std::vector<bool> flags = std::vector<bool>(70, true);
  std::vector<std::vector<int>> rows{{1, 2}, {}, {3}};
  std::vector<long> empty;
  std::deque<int> few{1, 2, 3}, many;
  std::deque<Account> big;
  std::list<std::string> chain{"x", "y"};
  std::list<int> no_chain;
  std::forward_list<short> forward{5, 6, 7};
  std::array<std::string, 2> pair_of{"left", "right"};
  std::array<int, 0> none_of;
  std::set<int> set{3, 1, 2};
  std::multiset<char> letters{'b', 'a', 'b'};
  std::map<std::string, int> ages{{"anna", 30}, {"bert", 40}};
  std::map<int, Wide> wide{{1, {2.5L}}};
  std::list<Slot> slots{{1, 2}, {3, 4}};
  std::forward_list<Packed> packed{{'a', 1.5L}, {'b', -2}};
  std::map<int, Slot> by_slot{{5, {6, 7}}};
  std::unordered_map<int, Packed> by_packed{{8, {'c', 9}}};
  std::multimap<int, std::string> votes{{1, "yes"}, {2, "no"}, {1, "perhaps"}};
  std::unordered_set<std::string> words{"alpha", "beta"};
  std::unordered_map<int, Account> index{{7, {7, 7.5, "carl"}}, {8, {8, 8.5, "dora"}}};
  std::unordered_multimap<int, int> twice{{1, 10}, {1, 11}};
  std::unordered_map<int, int> large;
  std::map<int, int> tall;
  std::string text = "short", with_nul = std::string("a\0b", 3), not_utf8 = "\xff\xfe",
              long_text = std::string(5000, 'q');
  std::u16string wide_text = u"h\u00e9";
  std::string_view view = "a view of it", part = std::string_view("a view of it").substr(2, 4);
  std::unique_ptr<Account> owned = std::make_unique<Account>(Account{9, 9.5, "emil"}), nobody;
  std::unique_ptr<FILE, int (*)(FILE*)> closed{nullptr, fclose};
  std::shared_ptr<Account> shared = std::make_shared<Account>(Account{10, 10.5, "frida"});
  std::shared_ptr<Account> nothing_shared;
  std::weak_ptr<Account> weak = shared;
  std::optional<int> some = 4, nothing;
  std::optional<std::string> some_text = "given";
  std::variant<int, std::string, double> choice = "chosen", number = 3;
  std::variant<int, double> plain_choice = 2.5;
  std::tuple<int, std::string, char> triple{1, "two", '3'};
  std::atomic<int> count = 42;
  std::atomic<std::shared_ptr<int>> handed{std::make_shared<int>(7)};
  std::atomic<bool> ready = true;
  std::atomic<Account*> where = nullptr;
  std::queue<int> queue{{1, 2}};
  std::stack<int> stack{{3, 4}};
  std::priority_queue<int> heap;
  Tree tree{"root", {{"left", {}, {}}, {"right", {{"leaf", {}, {}}}, {}}}, {{5, {"five", {}, {}}}}};
  Account single{11, 11.5, "gerd"};
  Account several[2] = {{12, 12.5, "hans"}, {13, 13.5, "ida"}};
};

Everything all;
alignas(std::vector<int>) unsigned char space[sizeof(std::vector<int>)];

__attribute__((noinline)) void ready(int time) { asm volatile("" ::"r"(time) : "memory"); }

}  // namespace

enum class Mask : unsigned long long { nothing, all = ~0ull };
Mask mask = Mask::all;

namespace app {
std::unique_ptr<long> counter = std::make_unique<long>(1);
}

auto* unmade = reinterpret_cast<std::vector<int>*>(space);

int main() {
  for (int i = 0; i < 1000; i++) {
    all.many.push_back(i);
    all.large[i] = i * i;
    all.tall[(i * 7) % 1000] = i;
  }
  for (int i = 0; i < 20; i++) all.big.push_back({i, 0.5 * i, std::to_string(i)});
  for (int i = 0; i < 300; i++) all.big.pop_front(), all.big.push_back({i, 0, "again"});
  all.flags[3] = all.flags[68] = false;
  all.heap.push(1), all.heap.push(9);
  for (size_t i = 0; i < sizeof space; i++) space[i] = static_cast<unsigned char>(200 - i);
  ready(1);
  new (space) std::vector<int>{1, 2, 3};
  all.accounts[0].balance = 100;
  all.ages["carl"] = 50;
  all.names.pop_back();
  all.text = "changed";
  all.single.owner = "another";
  all.large.clear();
  *app::counter = 2;
  all.count = 0;
  all.count = 7;
  ready(2);
  all.nobody = std::make_unique<Account>(Account{5, 0, "nobody"});
  all.nobody->balance = 3.5;
  all.nothing_shared = std::make_shared<Account>(Account{4, 0, "shared"});
  printf("%zu %d\n", all.names.size(), unmade->at(0));
  return 0;
}
