// Output of commands: fmt::print, with each text argument made safe for the terminal (core/base/printable.h), since
// names and paths in a recording are not trusted. Use printable_lines for text of several lines that a command has
// composed itself.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/printable.h"

namespace friday {

template <typename T>
inline constexpr bool is_text = std::is_convertible_v<const T&, std::string_view>;

template <typename T>
using Shown = std::conditional_t<is_text<std::remove_cvref_t<T>>, std::string, const std::remove_cvref_t<T>&>;

template <typename T>
Shown<T> shown(const T& value) {
  if constexpr (is_text<T>) return printable(value);
  else return value;
}

template <typename... Args>
void say(std::FILE* to, fmt::format_string<Shown<Args>...> format, const Args&... args) {
  fmt::print(to, format, shown(args)...);
}
template <typename... Args>
void say(fmt::format_string<Shown<Args>...> format, const Args&... args) {
  fmt::print(format, shown(args)...);
}

// Prints a JSON document followed by a newline; `indent` -1 prints it on one line.
inline void say_json(const nlohmann::json& value, int indent = 1) {
  fmt::print("{}\n", printable_json(value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace)));
}

}  // namespace friday
