// How commands print: fmt::print, with each text among the arguments made printable (core/base/printable.h), as names
// and paths in a recording are a stranger's. What a command has put together itself and spans lines goes through
// printable_lines instead.
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

// As a document of its own, with a line break behind it; `indent` -1: on one line.
inline void say_json(const nlohmann::json& value, int indent = 1) {
  fmt::print("{}\n", printable_json(value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace)));
}

}  // namespace friday
