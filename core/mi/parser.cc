#include "core/mi/parser.h"

#include <array>
#include <cctype>
#include <expected>
#include <utility>

#include <fmt/format.h>

namespace friday {

namespace {

struct Token {
  enum class Kind { name, text, open_tuple, close_tuple, open_list, close_list, equals, comma, end, bad };
  Kind kind = Kind::end;
  std::string text;  // a name as written, a decoded string, or what is wrong
  size_t column = 0;
};

// The tokens that follow the class of a record: names, C strings and punctuation.
class Lexer {
 public:
  Lexer(std::string_view line, size_t start) : line_(line), position_(start) {}

  Token next() {
    size_t column = position_;
    if (position_ >= line_.size()) return {Token::Kind::end, "", column};
    char c = line_[position_];
    if (c == '"') return c_string();
    if (auto kind = punctuation(c); kind != Token::Kind::bad) {
      ++position_;
      return {kind, std::string(1, c), column};
    }
    while (position_ < line_.size() && is_name(line_[position_])) ++position_;
    if (position_ == column) return {Token::Kind::bad, fmt::format("unexpected character '{}'", c), column};
    return {Token::Kind::name, std::string(line_.substr(column, position_ - column)), column};
  }

 private:
  static Token::Kind punctuation(char c) {
    switch (c) {
      case '{': return Token::Kind::open_tuple;
      case '}': return Token::Kind::close_tuple;
      case '[': return Token::Kind::open_list;
      case ']': return Token::Kind::close_list;
      case '=': return Token::Kind::equals;
      case ',': return Token::Kind::comma;
      default: return Token::Kind::bad;
    }
  }

  // Keys that Python MI commands return may contain letters, digits, '-' and '_'.
  static bool is_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
  }

  Token c_string() {
    size_t column = position_++;
    std::string text;
    while (position_ < line_.size()) {
      char c = line_[position_++];
      if (c == '"') return {Token::Kind::text, std::move(text), column};
      if (c != '\\') {
        text += c;
        continue;
      }
      if (position_ >= line_.size()) break;
      text += escape();
    }
    return {Token::Kind::bad, "string without its closing quote", column};
  }

  char escape() {
    char c = line_[position_++];
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'a': return '\a';
      case 'b': return '\b';
      case 'f': return '\f';
      case 'v': return '\v';
      case 'e': return '\033';
      default: break;
    }
    if (c < '0' || c > '7') return c;  // \" and \\, and any escape that gdb may add
    int value = c - '0';
    for (int digits = 1; digits < 3 && position_ < line_.size(); ++digits, ++position_) {
      char digit = line_[position_];
      if (digit < '0' || digit > '7') break;
      value = value * 8 + (digit - '0');
    }
    return static_cast<char>(value);
  }

  std::string_view line_;
  size_t position_;
};

struct Failure {
  size_t column;
  std::string message;
};

// A recursive-descent parser. Its depth is limited, so that no input can exhaust the stack.
class Grammar {
 public:
  Grammar(std::string_view line, size_t start) : lexer_(line, start) { advance(); }

  // Parses (',' result)* up to the end of the line.
  std::expected<MiValue, Failure> trailing_results() {
    MiValue value;
    while (token_.kind == Token::Kind::comma) {
      advance();
      if (auto failure = field(value, 0)) return std::unexpected(*failure);
    }
    if (token_.kind != Token::Kind::end) return std::unexpected(expected_what("',' or the end of the line"));
    return value;
  }

  // Parses one C string up to the end of the line.
  std::expected<std::string, Failure> only_text() {
    if (token_.kind != Token::Kind::text) return std::unexpected(expected_what("a C string"));
    std::string text = std::move(token_.text);
    advance();
    if (token_.kind != Token::Kind::end) return std::unexpected(expected_what("the end of the line"));
    return text;
  }

 private:
  static constexpr int max_depth = 200;

  void advance() { token_ = lexer_.next(); }

  Failure expected_what(std::string_view what) const {
    if (token_.kind == Token::Kind::bad) return {token_.column, token_.text};
    return {token_.column, fmt::format("expected {}", what)};
  }

  std::optional<Failure> field(MiValue& parent, int depth) {
    MiField& field = parent.fields.emplace_back();
    if (token_.kind == Token::Kind::name) {
      field.name = std::move(token_.text);
      advance();
      if (token_.kind != Token::Kind::equals) return expected_what("'='");
      advance();
    }
    return value(field.value, depth);
  }

  std::optional<Failure> value(MiValue& value, int depth) {
    switch (token_.kind) {
      case Token::Kind::text:
        value.kind = MiValue::Kind::text;
        value.text = std::move(token_.text);
        advance();
        return std::nullopt;
      case Token::Kind::open_tuple:
        value.kind = MiValue::Kind::tuple;
        return sequence(value, Token::Kind::close_tuple, depth + 1);
      case Token::Kind::open_list:
        value.kind = MiValue::Kind::list;
        return sequence(value, Token::Kind::close_list, depth + 1);
      default: return expected_what("a value");
    }
  }

  std::optional<Failure> sequence(MiValue& parent, Token::Kind close, int depth) {
    if (depth > max_depth) return Failure{token_.column, "nested too deeply"};
    advance();
    if (token_.kind == close) {
      advance();
      return std::nullopt;
    }
    for (;;) {
      if (auto failure = field(parent, depth)) return failure;
      if (token_.kind == close) {
        advance();
        return std::nullopt;
      }
      if (token_.kind != Token::Kind::comma)
        return expected_what(close == Token::Kind::close_tuple ? "',' or '}'" : "',' or ']'");
      advance();
    }
  }

  Lexer lexer_;
  Token token_;
};

constexpr std::array<std::pair<std::string_view, ResultClass>, 5> result_classes{{
    {"done", ResultClass::done},
    {"running", ResultClass::running},
    {"connected", ResultClass::connected},
    {"error", ResultClass::error},
    {"exit", ResultClass::exit},
}};

MiParseError parse_error(std::string_view line, Failure failure) {
  return {std::string(line), failure.column, std::move(failure.message)};
}

MiRecord parse_stream(std::string_view line, StreamKind kind) {
  auto text = Grammar(line, 1).only_text();
  if (!text) return parse_error(line, std::move(text).error());
  return StreamRecord{kind, *std::move(text)};
}

MiRecord parse_result(std::string_view line, std::optional<uint64_t> token, std::string_view name, size_t column,
                      MiValue fields) {
  for (auto [known, value] : result_classes)
    if (known == name) return ResultRecord{token, value, std::move(fields)};
  return parse_error(line, {column, fmt::format("unknown result class '{}'", name)});
}

}  // namespace

MiRecord parse_mi_line(std::string_view line) {
  if (line == "(gdb)" || line == "(gdb) ") return PromptRecord{};
  size_t position = 0;
  while (position < line.size() && std::isdigit(static_cast<unsigned char>(line[position]))) ++position;
  std::optional<uint64_t> token;
  if (position > 0) token = parse_mi_number(line.substr(0, position));
  if (position == line.size()) return parse_error(line, {position, "expected a record"});
  if (position > 0 && !token) return parse_error(line, {0, "token out of range"});

  char sigil = line[position];
  if (position == 0 && sigil == '~') return parse_stream(line, StreamKind::console);
  if (position == 0 && sigil == '@') return parse_stream(line, StreamKind::target);
  if (position == 0 && sigil == '&') return parse_stream(line, StreamKind::log);
  if (sigil != '^' && sigil != '*' && sigil != '+' && sigil != '=')
    return parse_error(line, {position, "expected a record"});

  size_t start = ++position;
  while (position < line.size() && line[position] != ',') ++position;
  std::string_view name = line.substr(start, position - start);
  if (name.empty()) return parse_error(line, {start, "expected a class name"});
  auto fields = Grammar(line, position).trailing_results();
  if (!fields) return parse_error(line, std::move(fields).error());
  if (sigil == '^') return parse_result(line, token, name, start, *std::move(fields));
  AsyncKind kind = sigil == '*' ? AsyncKind::exec : sigil == '+' ? AsyncKind::status : AsyncKind::notify;
  return AsyncRecord{token, kind, std::string(name), *std::move(fields)};
}

void MiParser::feed(std::string_view bytes, std::vector<MiRecord>& records) {
  while (!bytes.empty()) {
    size_t newline = bytes.find('\n');
    line_ += bytes.substr(0, newline);
    if (newline == std::string_view::npos) return;
    bytes.remove_prefix(newline + 1);
    if (line_.ends_with('\r')) line_.pop_back();
    if (!line_.empty()) records.push_back(parse_mi_line(line_));
    line_.clear();
  }
}

namespace {

struct Printer {
  static std::string token(std::optional<uint64_t> token) { return token ? std::to_string(*token) : ""; }

  // The fields of a record follow its class without braces, as in gdb's own output.
  static std::string fields(const MiValue& value) {
    std::string text = to_string(value);
    if (text.size() == 2) return "";
    return "," + text.substr(1, text.size() - 2);
  }

  std::string operator()(const ResultRecord& record) const {
    std::string_view name;
    for (auto [known, value] : result_classes)
      if (value == record.result) name = known;
    return fmt::format("result {}^{}{}", token(record.token), name, fields(record.fields));
  }
  std::string operator()(const AsyncRecord& record) const {
    const char* kind = record.kind == AsyncKind::exec ? "exec" : record.kind == AsyncKind::status ? "status" : "notify";
    return fmt::format("{} {}{}{}", kind, token(record.token), record.name, fields(record.fields));
  }
  std::string operator()(const StreamRecord& record) const {
    const char* kind = record.kind == StreamKind::console  ? "console"
                       : record.kind == StreamKind::target ? "target"
                                                           : "log";
    return fmt::format("{} {}", kind, mi_quote(record.text));
  }
  std::string operator()(const PromptRecord&) const { return "prompt"; }
  std::string operator()(const MiParseError& error) const {
    return fmt::format("parse-error at {}: {}: {}", error.column, error.message, mi_quote(error.line));
  }
};

}  // namespace

std::string to_string(const MiRecord& record) { return std::visit(Printer{}, record); }

}  // namespace friday
