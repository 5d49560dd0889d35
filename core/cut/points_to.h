// Where each pointer of a program may point to, and which functions each call may reach. Makes the constraints of
// Andersen's analysis (inclusion.h) out of the facts and the annotations; the call graph grows while they are solved.
// Objects are told apart as variables, by allocation site, and by context of makers (contexts.h); their fields are not.
//
// What it assumes, so that its sets contain every object which a pointer can reach at run time:
// - A pointer is carried by what the facts call a pointer: integers of its size are among them. Pieces of a pointer
//   that are copied byte by byte count as well (`move` with a length below 8), unless PointsToOptions says otherwise.
// - A pointer into one object never becomes one into another by arithmetic.
// - A function without code and without annotation may read, keep, call and write all that can be reached from its
//   arguments, at any later time; functions of one library share what they keep (Annotations::library()).
// - An indirect call reaches functions of its own shape (Function::shape), variadic ones, and those without
//   prototype.
// Annotations are believed. Belongs to one thread; const functions may be called by several.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/cut/annotations.h"
#include "core/cut/contexts.h"
#include "core/cut/facts.h"
#include "core/cut/inclusion.h"

namespace friday::cut {

struct PointsToOptions {
  Contexts::Limits limits;
  bool pieces_carry_pointers = true;  // false is more precise, and wrong for programs that copy pointers by bytes
};

// A function outside of the bitcode that does something when it is called; or a whole library of which nothing is
// known.
struct External {
  std::string name;  // of the function, or "the library NAME"
  bool is_library = false;
  uint64_t calls = 0;  // sites that reach it
};

class PointsTo {
 public:
  using Node = InclusionSolver::Node;
  static constexpr Node kNoNode = InclusionSolver::kNoNode;

  // Memory that is told apart; numbered as the solver's objects are.
  struct Item {
    ObjectKind kind = ObjectKind::global;
    Id object = kNone;    // in the facts, of which it is the instance in one context; kNone: made by the analysis
    Id call = kNone;      // of what a call allocates
    Id function = kNone;  // of a function: itself
    std::string name;
    uint64_t size = 0;      // 0: not known
    bool constant = false;  // nobody writes it after the start, and it is the same in each run
    bool outside = false;   // code that is not analysed writes it, at any time
  };
  // A program's function that a call may reach.
  struct Target {
    uint32_t site = 0;    // index in contexts().sites()
    Id external = kNone;  // which calls back; kNone: the code of the site itself
    Id function = kNone, context = kNone;
    bool is_callback = false;  // a function outside was given it, and calls it as often as it likes
  };
  // A call of a function outside of the program. It is deterministic if it runs again where its caller replays.
  struct ExternalCall {
    uint32_t site = 0;
    Id external = kNone;
    bool deterministic = false;
    bool is_call = true;  // false: a known allocator that the program defines, so a Target stands for the call
  };
  // What an annotated or unknown function reads or writes when a site calls it.
  struct Effect {
    uint32_t site = 0;
    Id external = kNone;  // who does it; kNone: it counts as the code of the site, since it is deterministic
    Id function = kNone;  // who does it, if the program defines it; else kNone
    Node pointer = kNoNode;
    bool reads = false, writes = false;
    bool unknown = false;  // the number of bytes is a guess
    AnnotatedBytes bytes;
  };

  // Memory that a call gives to the program. Who allocates is as in Effect.
  struct Allocation {
    uint32_t site = 0;
    Id external = kNone, function = kNone;
    uint32_t item = 0;
  };

  // The facts must be those of a program (link()). They and the annotations must stay as long as this does.
  PointsTo(const Facts& facts, const Annotations& annotations, const PointsToOptions& options = {});
  PointsTo(const PointsTo&) = delete;

  const Contexts& contexts() const { return contexts_; }
  const std::vector<Item>& items() const { return items_; }
  const std::vector<External>& externals() const { return externals_; }
  const std::vector<Target>& targets() const { return targets_; }
  const std::vector<ExternalCall>& external_calls() const { return external_calls_; }
  const std::vector<Effect>& effects() const { return effects_; }
  const std::vector<Allocation>& allocations() const { return allocations_; }
  // Functions that code outside of the program calls without a call site of the program: main, constructors, and
  // functions that a library was given.
  struct Entry {
    Id function = kNone;
    Id external = kNone;  // kNone: the loader
  };
  const std::vector<Entry>& entries() const { return entries_; }

  // The objects that a pointer may point to, in a context of its function (Contexts::pointer()).
  const SparseSet& points(Id context, Id pointer) const { return solver_.points(contexts_.pointer(context, pointer)); }
  const SparseSet& points(Node node) const { return solver_.points(node); }
  // Equal for pointers that were found to be equal, which saves the comparison of their sets.
  Node representative(Node node) const { return solver_.representative(node); }
  // What pointers in the object's memory may point to; null for a function.
  const SparseSet* content(uint32_t item) const {
    const Node node = solver_.content_of(item);
    return node == kNoNode ? nullptr : &solver_.points(node);
  }
  InclusionSolver::Counts solver_counts() const { return solver_.counts(); }
  // Names of called functions that have neither code nor annotation, each with the number of its call sites.
  const std::map<std::string, uint64_t>& unknown_functions() const { return unknown_; }

 private:
  enum class WatchKind : uint8_t { call, callback, library };
  struct Watch {
    WatchKind kind = WatchKind::call;
    uint32_t site = 0;
    Id external = kNone;          // of callbacks and libraries
    std::vector<Node> arguments;  // of callbacks
    Node result = kNoNode;        // of callbacks: takes what the function returns
    SparseSet seen;               // objects
  };
  struct Library {
    Id external = kNone;
    Node known = kNoNode;  // points to all that the library can reach
  };

  void add_items();
  void add_flow(Id context, const Flow& flow);
  void add_variables();
  void add_entries();
  void add_sites();
  void enter(Id function, Id external);

  Node pointer(Id context, Id id) const { return id == kNone ? kNoNode : contexts_.pointer(context, id); }
  Node argument(uint32_t site, uint32_t index) const;
  Node result_of(uint32_t site);
  uint32_t add_item(Item item, Node content);
  Node points_at(uint32_t item);
  Node named(const AnnotatedValue& value);
  uint32_t named_item(const AnnotatedValue& value);
  Node allocated(uint32_t site, bool shared);
  Node exported_symbols();
  Node value(uint32_t site, const AnnotatedValue& value);
  Node base_of(uint32_t site, const AnnotatedValue& value);
  Id external(const std::string& name, bool is_library);
  const Library& library(const std::string& name);

  void reached(uint32_t watch, uint32_t object);
  void reached_by_call(uint32_t site, uint32_t object);
  void connect(uint32_t site, Id function, Id context);
  void pass(uint32_t site, Id function, Id context);
  void connect_callback(const Watch& watch, Id function);
  void connect_external(uint32_t site, Id function);
  void connect_unknown(uint32_t site, const std::string& name);
  void annotate(uint32_t site, const Annotation& annotation, Id external, Id function);
  void touch(uint32_t site, const Annotation& annotation, Id external, Id function);
  void move_pointers(uint32_t site, const Annotation& annotation, Id external, Id function);
  void call_back(uint32_t site, const Annotation& annotation, Id external);
  void note_effect(Effect effect);
  bool is_known_allocator(Id function) const;
  bool fits(uint64_t shape, const Function& function) const;

  const Facts& facts_;
  const Annotations& annotations_;
  const PointsToOptions options_;
  Contexts contexts_;
  InclusionSolver solver_;
  std::vector<Item> items_;
  std::vector<External> externals_;
  std::vector<Target> targets_;
  std::vector<ExternalCall> external_calls_;
  std::vector<Effect> effects_;
  std::vector<Allocation> allocations_;
  std::vector<Entry> entries_;
  std::vector<Watch> watches_;
  std::map<std::string, uint64_t> unknown_;
  std::map<std::pair<bool, std::string>, Id> external_of_;
  std::map<std::string, Library> libraries_;
  std::map<std::pair<AnnotatedValue::Kind, std::string>, uint32_t> named_items_;
  std::map<uint32_t, std::string> library_of_item_;          // of objects that the code of a library may stand behind
  std::map<uint32_t, Node> points_at_;                       // by item
  std::map<std::pair<uint32_t, bool>, uint32_t> allocated_;  // by site, and whether others share it
  std::map<uint32_t, Node> results_;                         // of sites whose result nobody takes
  std::map<Id, uint32_t> given_objects_;                     // heap objects of the facts, by call
  std::set<std::pair<uint32_t, Id>> connected_;              // site and function
  std::set<std::pair<Id, Id>> entered_;
  Node symbols_ = kNoNode;
};

}  // namespace friday::cut
