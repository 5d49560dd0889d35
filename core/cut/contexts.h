// In which contexts the functions of a program are analysed. Most have one. A maker, which is a function that gives its
// caller new memory and nothing else (a wrapper of malloc, a constructor of a hash table), is analysed once for each
// place that calls it, as if its body stood there: else all hash tables of a program would be one object. This is never
// wrong, since a context is a copy of the body's constraints; so what counts as a maker, and how much is copied, are
// matters of precision and cost alone. Functions that call themselves are not copied into themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/cut/annotations.h"
#include "core/cut/facts.h"

namespace friday::cut {

class Contexts {
 public:
  struct Limits {
    size_t flows_of_maker = 400;  // and calls, of its body with those of the makers that it calls
    size_t all_flows = 500'000;   // of all contexts together
    uint32_t depth = 6;           // of contexts in contexts
  };
  // Of a maker, at one call of it.
  struct Context {
    Id function = kNone, call = kNone;
    Id parent = kNone;         // in which context the call is; kNone: of a function that has one context
    Id first_pointer = kNone;  // of the copies of the function's own pointers
    Id first_object = kNone;   // of those of its local variables
    uint32_t depth = 0;
  };
  // A call in one of the contexts of its function.
  struct Site {
    Id call = kNone;
    Id context = kNone;  // of the function with the call
    Id callee = kNone;   // the context of a direct callee
  };

  // Both must stay as long as this does.
  Contexts(const Facts& facts, const Annotations& annotations, const Limits& limits);

  const std::vector<Context>& contexts() const { return contexts_; }
  const std::vector<Site>& sites() const { return sites_; }
  // How many pointers and objects there are, copies included. Those of the facts have their ids.
  Id pointers() const { return pointers_; }
  Id objects() const { return static_cast<Id>(facts_.objects.size() + copied_objects_.size()); }
  // What a copy is a copy of; the pointer or object itself if it is none.
  Id original_pointer(Id pointer) const {
    return pointer < facts_.pointers ? pointer : copied_pointers_[pointer - facts_.pointers];
  }
  Id original_object(Id object) const {
    return object < facts_.objects.size() ? object : copied_objects_[object - facts_.objects.size()];
  }
  // The copy of a pointer in a context. A pointer that is not the function's own has one, in all contexts.
  Id pointer(Id context, Id pointer) const;
  Id object(Id context, Id object) const;
  // The flows of a function: those in the facts whose `function` it is.
  std::span<const Id> flows_of(Id function) const { return of(flows_, function); }
  // Functions that were taken as makers.
  const std::vector<bool>& makers() const { return is_maker_; }

 private:
  // Lists of ids, by function.
  struct Index {
    std::vector<uint32_t> first;
    std::vector<Id> ids;
  };
  static std::span<const Id> of(const Index& index, Id function) {
    return std::span(index.ids).subspan(index.first[function], index.first[function + 1] - index.first[function]);
  }
  template <typename FunctionOf>
  static Index index_of(size_t functions, size_t count, FunctionOf function_of);
  void find_owners();
  void choose_makers(const Limits& limits);
  void make_contexts(const Limits& limits);
  bool is_within(Id context, Id function) const;

  const Facts& facts_;
  const Annotations& annotations_;
  Index flows_, calls_, pointers_of_, objects_of_;
  std::vector<Id> owner_;        // by pointer of the facts: the only function whose code has it
  std::vector<uint32_t> place_;  // by pointer: its place among its owner's
  std::vector<uint32_t> object_place_;
  std::vector<bool> is_maker_;
  std::vector<size_t> cost_;  // by function: flows and calls of its body, with those of makers that it calls
  std::vector<Context> contexts_;
  std::vector<Site> sites_;
  std::vector<Id> copied_pointers_, copied_objects_;
  Id pointers_ = 0;
};

}  // namespace friday::cut
