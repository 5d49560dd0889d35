// Containers and smart pointers of Boost and Abseil, as programs use them beside those of the standard library. Other
// code reads them in a replay.
#include <absl/container/fixed_array.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/container/inlined_vector.h>
#include <absl/container/node_hash_map.h>

#include <boost/container/flat_map.hpp>
#include <boost/container/flat_set.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/container/stable_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <boost/container/vector.hpp>
#include <boost/intrusive_ptr.hpp>
#include <boost/optional.hpp>
#include <boost/scoped_ptr.hpp>
#include <boost/shared_ptr.hpp>
#include <cstdint>
#include <string>

struct Entry {
  uint64_t term;
  uint32_t kind;
};

struct Counted {
  int references = 0;
  int value = 0;
};
void intrusive_ptr_add_ref(Counted* object) { object->references++; }
void intrusive_ptr_release(Counted* object) {
  if (--object->references == 0) delete object;
}

struct All {
  boost::container::vector<Entry> entries{{1, 10}, {2, 20}, {3, 30}};
  boost::container::vector<int> none;
  boost::container::small_vector<int, 4> small_in{1, 2, 3}, small_out{1, 2, 3, 4, 5, 6};
  boost::container::static_vector<Entry, 8> fixed{{7, 70}, {8, 80}};
  boost::container::flat_map<int, std::string> flat{{2, "two"}, {1, "one"}};
  boost::container::flat_set<int> flat_set{5, 3, 4};
  boost::optional<Entry> some = Entry{9, 90}, nothing;
  boost::shared_ptr<Entry> shared{new Entry{11, 110}};
  boost::scoped_ptr<Entry> scoped{new Entry{12, 120}};
  boost::intrusive_ptr<Counted> counted{new Counted{0, 13}};
  absl::InlinedVector<Entry, 3> inlined_in{{21, 1}, {22, 2}}, inlined_out{{21, 1}, {22, 2}, {23, 3}, {24, 4}};
  absl::InlinedVector<int, 2> inlined_none;
  absl::FixedArray<int> array{1, 2, 3, 4};
  absl::flat_hash_map<int, std::string> ages;
  absl::flat_hash_map<std::string, int> words;
  absl::flat_hash_set<int> odd, no_set;
  absl::node_hash_map<int, Entry> nodes;

  All() {
    for (int i = 0; i < 100; i++) ages[i] = std::to_string(i * i);
    for (const char* word : {"alpha", "beta", "gamma"}) words[word] = word[0];
    for (int i = 1; i < 60; i += 2) odd.insert(i);
    for (int i = 10; i < 50; i++) odd.erase(i);
    nodes[4] = {41, 42};
  }
} all;

void __attribute__((noinline)) ready() { asm volatile(""); }

int main() { ready(); }
