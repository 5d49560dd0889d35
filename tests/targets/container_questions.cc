// Asks containers questions and prints the answers, one line each: the expression, a tab, and its value as JSON. At
// ready() a debugger must give the same answers. The containers are global, so that no compiler keeps a part of them in
// registers.
#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <stack>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#if __has_include(<memory_resource>) && !defined(_LIBCPP_VERSION)
#include <memory_resource>
#define HAS_PMR 1
#endif

enum class Colour : unsigned char { red, green };
struct Entry {
  int term;
  double weight;
  std::string owner;
};
struct Backwards {
  bool operator()(int a, int b) const { return a > b; }
};
struct Closer {
  int state;
  void operator()(Entry* entry) const { delete entry; }
};
template <typename T>
struct Own {  // an allocator of the program's
  using value_type = T;
  Own() = default;
  template <typename U>
  Own(const Own<U>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T))); }
  void deallocate(T* at, size_t) { ::operator delete(at); }
  bool operator==(const Own&) const { return true; }
};

struct Server {
  size_t commit = 2;
  std::vector<Entry> log{{1, 1.5, "anna"}, {2, 2.5, "a rather long name of someone"}};
  std::vector<bool> flags = std::vector<bool>(70, true);
  std::vector<std::vector<int>> rows{{1, 2}, {}, {3}};
  std::vector<int, Own<int>> own{4, 5, 6};
  std::vector<int> empty;
  std::deque<int> many;
  std::deque<Entry> entries;
  std::list<std::string> chain{"x", "y"};
  std::forward_list<short> forward{5, 6};
  std::array<std::string, 2> sides{"left", "right"};
  std::array<int, 0> no_items;
  std::string text = "short", with_nul = std::string("a\0b", 3), long_text = std::string(100, 'q');
  std::string_view view = "view", nothing_seen;
  std::optional<Entry> some = Entry{7, 7.5, "opt"}, none;
  std::optional<int> number = 4;
  std::optional<std::string> title = "title";
  std::variant<int, std::string, double> choice = "chosen", whole = 3;
  std::unique_ptr<Entry> owned = std::make_unique<Entry>(Entry{9, 9.5, "emil"}), nobody;
  std::unique_ptr<int[]> row{new int[3]{1, 2, 3}};
  std::unique_ptr<Entry, Closer> closed{new Entry{3, 3, "closed"}, Closer{5}};
  std::shared_ptr<Entry> shared = std::make_shared<Entry>(Entry{10, 10.5, "frida"}), unshared;
  std::weak_ptr<Entry> weak = shared;
  std::vector<std::unique_ptr<Entry>> owners;
  std::map<std::string, int> ages{{"anna", 30}, {"bert", 40}, {"a key that is longer than the others", 50}};
  std::map<int, Entry> by_term{{5, {5, 5.5, "five"}}, {-1, {6, 6.5, "six"}}};
  std::map<int, int> tall;
  std::map<int, int, std::greater<int>> down{{1, 2}, {3, 4}};
  std::map<int, int, Backwards> backwards{{1, 1}};
  std::map<Colour, int> colours{{Colour::green, 2}};
  std::map<std::string, std::vector<int>> lists{{"a", {1, 2, 3}}};
  std::set<long> set{3, 1, 2};
  std::set<std::string> names{"one", "two"};
  std::multiset<char> letters{'b', 'a', 'b'};
  std::multimap<int, std::string> votes{{1, "yes"}, {2, "no"}, {1, "perhaps"}};
  std::unordered_map<std::string, Entry> words{{"alpha", {1, 1, "w"}}, {"beta", {2, 2, "v"}}};
  std::unordered_map<int, int> squares;
  std::unordered_set<unsigned> unsigneds{7, 8};
  std::unordered_multimap<int, int> twice{{1, 10}, {1, 11}};
  std::tuple<int, std::string, char> triple{1, "two", '3'};
  std::pair<int, std::string> both{4, "four"};
  std::atomic<int> count = 42;
  std::queue<int> queue{{1, 2}};
  std::stack<int> stack{{3, 4}};
  std::priority_queue<int> heap;
  std::span<int> part, of_own;
  std::vector<int>::iterator place;
#ifndef _LIBCPP_VERSION
  std::map<int, Entry>::iterator found;
  std::list<std::string>::iterator second;
#endif
#ifdef HAS_PMR
  std::pmr::vector<int> pmr_vector{1, 2, 3};
  std::pmr::string pmr_text = "pmr";
  std::pmr::map<int, int> pmr_map{{1, 5}};
#endif
};

namespace {

Server srv;

void answer(bool value) { printf("%s\n", value ? "true" : "false"); }
void answer(const std::string& value) {
  printf("\"");
  for (char each : value) each ? printf("%c", each) : printf("\\u0000");
  printf("\"\n");
}
template <typename T>
void answer(T value) {
  if constexpr (std::is_floating_point_v<T>) printf("%.17g\n", value);
  else printf("%lld\n", static_cast<long long>(value));
}

__attribute__((noinline)) void ready(int time) { asm volatile("" ::"r"(time) : "memory"); }

}  // namespace

const char* name = "bert";  // others might change them, so no compiler replaces them by their values
std::string key = "anna";
double ratio = 1.5;
int one = 1;
Server* pointer = &srv;

#define ASK(expression)        \
  printf("%s\t", #expression); \
  answer(expression)

int main() {
  for (int i = 0; i < 1000; i++) srv.many.push_back(i), srv.squares[i - 5] = i * i, srv.tall[(i * 7) % 1000] = i;
  for (int i = 0; i < 100; i++) srv.entries.push_back({i, 0, "e"});
  for (int i = 0; i < 50; i++) srv.entries.pop_front();
  srv.flags[3] = srv.flags[68] = false;
  srv.heap.push(1), srv.heap.push(9);
  srv.part = std::span<int>(srv.rows[0]), srv.of_own = std::span<int>(srv.own.data(), 2);
  srv.place = srv.rows[0].begin() + 1;
  srv.owners.push_back(std::make_unique<Entry>(Entry{77, 0, "owner"}));
#ifndef _LIBCPP_VERSION
  srv.found = srv.by_term.find(5), srv.second = ++srv.chain.begin();
  ASK(srv.found->second.term);
  ASK((*srv.found).first);
  ASK(*srv.second == "y");
  ASK(srv.found == srv.by_term.find(5));
#endif
#ifdef HAS_PMR
  ASK(srv.pmr_vector[1]);
  ASK(srv.pmr_vector.back());
  ASK(srv.pmr_text == "pmr");
  ASK(srv.pmr_map[1]);
#endif
  ASK(srv.log[srv.commit - 1].term);
  ASK(srv.log[srv.commit - 1].owner);
  ASK(srv.log.size());
  ASK(srv.log.at(0).weight);
  ASK(srv.log.back().term);
  ASK(srv.log.front().owner == "anna");
  ASK(pointer->log[0].term);
  ASK(pointer->log.size());
  ASK((*pointer).log.empty());
  ASK(srv.log.begin()->term);
  ASK(srv.log.end() - srv.log.begin());
  ASK(srv.flags[3]);
  ASK(srv.flags[4]);
  ASK(srv.flags.at(68));
  ASK(srv.flags.back());
  ASK(srv.flags.size());
  ASK(srv.rows[0][1]);
  ASK(srv.rows[srv.rows[0][1]][0]);
  ASK(srv.rows[1].empty());
  ASK(srv.rows.back().front());
  ASK(srv.own[2]);
  ASK(srv.own.size());
  ASK(srv.empty.size());
  ASK(srv.empty.empty() || srv.empty[0] > 3);
  ASK(!srv.empty.empty() && srv.empty[0] > 3);
  ASK(srv.many[999]);
  ASK(srv.many[127]);
  ASK(srv.many[128]);
  ASK(srv.many.front() + srv.many.back());
  ASK(srv.many.size());
  ASK(srv.entries[3].term);
  ASK(srv.entries.back().term);
  ASK(srv.entries.size());
  ASK(srv.chain.front());
  ASK(srv.chain.back());
  ASK(srv.chain.size());
  ASK(srv.forward.front());
  ASK(srv.forward.empty());
  ASK(srv.sides[1]);
  ASK(srv.sides.size());
  ASK(srv.sides[one].size());
  ASK(srv.no_items.size());
  ASK(srv.no_items.empty());
  ASK(srv.text == "short");
  ASK(srv.text == "shorter");
  ASK("shorter" > srv.text);
  ASK(srv.text < srv.long_text);
  ASK(srv.text != srv.long_text);
  ASK(srv.text[2]);
  ASK(srv.text.length());
  ASK(srv.text.empty());
  ASK(srv.long_text.size());
  ASK(srv.long_text[99]);
  ASK(srv.with_nul.size());
  ASK(srv.with_nul == "a");
  ASK(srv.view == "view");
  ASK(srv.view.size());
  ASK(srv.view == srv.text);
  ASK(srv.nothing_seen.empty());
  ASK(srv.ages.begin()->first == "a key that is longer than the others");
  ASK(name == srv.text);
  ASK(srv.some.has_value());
  ASK(srv.some->owner);
  ASK((*srv.some).term);
  ASK(srv.some.value().weight);
  ASK(srv.some && srv.some->term == 7);
  ASK(srv.none && srv.none->term == 7);
  ASK(!srv.none);
  ASK(srv.none == std::nullopt);
  ASK(srv.number == 4);
  ASK(srv.number != 4);
  ASK(*srv.number + 1);
  ASK(srv.number.value_or(7));
  ASK(srv.title == "title");
  ASK(srv.title->size());
  ASK(srv.choice.index());
  ASK(std::get<1>(srv.choice));
  ASK(std::get<std::string>(srv.choice) == "chosen");
  ASK(std::get<int>(srv.whole));
  ASK(std::holds_alternative<double>(srv.choice));
  ASK(srv.owned->owner);
  ASK((*srv.owned).weight);
  ASK(srv.owned.get()->term);
#ifndef _LIBCPP_VERSION  // gdb compares floating-point numbers, and does not know -> of libc++
  ASK(srv.owned->weight == 9.5 || srv.owned->term == 9);
#endif
  ASK(srv.nobody == nullptr);
  ASK(srv.owned != nullptr && srv.owned->term > 8);
  ASK(srv.nobody && srv.nobody->term > 8);
  ASK(srv.row[1]);
  ASK(srv.closed->term);
  ASK(srv.shared->term);
  ASK(srv.shared.use_count());
  ASK(srv.shared->owner.size());
  ASK(!srv.unshared);
  ASK(srv.weak.expired());
  ASK(srv.owners[0]->term);
  ASK(srv.owners.back()->owner == "owner");
  ASK(srv.ages["bert"]);
  ASK(srv.ages.at("a key that is longer than the others"));
  ASK(srv.ages[key]);
  ASK(srv.ages[name]);
  ASK(srv.ages.count("zoe"));
  ASK(srv.ages.size());
  ASK(srv.by_term[5].weight);
  ASK(srv.by_term[-1].owner == "six");
  ASK(srv.by_term.at(5).owner);
  ASK(srv.by_term.find(5)->second.term);
  ASK(srv.by_term.find(6) == srv.by_term.end());
  ASK(srv.by_term.find(5) != srv.by_term.end() && srv.by_term.find(5)->second.term == 5);
  ASK(srv.by_term.begin()->first);
  ASK(srv.tall[999]);
  ASK(srv.tall[srv.tall.size() - 1] + srv.tall.at(0));
  ASK(srv.tall.count(1000));
  ASK(srv.down[3]);
  ASK(srv.down.begin()->second);
  ASK(srv.colours[Colour::green]);
  ASK(srv.lists["a"][1]);
  ASK(srv.lists.at("a").size());
  ASK(srv.set.count(2));
  ASK(srv.set.contains(4));
  ASK(srv.names.count("two"));
  ASK(srv.letters.count('b'));
  ASK(srv.votes.count(1));
  ASK(srv.votes.find(2)->second);
  ASK(srv.words["alpha"].owner);
  ASK(srv.words.count("gamma"));
  ASK(srv.words.at("beta").term);
  ASK(srv.squares[77]);
  ASK(srv.squares[-5]);
  ASK(srv.squares.count(5000));
  ASK(srv.squares.size());
  ASK(srv.unsigneds.count(8));
  ASK(srv.twice.count(1));
  ASK(std::get<1>(srv.triple) == "two");
  ASK(std::get<0>(srv.triple));
  ASK(srv.both.second.size());
  ASK(std::get<0>(srv.both));
  ASK(srv.count + 1);
  ASK(srv.count == 42);
  ASK(srv.count.load());
  ASK(srv.queue.front());
  ASK(srv.stack.top());
  ASK(srv.heap.top());
  ASK(srv.part[1]);
  ASK(srv.of_own.back());
  ASK(*srv.place);
  ASK(srv.log.size() > 1 ? srv.log[1].term : 0);
  ASK(srv.log.size() - srv.rows.size());
  ready(1);
  srv.log.push_back({3, 3.5, "carl"});  // moves the items to other memory
  srv.log[1].term = 20;
  srv.ages["dora"] = 60;
  srv.ages["bert"] = 41;
  srv.text = "now it is a long text";
  srv.none = Entry{8, 8.5, "late"};
  srv.none->term = 88;
  srv.nobody = std::make_unique<Entry>(Entry{5, 0, "nobody"});
  srv.nobody->term = 55;
  srv.many.push_front(-1);
  srv.squares[77] = 1;
  srv.empty.push_back(12);
  ready(2);
  return 0;
}
