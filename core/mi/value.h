// The tree that GDB/MI output is made of: C-string constants, tuples {name=value,...} and lists [value,...].
//
// Real gdb bends its own grammar, so tuples and lists are held alike, as an ordered sequence of fields whose names may
// repeat (body=[bkpt={..},bkpt={..}], args lists) or be absent in a tuple (script={"silent","print x"} up to mi3;
// bkpt={..},{..} for the locations of a breakpoint up to mi2). Plain values; any thread may own one.
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
  std::string text;             // Kind::text: the bytes, escapes already decoded
  std::vector<MiField> fields;  // the other kinds

  // First field of that name, or null. find("frame.addr") is not a path: walk with find.
  const MiValue* find(std::string_view name) const;
  // The text of the first field of that name; empty when there is none or it is no text.
  std::string_view text_of(std::string_view name) const;
  // The same as a number; "0x1f" is read as hexadecimal, the rest as decimal.
  std::optional<uint64_t> number_of(std::string_view name) const;

  bool operator==(const MiValue&) const;
};

struct MiField {
  std::string name;  // empty: a bare value
  MiValue value;
  bool operator==(const MiField&) const = default;
};

std::optional<uint64_t> parse_mi_number(std::string_view text);

// The C-string form of `text` that gdb's MI reader accepts, quotes included, on one line whatever `text` holds.
std::string mi_quote(std::string_view text);

// Readable one-line form, close to what gdb printed; used in messages and by the capture tests.
std::string to_string(const MiValue& value);

}  // namespace friday
