// Expressions of the program, compiled once by gdb (-friday-plan in core/mi/gdb_friday.py) and evaluated by the core on
// stopped or parked nodes. A plan consists of agent bytecode for the value or the address, and a table of the types
// that it can yield.
//
// A plan is immutable and shared; evaluation keeps no state, so one plan serves all nodes that run the same program.
// Where such nodes have the program at different addresses, the addresses in the bytecode are adjusted
// (core/debug/programs.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/ids.h"
#include "core/stop/agent.h"
#include "core/stop/node_control.h"

namespace friday {

// Reads a node's memory through NodeControl::read(), as the program sees it.
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

// One type of a plan's table; `element` and the types of fields are indexes into the same table. core/mi/gdb_friday.py
// describes the members.
struct PlanType {
  enum class Float : uint8_t { none, ieee32, ieee64, ieee128, x87 };
  struct Field {
    std::string name;  // empty for an anonymous field
    uint32_t type = 0;
    std::optional<uint64_t> offset;  // in bytes; none for a virtual base class, which only gdb can locate
    bool base_class = false, artificial = false;
    // for bit-fields: `bits` bits starting at bit `bit` of the byte at `offset`; otherwise 0
    uint32_t bit = 0, bits = 0;
  };
  TypeKind kind = TypeKind::other;
  std::string name;          // as gdb prints it
  std::string plain;         // without typedefs, qualifiers and words like struct
  uint64_t size = 0;         // in bytes
  bool is_signed = false;    // for integers and enumerations
  bool character = false;    // character data; for a pointer or array, refers to its elements
  bool to_function = false;  // for a pointer: it points to a function
  Float format = Float::none;
  std::string target;        // for a pointer or reference: the name of the type that it refers to
  uint64_t target_size = 0;  // for a pointer to character data: bytes in one character
  uint32_t element = 0;      // for an array: its element type
  uint64_t count = 0;
  int64_t lower = 0;  // index of the first element
  std::vector<Field> fields;
  std::string standard;          // for a class of libstdc++: the name of its template
  std::optional<uint32_t> item;  // for such a container: its element type
  std::optional<uint64_t>
      shift;  // for one whose elements are in nodes: the offset of the element in its node, in bytes
  std::vector<std::pair<std::string, int64_t>> enumerators;
};

struct ExpressionPlan {
  enum class Kind : uint8_t {
    value,    // the bytecode yields a scalar; its low bytes are the value
    address,  // the bytecode yields the address of an object of the type
    call,     // first a function of the program is called, described by `call`; then the bytecode yields an address or
              // value
    gdb,      // only gdb can evaluate it; `reason` says why
  };
  // The kind of register in which an argument, a result, or eight bytes of a struct are passed.
  enum class Passing : uint8_t { general, vector };
  struct Code {
    std::vector<std::byte> bytecode;
    std::vector<uint32_t> addresses;
  };
  struct Call {
    struct Argument {
      Code value;
      Passing passing = Passing::general;
    };
    Code function;
    std::vector<Argument> arguments;
    uint64_t size = 0;  // of what the function returns, in bytes
    // The registers with eight bytes each of what it returns; none if it stores that to memory which the caller
    // provides.
    std::optional<std::vector<Passing>> returned;
    Addr returned_at{};     // where the bytecode that follows the call reads what it has returned
    bool is_value = false;  // that bytecode yields a scalar, as for Kind::value; otherwise an address
  };
  struct Place {
    std::vector<std::byte> bytecode;  // yields the address of the first byte
    std::vector<uint32_t> addresses;  // as ExpressionPlan::addresses
    uint64_t size = 0;                // in bytes
    uint32_t bit = 0, bits = 0;       // for bit-fields, as in PlanType::Field
  };
  Kind kind = Kind::gdb;
  std::string expression, reason;
  bool fixed = false;  // the place was determined once and does not follow later changes of meaning
  std::vector<std::byte> bytecode;
  bool movable = false;             // `addresses` lists all addresses in the bytecode
  std::vector<uint32_t> addresses;  // positions of symbol addresses in the bytecode, each eight bytes, big-endian
  std::vector<PlanStep> steps;      // to which bytecode refers, also that of `call` and `place`
  std::optional<Call> call;
  std::optional<Place> place;  // none: the expression has no address
  // registers that the bytecode reads; if not empty, the plan is valid only at the pc where it was made
  std::vector<uint32_t> registers;
  bool verified = false;  // gdb executed the plan when it was made, and the result agreed with gdb's own
  uint32_t type = 0;
  std::vector<PlanType> types;

  const PlanType& result_type() const { return types.at(type); }
};

// The value of a plan at one moment, as the bytes of an object (or scalar) of `type`.
struct PlanValue {
  uint32_t type = 0;
  std::vector<std::byte> bytes;
  std::optional<Addr> address;  // of an object; evaluate_place() finds the address of a scalar

  uint64_t as_unsigned() const;  // the first eight bytes, zero-extended
};

struct PlaceValue {
  Addr address{};
  uint64_t size = 0;
  uint32_t bit = 0, bits = 0;
};

// Parses the answer to -friday-plan. Fails with bad_input if the text does not have the documented form.
Result<ExpressionPlan> parse_plan(std::string_view json);

// A piece of memory that the bytecode read.
struct MemoryCell {
  Addr address{};
  uint64_t size = 0;
  bool operator==(const MemoryCell&) const = default;
};
// Evaluates the plan. `thread` provides the registers that local variables depend on. Fails with bad_address where C
// code would fault, and with unsupported for Kind::gdb. Appends every memory cell that the bytecode reads to `reads`,
// in order; this also happens if a later read fails.
Result<PlanValue> evaluate(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                           std::vector<MemoryCell>* reads = nullptr);
// What a plan of Kind::call calls: the function's address, and the arguments as contents of registers.
struct CallValues {
  uint64_t function = 0;
  std::vector<uint64_t> arguments;
};
Result<CallValues> evaluate_call(const ExpressionPlan& plan, NodeControl& node, ThreadId thread);
// The value of a plan of Kind::call after the function has returned these bytes. It has an address unless it is a
// scalar or a part of what was returned.
Result<PlanValue> evaluate_returned(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                                    std::span<const std::byte> returned);
// Where the value is in memory, for a watch or a write. Fails with unsupported if it has no address.
Result<PlaceValue> evaluate_place(const ExpressionPlan& plan, NodeControl& node, ThreadId thread,
                                  std::vector<MemoryCell>* reads = nullptr);

}  // namespace friday
