// Solves systems of inclusions between sets of objects: the least sets that satisfy Andersen's constraints (L. O.
// Andersen, "Program Analysis and Specialization for the C Programming Language", 1994). Nodes have sets; each object
// may have a node for its content, which is what pointers in its memory point to. Knows nothing of programs:
// points_to.h makes the constraints of one.
//
// It solves by waves (Pereira and Berlin, "Wave propagation and deep propagation for pointer analysis", CGO 2009):
// cycles of copies are merged into one node, what is new goes along the copies in topological order, then loads and
// stores through what is new make more copies; until nothing is new. Two things keep it small where sets are large:
// - Only what is new to a node is handed on (difference propagation).
// - A load through a set of 1,000 objects would be 1,000 copies, and as many for each other pointer with that set. So a
//   set has a node in between, a join: contents -> join of the set -> what is loaded. The join of a set that has grown
//   takes the old set's join and the contents of the objects that have come. Stores have joins the other way round.
//
// An object is a piece of memory that is told apart. To tell fields apart, give each field an object of its own; copies
// with an offset would be a further constraint, by a function from object to object, where loads and stores are
// processed. Belongs to one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cut/sparse_set.h"

namespace friday::cut {

// A set of pairs of numbers, by open addressing. The pair of twice ~0 cannot be in it.
class EdgeSet {
 public:
  // False if the pair was there already.
  bool insert(uint32_t from, uint32_t to);

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  static size_t slot_of(uint64_t edge, size_t mask) { return (edge * 0x9e3779b97f4a7c15 >> 20) & mask; }
  void grow();

  std::vector<uint64_t> slots_ = std::vector<uint64_t>(1024, kFree);
  size_t used_ = 0;
};

class InclusionSolver {
 public:
  using Node = uint32_t;
  static constexpr Node kNoNode = ~Node{0};
  // Called once at least for each object in the set of a watched node. It may add nodes, objects and constraints.
  using Watcher = std::function<void(uint32_t watch, uint32_t object)>;

  Node add_node();
  // A new object, with the next number from 0. One without content, such as a function, is not loaded from or stored
  // to.
  uint32_t add_object(Node content);
  Node content_of(uint32_t object) const { return contents_[object]; }

  // The constraints. They may be added before solve() and by its watcher. `p`, `to` and `from` are nodes.
  void point(Node p, uint32_t object);  // object is in the set of p
  void copy(Node from, Node to);        // the set of `to` includes that of `from`
  void load(Node p, Node to);           // for each object in p: the set of `to` includes that of its content
  void store(Node p, Node from);        // for each object in p: the set of its content includes that of `from`
  void watch(Node p, uint32_t watch);   // for each object in p: the watcher is called with `watch`

  // May be called again after further constraints.
  void solve(const Watcher& watcher);

  // After solve().
  const SparseSet& points(Node p) const { return nodes_[representative(p)].points; }
  // The node that stands for p and all others that were found to be equal to it.
  Node representative(Node p) const {
    while (parents_[p] != p) p = parents_[p];
    return p;
  }

  struct Counts {
    size_t nodes = 0, left = 0, copies = 0, joins = 0, waves = 0;  // `left`: nodes that were not merged into others
  };
  Counts counts() const;

 private:
  static constexpr uint32_t kNoUse = ~uint32_t{0};
  // A pointer with as few objects as this needs no join.
  static constexpr size_t kFewObjects = 4;

  struct NodeState {
    SparseSet points;
    SparseSet fresh;           // not in points yet, and not handed on
    std::vector<Node> copies;  // whose sets include this one's
    uint32_t told = 0;         // to so many of them all of `points` was handed on; to the others nothing
    uint32_t use = kNoUse;     // index in uses_
  };
  // Of a set of objects: the sum of two random numbers of each.
  struct SetHash {
    uint64_t low = 0, high = 0;
    bool operator==(const SetHash&) const = default;
  };
  struct HashOfHash {
    size_t operator()(const SetHash& hash) const { return hash.low; }
  };
  using Joins = std::unordered_map<SetHash, Node, HashOfHash>;
  // How the program uses a pointer.
  struct Use {
    Node loaded = kNoNode, stored = kNoNode;         // takes what is loaded through it; has what is stored through it
    Node load_join = kNoNode, store_join = kNoNode;  // of the objects in `seen`, if they are many
    std::vector<uint32_t> watches;
    SparseSet pending;  // those objects in the node's `points` that were not processed yet
    SetHash seen;       // of the processed ones
    size_t seen_count = 0;
  };

  Node find(Node p);
  Use& use_of(Node p);
  void use_anew(Node p, Use& use);

  void collapse_cycles();
  void tidy_copies(Node p);
  void merge(const std::vector<Node>& cycle);
  uint32_t merge_uses(const std::vector<Node>& cycle);
  void hand_on();
  bool is_settled() const;
  bool process_uses(const Watcher& watcher);
  void process(Node p, const Watcher& watcher);
  void connect_loads(Node p, Use& use, const SparseSet& pending);
  void connect_stores(Node p, Use& use, const SparseSet& pending);
  template <typename F>
  void for_each_content(const SparseSet& objects, F f) const {
    objects.for_each([&](uint32_t object) {
      if (contents_[object] != kNoNode) f(contents_[object]);
    });
  }

  std::vector<NodeState> nodes_;
  std::vector<Node> parents_;  // of merged nodes
  std::deque<Use> uses_;
  std::vector<Node> contents_;  // by object
  std::vector<SetHash> randoms_;
  Joins load_joins_, store_joins_;
  std::vector<Node> order_;         // topological, of representatives
  std::vector<Node> with_pending_;  // nodes whose uses have pending objects
  std::vector<Node> mark_;          // by node: of those whose copies were tidied, the last one with a copy to it
  EdgeSet edges_;                   // the copies; lacks some of those that were made by merging
  size_t waves_ = 0;
};

}  // namespace friday::cut
