// The data-flow graph of a program (Wu et al., FSE 2010, section 3): which data goes from where to where, and how many
// bytes. Operation nodes are functions; value nodes are arguments, results and memory. A minimum cut of this graph
// between what is non-deterministic and the functions to replay says what to log.
//
// - Memory: an object has a node. Pointers with equal sets share one node for their reads (objects -> set, infinite;
//   set -> function, weighted) and one for their writes (function -> set, weighted; set -> objects, infinite). So a
//   read is logged if any of its objects may be outside, and a write is logged if it is done outside and any of its
//   objects is inside.
// - A call has an edge of its own (kCallBytes), one per argument, and one for the result. The site is charged for
//   each function that it may reach min(how often the site ran, how often the function was entered): an indirect call
//   with 20 possible targets reaches each as often as it was entered at most.
// - Memory that is allocated outside and lies inside must come to the same address at replay (function -> object,
//   kAllocationBytes), and an allocation inside of memory outside is a call of outside, whose result is logged
//   (object -> function).
// - Sources are functions outside of the program unless they are annotated as deterministic, memory that such code
//   writes by itself, and the loader. What a deterministic function outside reads and writes counts as its caller's.
// - Weights are bytes times kWeightOfByte; what never ran weighs 1. Without a profile each edge weighs kWeightOfByte.
// Belongs to one thread while it is built; afterwards any thread may read it.
#pragma once

#include <string>
#include <vector>

#include "core/cut/counts.h"
#include "core/cut/flow.h"
#include "core/cut/points_to.h"

namespace friday::cut {

inline constexpr int64_t kWeightOfByte = 1000;
inline constexpr double kCallBytes = 8;         // that a call was made, and of which function
inline constexpr double kAllocationBytes = 16;  // how many bytes were allocated, and where

enum class NodeKind : uint8_t { function, external, start, object, read_set, write_set, parameter, result };
enum class EdgeKind : uint8_t { call, argument, result, read, write, allocate, member };

struct DataFlow {
  struct Node {
    NodeKind kind = NodeKind::function;
    // Of a function, parameter or result the function; of an external function or an object its index in PointsTo's
    // lists; of a set its index in `sets`.
    Id id = kNone;
    uint32_t parameter = 0;
  };
  struct Edge {
    uint32_t from = 0, to = 0;
    EdgeKind kind = EdgeKind::call;
    int64_t weight = 0;  // kInfinite for members
    double bytes = 0;    // that the profile counts; 0 without a profile
  };
  // Code that reads or writes memory by a pointer, so that a cut can say which accesses it logs.
  struct Use {
    uint32_t set = 0;
    Id function = kNone, external = kNone;  // who does it: one of them
    bool reads = false, writes = false;
    Id access = kNone;  // of the facts, or
    Id call = kNone;    // that of a function without code
  };

  std::vector<Node> nodes;
  std::vector<Edge> edges;        // at most one of a kind from one node to another
  std::vector<uint32_t> sources;  // nodes
  bool has_profile = false;

  std::vector<uint32_t> function_node;          // by function; kNone if it is declared only
  std::vector<uint32_t> object_node;            // by item of PointsTo; kNone if no code reads or writes it
  std::vector<SparseSet> sets;                  // of items that are memory and not constant
  std::vector<uint32_t> read_node, write_node;  // by set; kNone if it is not read, not written
  std::vector<Use> uses;

  struct Size {
    size_t operations = 0, values = 0, edges = 0;
    uint64_t pairs = 0;  // edges that there would be without nodes for sets
  };
  Size size() const;
};

// `counts` are null without a profile. Fails with usage if they are of another program.
Result<DataFlow> build_graph(const Facts& facts, const PointsTo& points_to, const ProgramCounts* counts);

}  // namespace friday::cut
