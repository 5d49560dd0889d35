// A program whose containers are read: it calls tick() some times, says so, and waits.
#include <unistd.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <forward_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

struct Entry {
  int term;
  std::string owner;
};

struct Server {
  Entry plain{1, "plain"};
  size_t commit = 50;
  std::vector<Entry> log;
  std::vector<bool> flags = std::vector<bool>(100, true);
  std::deque<Entry> deque;
  std::string text = "a text";
  std::optional<Entry> optional = Entry{2, "optional"};
  std::variant<int, Entry> variant = Entry{3, "variant"};
  std::unique_ptr<Entry> unique = std::make_unique<Entry>(Entry{4, "unique"});
  std::shared_ptr<Entry> shared = std::make_shared<Entry>(Entry{5, "shared"});
  std::map<int, Entry> map;
  std::map<std::string, int> by_name;
  std::set<int> set;
  std::unordered_map<int, Entry> hash;
  std::array<Entry, 4> array;
  std::pair<int, Entry> pair{6, {6, "pair"}};
  std::tuple<int, Entry> tuple{7, {7, "tuple"}};
  std::list<Entry> list{{8, "list"}};
};

Server srv;
volatile int hits;

extern "C" __attribute__((noinline)) void tick(int count) { hits = count; }

int main(int, char** argv) {
  for (int i = 0; i < 100; i++) {
    srv.log.push_back({i, "entry"}), srv.deque.push_back({i, "entry"}), srv.map[i] = {i, "entry"},
                                                                        srv.hash[i] = {i, "entry"};
    srv.by_name[std::to_string(i)] = i, srv.set.insert(i);
  }
  for (int i = 0; i < atoi(argv[1]); i++) tick(i), getppid();
  puts("done");
  fflush(stdout);
  if (argv[2]) pause();
}
