// Expressions of the program, compiled once by gdb (-friday-plan, core/mi/gdb_friday.py) and evaluated by the core over
// stopped or parked nodes: agent bytecode for the value or the address, and a table of the types it can yield.
//
// A plan is immutable and shared; evaluation keeps no state, so one plan serves all nodes of the same program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/agent.h"
#include "core/stop/node_control.h"

namespace friday {

// Reads a node's memory as the program sees it.
class NodeMemory final : public MemoryReader {
 public:
  explicit NodeMemory(NodeControl& node) : node_(node) {}
  Result<void> read(Addr address, std::span<std::byte> out) override { return node_.read(address, out); }

 private:
  NodeControl& node_;
};

enum class TypeKind : uint8_t {
  integer, boolean, character, floating, enumeration, pointer, reference, array, structure, union_, function, void_, other,
};

// One type of a plan's table; other types are named by their index in the table.
struct PlanType {
  struct Field {
    std::string name;
    uint32_t type = 0;
    uint64_t bit_offset = 0;   // from the start of the object
    uint32_t bit_size = 0;     // of a bit-field; 0: the size of its type
    bool base_class = false;
  };
  TypeKind kind = TypeKind::other;
  std::string name;            // as C or C++ writes it
  uint64_t size = 0;           // bytes
  bool is_signed = false;
  std::optional<uint32_t> target;  // of a pointer, reference or array
  uint64_t count = 0;              // elements of an array
  std::vector<Field> fields;
  std::vector<std::pair<std::string, int64_t>> enumerators;
};

struct ExpressionPlan {
  enum class Kind : uint8_t {
    value,    // the bytecode yields the value itself (an integer, a pointer, a bit-field)
    address,  // the bytecode yields the address of an object of `type`
    gdb,      // only gdb can evaluate it (`reason` says why)
  };
  Kind kind = Kind::gdb;
  std::string expression;
  std::vector<std::byte> bytecode;
  uint32_t type = 0;               // index in `types`
  std::vector<PlanType> types;
  std::string reason;

  const PlanType& result_type() const { return types.at(type); }
};

// The value of a plan at one moment: the bytes of an object of `type`. Integers too, in the size of their type.
struct PlanValue {
  uint32_t type = 0;
  std::vector<std::byte> bytes;
  std::optional<Addr> address;  // where it was read; none for a computed value

  uint64_t as_unsigned() const;  // the first eight bytes, zero-extended
};

// Decodes what -friday-plan answered. bad_input when the text is not of the documented form.
Result<ExpressionPlan> parse_plan(std::string_view json);

// `thread` gives the registers that locals are found by. Fails with bad_address (as C would fault), with unsupported for
// Kind::gdb.
Result<PlanValue> evaluate(const ExpressionPlan& plan, NodeControl& node, ThreadId thread);
// Where the object of an address plan lies, without reading it.
Result<Addr> evaluate_address(const ExpressionPlan& plan, NodeControl& node, ThreadId thread);

// Plans by program (build-id), scope and expression. `scope` is a key that two places share when names mean the same in
// both: the function's name, or its address.
class PlanCache {
 public:
  using Plan = std::shared_ptr<const ExpressionPlan>;

  Plan find(std::string_view program, std::string_view scope, std::string_view expression) const;
  Plan store(std::string_view program, std::string_view scope, ExpressionPlan plan);
  // A library came or went: names of this program may mean something else now.
  void forget_program(std::string_view program);
  size_t size() const { return plans_.size(); }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, Plan, std::less<>> plans_;
};

}  // namespace friday
