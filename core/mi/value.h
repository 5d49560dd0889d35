// The tree that GDB/MI output consists of: C strings, tuples {name=value,...} and lists [value,...].
//
// gdb does not follow its own grammar, so tuples and lists are both represented as a sequence of fields, whose names
// may repeat (body=[bkpt={..},bkpt={..}], args lists) or, in a tuple, be absent (script={"silent","print x"} up to mi3;
// bkpt={..},{..} for the locations of a breakpoint up to mi2). Plain values; any thread may use its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace friday {

struct MiField;

struct MiValue {
  enum class Kind { text, tuple, list };

  Kind kind = Kind::tuple;
  std::string text;             // for Kind::text: the bytes, with escapes decoded
  std::vector<MiField> fields;  // for the other kinds

  // The first field with this name, or null. `name` is not a path such as "frame.addr": call find() for each level.
  const MiValue* find(std::string_view name) const;
  // The text of the first field with this name; empty if there is none or it is not a text.
  std::string_view text_of(std::string_view name) const;
  // The same, parsed as a number: hexadecimal if it starts with "0x", otherwise decimal.
  std::optional<uint64_t> number_of(std::string_view name) const;

  bool operator==(const MiValue&) const;
};

struct MiField {
  std::string name;  // empty for a value without a name
  MiValue value;
  bool operator==(const MiField&) const = default;
};

std::optional<uint64_t> parse_mi_number(std::string_view text);

// Quotes `text` as a C string that gdb's MI reader accepts. The result includes the quotes and is always one line.
std::string mi_quote(std::string_view text);

// A readable form on one line, similar to gdb's own; for messages and the capture tests.
std::string to_string(const MiValue& value);

}  // namespace friday
