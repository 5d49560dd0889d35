// What can be said of the order of messages in a run, in four forms that were enough for the order bugs of real
// systems:
//   pair      some message x is received before some message y, by one role from two different partners
//   matter    the same, of two messages that have a word in common, such as a key; x and y are shapes
//   between   some message y is received between two consecutive messages x and z of one node to one partner (an
//             operation of two steps that somebody else's step comes into): after x was sent and before z was sent; if
//             it is received where x and z are, after x was received and before z was received there
//   intrusion the same, of three messages that have a word in common, where x and z are consecutive among those with
//   that
//             word; x, y and z are shapes
// Orders that hold in the same runs, and could have held in the same runs, cannot be told apart by these runs: they are
// one Candidate.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/study/naming.h"
#include "core/study/run_sets.h"

namespace friday {

struct Order {
  enum class Form : uint8_t { pair, matter, between, intrusion, content, absence };
  Form form = Form::pair;
  // Names: x and y of a pair; x, y and z of a `between` or an `intrusion`; x alone of a `content`: that there is such a
  // message.
  std::array<uint32_t, 3> names{};

  bool has_three() const { return form == Form::between || form == Form::intrusion; }
  bool has_one() const { return form == Form::content || form == Form::absence; }
  size_t count() const { return has_three() ? 3 : has_one() ? 1 : 2; }
  bool operator==(const Order&) const = default;
};

struct Candidate {
  size_t holds, could;        // the runs in which it holds, and those with all of its messages: numbers of sets
  std::vector<Order> orders;  // that are alike, at most kMostAlike of each form
  size_t alike = 0;           // how many there are
};

struct Candidates {
  explicit Candidates(size_t runs) : sets(0, runs) {}
  RunSets sets;
  std::vector<Candidate> list;
  std::vector<std::string> left_out;  // what was not looked at, in words
};

inline constexpr size_t kMostAlike = 50;

// All orders that hold in some of the runs that have their messages, and not in all of these. Tainted messages make
// none.
Candidates orders_of(const Naming& naming);
// The same of the messages themselves: whether a run has such a one, or none.
Candidates contents_of(const Naming& naming);

// The events of the run that are the order's messages; none if it does not hold there, and of an absence.
std::vector<size_t> events_of(const NamedRun& run, const Order& order);

}  // namespace friday
