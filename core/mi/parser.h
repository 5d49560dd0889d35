// Parses GDB/MI output (mi3) into records: lexer, grammar, tree. Input may arrive in pieces of any size. A record is
// one line and is returned as soon as its newline has arrived. A line that does not parse becomes an MiParseError that
// contains the line: output of gdb is untrusted, so no byte sequence causes an abort or an exception.
//
//   record  := [token] ('^' class | '*' class | '+' class | '=' class) (',' result)*  |  ('~' | '@' | '&') c-string
//            | "(gdb)" [space]
//   result  := [name '='] value            value := c-string | '{' results '}' | '[' results ']'
//
// Deviations of gdb 13 from its manual: names may repeat or be absent (value.h); C strings contain bytes above 127 raw
// or as octal escapes of one to three digits; a target that shares gdb's standard output prints between records (this
// never happens in Friday and is reported as a parse error).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/mi/value.h"

namespace friday {

enum class ResultClass { done, running, connected, error, exit };

// The answer to the command with the same token. For ResultClass::error there is a field "msg", and sometimes "code".
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
  size_t column = 0;    // position of the byte at which parsing failed
  std::string message;  // what was expected
  bool operator==(const MiParseError&) const = default;
};

using MiRecord = std::variant<ResultRecord, AsyncRecord, StreamRecord, PromptRecord, MiParseError>;

MiRecord parse_mi_line(std::string_view line);

// A readable form on one line, for messages and the capture tests.
std::string to_string(const MiRecord& record);

class MiParser {
 public:
  // Appends the records whose last byte is in `bytes`.
  void feed(std::string_view bytes, std::vector<MiRecord>& records);
  // The bytes of an unfinished last line. At the end of a stream they may be the last words of a dying gdb.
  std::string_view rest() const { return line_; }

 private:
  std::string line_;
};

}  // namespace friday
