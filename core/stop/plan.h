// Expressions of the program, compiled once by gdb (-friday-plan, core/mi/gdb_friday.py) and evaluated by the core over
// stopped or parked nodes: agent bytecode for the value or the address, and a table of the types it can yield.
//
// A plan is immutable and shared; evaluation keeps no state, so one plan serves all nodes of the same program. Where
// these have it at other addresses, the addresses in the bytecode are moved (core/debug/programs.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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
  integer,
  boolean,
  enumeration,
  floating,
  pointer,
  reference,
  array,
  structure,
  union_,
  function,
  void_,
  other,
};

// One type of a plan's table; `element` and the fields' types are indexes into the same table. The members mean what
// the head of core/mi/gdb_friday.py says.
struct PlanType {
  enum class Float : uint8_t { none, ieee32, ieee64, ieee128, x87 };
  struct Field {
    std::string name;  // empty: anonymous
    uint32_t type = 0;
    std::optional<uint64_t> offset;  // bytes; none: a virtual base, which only gdb can find
    bool base_class = false, artificial = false;
    uint32_t bit = 0, bits = 0;  // bit-fields: `bits` bits from bit `bit` of the byte at `offset`; else 0
  };
  TypeKind kind = TypeKind::other;
  std::string name;          // as gdb prints it
  uint64_t size = 0;         // bytes
  bool is_signed = false;    // integers and enumerations
  bool character = false;    // character data; of a pointer or array: of its elements
  bool to_function = false;  // of a pointer
  Float format = Float::none;
  std::string target;        // of a pointer or reference: the name of what it points to
  uint64_t target_size = 0;  // of a pointer to character data: bytes of one character
  uint32_t element = 0;      // of an array
  uint64_t count = 0;
  int64_t lower = 0;  // first index
  std::vector<Field> fields;
  std::string standard;          // of a class of libstdc++: its template's name
  std::optional<uint32_t> item;  // what such a container holds
  std::vector<std::pair<std::string, int64_t>> enumerators;
};

struct ExpressionPlan {
  enum class Kind : uint8_t {
    value,    // the bytecode yields a scalar, whose low bytes are the value
    address,  // the bytecode yields the address of an object of the type
    call,     // a call of a function of the program: `call` says what with
    gdb,      // only gdb can evaluate it (`reason` says why)
  };
  enum class Passing : uint8_t {
    integer,
    single,
    double_
  };  // in a general register, or in a vector register as a float
  struct Code {
    std::vector<std::byte> bytecode;
    std::vector<uint32_t> addresses;
  };
  struct Call {
    struct Argument {
      Code value;
      Passing passing = Passing::integer;
    };
    Code function;
    std::vector<Argument> arguments;
    std::optional<Passing> result;  // none: void
    bool reference = false;         // the result is the address of the value
  };
  struct Place {
    std::vector<std::byte> bytecode;  // yields the address of the first byte
    std::vector<uint32_t> addresses;  // as those of the plan
    uint64_t size = 0;                // bytes touched
    uint32_t bit = 0, bits = 0;       // bit-fields, as in PlanType::Field
  };
  Kind kind = Kind::gdb;
  std::string expression, reason;
  bool fixed = false;  // the place that it had once, whatever it means later
  std::vector<std::byte> bytecode;
  bool movable = false;             // all addresses in the bytecode are known: `addresses`
  std::vector<uint32_t> addresses;  // where in the bytecode addresses of symbols stand, eight big-endian bytes each
  std::optional<Call> call;
  std::optional<Place> place;       // none: the expression has no address
  std::vector<uint32_t> registers;  // that the bytecode reads; not empty: the plan holds at the pc it was made at only
  bool verified = false;            // gdb ran it when it was made, and it agreed with gdb
  uint32_t type = 0;
  std::vector<PlanType> types;

  const PlanType& result_type() const { return types.at(type); }
};

// The value of a plan at one moment: the bytes of an object of `type`, scalars too.
struct PlanValue {
  uint32_t type = 0;
  std::vector<std::byte> bytes;
  std::optional<Addr> address;  // of an object; a scalar's is found with evaluate_place()

  uint64_t as_unsigned() const;  // the first eight bytes, zero-extended
};

struct PlaceValue {
  Addr address{};
  uint64_t size = 0;
  uint32_t bit = 0, bits = 0;
};

// Decodes what -friday-plan answered. bad_input when the text is not of the documented form.
Result<ExpressionPlan> parse_plan(std::string_view json);

// `thread` gives the registers that locals are found by. Fails with bad_address (as C would fault), with unsupported
// for Kind::gdb. `reads` is told of each piece of memory that the bytecode reads, in order, also when a later one
// fails.
struct MemoryCell {
  Addr address{};
  uint64_t size = 0;
  bool operator==(const MemoryCell&) const = default;
};
Result<PlanValue> evaluate(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                           std::vector<MemoryCell>* reads = nullptr);
// What a plan of Kind::call calls: its address, and the arguments as register contents.
struct CallValues {
  uint64_t function = 0;
  std::vector<uint64_t> arguments;
};
Result<CallValues> evaluate_call(const ExpressionPlan& plan, NodeControl& node, ThreadId thread);
// Where the value stands in memory, for a watch or a write. unsupported when it has no place.
Result<PlaceValue> evaluate_place(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                                  std::vector<MemoryCell>* reads = nullptr);

}  // namespace friday
