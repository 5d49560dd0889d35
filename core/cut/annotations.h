// What the analysis of a cut knows of functions that it does not see: those of the C library and system calls, and
// those that a user has described. Read from TOML files; annotations.toml, which is compiled in, is shared by all
// programs, and docs/cut.md has the language. A function that nobody describes may do anything with what it can reach,
// so annotations make cuts cheaper. A function that the program defines can be described too, if it returns new memory:
// then its result is only what the description says, as for an allocator with a pool. Other descriptions of functions
// with code are not used. Plain values; any thread may read them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "core/base/error.h"

namespace friday::cut {

// A pointer, as a phrase names it: "arg 1", "below arg 0", "kept signal".
struct AnnotatedValue {
  enum class Kind : uint8_t {
    argument,  // "arg 1"; "arg 1..." is this one and all behind it
    result,    // of the call
    own,       // "own stdio": points to memory of the library, which others see only through such pointers
    constant,  // "constant ctype": the same, and nothing in it depends on anything but the library
    kept,      // "kept signal": what was kept in it
    fresh,     // "new": to memory that nobody has yet
    shared,    // "shared": the same, and others than the program write it, too
    symbols,   // "symbols": to all functions and variables of the program that other modules may name
  };
  enum class Depth : uint8_t {
    itself,
    below,  // "below arg 1": what memory at arg 1 points to
    all,    // "all of arg 1": arg 1, and what can be reached from there
  };
  Kind kind = Kind::argument;
  Depth depth = Depth::itself;
  uint32_t argument = 0;
  bool onwards = false;
  std::string name{};  // of own, constant and kept
  auto operator<=>(const AnnotatedValue&) const = default;
};

// A number of bytes: "16", "arg 2", "result * arg 1", "string", "object".
struct AnnotatedBytes {
  static constexpr uint32_t kResult = ~uint32_t{0};
  enum class Kind : uint8_t {
    object,   // as many as the memory has
    string,   // up to a zero byte
    product,  // of `factor` and values
  };
  Kind kind = Kind::object;
  uint64_t factor = 1;
  std::vector<uint32_t> values{};  // arguments, kResult
  auto operator<=>(const AnnotatedBytes&) const = default;
};

struct Annotation {
  struct Touch {
    AnnotatedValue memory;
    AnnotatedBytes bytes;
  };
  struct Move {
    AnnotatedValue from, to;
    AnnotatedBytes bytes;
  };
  struct Result {
    AnnotatedValue value;
    AnnotatedBytes size;  // of new memory
  };
  struct Store {
    AnnotatedValue value, at;
    AnnotatedBytes size;  // of new memory
  };
  struct Keep {
    AnnotatedValue value;
    std::string name;
  };
  struct Callback {
    AnnotatedValue function;
    std::vector<AnnotatedValue> arguments;
    std::string result_kept;  // in what its result is kept; may be empty
  };

  // With equal arguments and memory it does the same, so it runs again wherever its caller does. Else it is a source of
  // non-determinism: its results and what it writes are logged where they cross the cut.
  bool deterministic = false;
  // It orders threads, which the recorder logs apart from the cut; deterministic otherwise.
  bool synchronises = false;
  std::vector<Touch> reads, writes;
  std::vector<Move> moves;
  std::vector<Result> returns;
  std::vector<Store> stores;
  std::vector<Keep> keeps;
  std::vector<Callback> calls;
  std::vector<AnnotatedValue> frees;

  bool allocates() const;
};

class Annotations {
 public:
  // Those that are compiled in.
  static Result<Annotations> standard();

  // Adds those of a text in TOML; what was known of the same names is replaced. `path` is named in errors.
  Result<void> add(std::string_view text, const std::string& path);
  Result<void> add_file(const std::string& path);

  // Null if nobody has described it.
  const Annotation* function(std::string_view name) const;
  // What a variable of a library points to; null if nobody has described it.
  const AnnotatedValue* variable(std::string_view name) const;
  // The library that a function or a variable without description belongs to: code outside of the program that shares
  // with other such code only what the program gives to both. Empty if nobody has said.
  std::string library(std::string_view name) const;

  size_t size() const { return functions_.size(); }

 private:
  Result<void> add_functions(const toml::table& table, const std::string& path);
  const Annotation* like(const toml::table& table, const toml::node& entry) const;
  Result<void> add_variables(const toml::table& table, const std::string& path);
  Result<void> add_libraries(const toml::table& table, const std::string& path);

  std::map<std::string, Annotation, std::less<>> functions_;
  std::map<std::string, AnnotatedValue, std::less<>> variables_;
  std::map<std::string, std::string, std::less<>> libraries_;  // by a name, or its beginning and '*'
};

// The text of annotations.toml.
std::string_view standard_annotations();

}  // namespace friday::cut
