// The orders of the form `between` (orders.h): which receives come between two consecutive sends, in which runs.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/study/naming.h"
#include "core/study/numbering.h"
#include "core/study/run_sets.h"
#include "core/study/segments.h"

namespace friday {

class Betweens {
 public:
  // With `alike`, events are also compared by the names that stand for several roles that are alike
  // (NamedRun::general). `naming` must stay as long as this does.
  Betweens(const Naming& naming, bool alike);

  // Notes the orders of a run. False if not all of them were noted, because there are too many receives between the
  // sends of the run (most_looks()).
  bool see(size_t run);

  // Calls f(names, is_general, inside, could) for each order that was seen. `is_general`: its names stand for several
  // roles that are alike. `inside`: the runs in which it holds; `could`: those that have its two sends.
  template <typename F>
  void for_each(F f) const {
    for (const Table* table : {&by_name_, &by_general_})
      for (const auto& [ends, segment] : table->segments)
        for (uint32_t number = 0; number < segment.inside.size(); number++)
          if (const uint32_t set = segment.inside[number]; set != kNone)
            f(std::array{ends.first, table->numbered[number], ends.second}, table == &by_general_, table->sets[set],
              table->sets[segment.set]);
  }

  // What was not looked at, in words.
  std::vector<std::string> left_out() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};

  // All pairs of consecutive sends from a node to one partner in which the first send has one name and the second has
  // another, with what other nodes receive between the two.
  struct Segment {
    size_t set = 0;                  // number of the set of runs that have such a pair
    std::vector<uint32_t> inside{};  // by a receive's number: the set of runs in which it comes between, or kNone
  };
  // All segments whose names are of one kind: those of single roles, or those that stand for several roles.
  struct Table {
    explicit Table(const Naming& naming) : number(naming.identities.size(), kNone), sets(0, naming.runs.size()) {}
    void number_name(uint32_t name);
    void limit_segments();
    // The segments of two sends that have these names.
    std::vector<Segment*> segments_of(std::span<const uint32_t> first, std::span<const uint32_t> last);
    // Notes that, in the run, a receive with these names comes between the sends of the segments.
    void add(std::span<Segment* const> to, std::span<const uint32_t> names, size_t run);

    std::map<std::pair<uint32_t, uint32_t>, Segment> segments;
    std::vector<uint32_t> number, numbered;  // the receive's number by its name, and the name by the number
    RunSets sets;
    size_t most = 0;  // segments, so that the table does not grow without bound
    bool too_many = false;
  };
  // The segments to which two sends belong by all of their names.
  struct Ends {
    std::vector<Segment*> by_name, by_general;
    size_t run = ~size_t{0};  // the last run with such sends
    size_t seen = 0;          // where in seen_ the bits begin for what came between them in that run
  };

  void number_lists(const NamedRun& run);
  std::span<const uint32_t> names(uint32_t list) const {
    return std::span(lists_[list]).first(lists_[list].size() - 1);
  }
  std::span<const uint32_t> general(uint32_t list) const { return std::span(lists_[list]).last(1); }
  Ends& ends(size_t run, size_t first, size_t last);
  bool was_seen(const Ends& ends, uint32_t list);
  size_t segment(size_t run, size_t first, size_t last, std::span<const Receive> receives);

  const Naming& naming_;
  const bool alike_;
  Table by_name_, by_general_;
  std::vector<Ends> ends_;
  Numbering ends_of_;                                       // index in ends_, by the numbers of the lists of two sends
  std::deque<std::vector<uint32_t>> lists_;                 // all names of an event, followed by its general name
  std::unordered_map<std::string_view, uint32_t> list_of_;  // number in lists_, by the bytes of a list
  // Of the run that see() looks at. By event: the number of its list, and how many receives there are up to it.
  // `seen_`: which lists have come between two sends already (Ends::seen), so that each is noted once.
  std::vector<uint32_t> lists_of_, receives_up_to_;
  std::vector<bool> seen_;
};

}  // namespace friday
