// GDB/MI output (mi3) as records: lexer -> grammar -> tree. Fed any split of bytes; a record is one line, and comes out
// as soon as its newline is in. A line that does not parse becomes an MiParseError that keeps the line: gdb's output is
// input from outside, so no byte sequence aborts or throws.
//
//   record  := [token] ('^' class | '*' class | '+' class | '=' class) (',' result)*  |  ('~' | '@' | '&') c-string
//            | "(gdb)" [space]
//   result  := [name '='] value            value := c-string | '{' results '}' | '[' results ']'
//
// What gdb 13 really does: names may repeat or be absent (value.h); C strings carry bytes above 127 raw or as octal
// escapes of one to three digits; a target that shares gdb's standard output prints between records (never the case in
// Friday, and reported as a parse error).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/mi/value.h"

namespace friday {

enum class ResultClass { done, running, connected, error, exit };

// Answer to the command that carried the token. On ResultClass::error, fields "msg" and sometimes "code".
struct ResultRecord {
  std::optional<uint64_t> token;
  ResultClass result = ResultClass::done;
  MiValue fields;

  bool is_error() const { return result == ResultClass::error; }
  std::string_view error_message() const { return fields.text_of("msg"); }
  bool operator==(const ResultRecord&) const = default;
};

enum class AsyncKind { exec, status, notify };  // '*', '+', '='

struct AsyncRecord {
  std::optional<uint64_t> token;
  AsyncKind kind = AsyncKind::notify;
  std::string name;  // "stopped", "running", "thread-created", "library-loaded", ...
  MiValue fields;
  bool operator==(const AsyncRecord&) const = default;
};

enum class StreamKind { console, target, log };  // '~', '@', '&'

struct StreamRecord {
  StreamKind kind = StreamKind::console;
  std::string text;
  bool operator==(const StreamRecord&) const = default;
};

struct PromptRecord {
  bool operator==(const PromptRecord&) const = default;
};

struct MiParseError {
  std::string line;     // the whole offending line
  size_t column = 0;    // byte at which reading failed
  std::string message;  // what was expected
  bool operator==(const MiParseError&) const = default;
};

using MiRecord = std::variant<ResultRecord, AsyncRecord, StreamRecord, PromptRecord, MiParseError>;

MiRecord parse_mi_line(std::string_view line);

// Readable one-line form for messages and the capture tests.
std::string to_string(const MiRecord& record);

class MiParser {
 public:
  // Appends the records that `bytes` completes.
  void feed(std::string_view bytes, std::vector<MiRecord>& records);
  // Bytes of an unfinished last line; at the end of a stream they are what a dying gdb could still write.
  std::string_view rest() const { return line_; }

 private:
  std::string line_;
};

}  // namespace friday
