#include "core/debug/expression_text.h"

#include <algorithm>
#include <cctype>
#include <vector>

namespace friday {

bool is_identifier(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_'; }

size_t find_word(std::string_view text, std::string_view name, size_t from) {
  for (size_t at = text.find(name, from); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const bool left = at == 0 || !is_identifier(text[at - 1]);
    const bool right = at + name.size() == text.size() || !is_identifier(text[at + name.size()]);
    if (left && right) return at;
  }
  return std::string_view::npos;
}

std::string unescape(std::string_view inside) {
  std::string out;
  for (size_t i = 0; i < inside.size(); i++) {
    if (inside[i] != '\\' || i + 1 == inside.size()) {
      out += inside[i];
      continue;
    }
    const char c = inside[++i];
    switch (c) {
      case 'n': out += '\n'; break;
      case 't': out += '\t'; break;
      case 'r': out += '\r'; break;
      case '0':
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
      case '7': {
        int value = 0;
        size_t digits = 0;
        while (digits < 3 && i < inside.size() && inside[i] >= '0' && inside[i] <= '7')
          value = value * 8 + (inside[i++] - '0'), digits++;
        i--;
        out += static_cast<char>(value);
        break;
      }
      case 'x': {
        int value = 0;
        while (i + 1 < inside.size() && isxdigit(static_cast<unsigned char>(inside[i + 1])))
          value = value * 16 + std::stoi(std::string(1, inside[++i]), nullptr, 16);
        out += static_cast<char>(value);
        break;
      }
      default: out += c;
    }
  }
  return out;
}

bool has_call(const std::string& expression) {
  for (size_t at = expression.find('('); at != std::string::npos; at = expression.find('(', at + 1)) {
    const size_t before = expression.find_last_not_of(' ', at - 1), after = expression.find_first_not_of(' ', at + 1);
    if (at == 0 || before == std::string::npos || !is_identifier(expression[before]) ||
        (after != std::string::npos && expression[after] == '*'))
      continue;
    const size_t end = before + 1;
    const size_t start =
        expression.find_last_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789", before) + 1;
    const std::string_view word = std::string_view(expression).substr(start, end - start);
    if (word != "sizeof" && word != "alignof" && word != "_Alignof") return true;
  }
  return false;
}

bool passes_literal_to_function(std::string_view expression) {
  std::vector<size_t> open;  // the parentheses and brackets around the place
  for (size_t i = 0; i < expression.size(); i++) {
    const char c = expression[i];
    if (c == '(' || c == '[') open.push_back(i);
    if ((c == ')' || c == ']') && !open.empty()) open.pop_back();
    if (c != '"' && c != '\'') continue;
    if (c == '"' && !open.empty() && expression[open.back()] == '(') {
      size_t name = open.back();
      while (name > 0 && is_identifier(expression[name - 1])) name--;
      const bool named = name < open.back();
      const bool member = name > 0 && (expression[name - 1] == '.' || expression.substr(0, name).ends_with("->"));
      if (named && !member) return true;
    }
    for (i++; i < expression.size() && expression[i] != c; i++) i += expression[i] == '\\';
  }
  return false;
}

std::optional<PrintCommand> parse_print_command(const std::string& command) {
  const auto skip_blanks = [&](size_t at) { return std::min(command.find_first_not_of(" \t", at), command.size()); };
  const auto word_end = [&](size_t at) {
    while (at < command.size() && is_identifier(command[at])) at++;
    return at;
  };
  const size_t begin = skip_blanks(0), end = word_end(begin);
  const std::string_view word = std::string_view(command).substr(begin, end - begin);
  if (word.empty() || !(std::string_view("print").starts_with(word) || word == "inspect")) return std::nullopt;
  size_t at = skip_blanks(end);
  PrintCommand print;
  if (at < command.size() && command[at] == '/') {
    const size_t format_end = word_end(at + 1);
    print.format = command.substr(at, format_end - at);
    at = skip_blanks(format_end);
  }
  if (at == command.size() || command[at] == '-') return std::nullopt;
  print.expression = command.substr(at);
  return print;
}

std::optional<std::pair<std::string, std::string>> split_local(const std::string& expression) {
  size_t end = 0, last = std::string::npos;
  while (end < expression.size() &&
         (is_identifier(expression[end]) || expression[end] == ':' || expression[end] == '~')) {
    if (expression.compare(end, 2, "::") == 0) last = end++;
    end++;
  }
  if (last == std::string::npos || last == 0 || last + 2 >= end || isdigit(static_cast<unsigned char>(expression[0])))
    return std::nullopt;
  return std::pair{expression.substr(0, last), expression.substr(last + 2)};
}

}  // namespace friday
