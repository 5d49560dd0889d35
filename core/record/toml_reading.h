// What the readers of a group file share (group.cc, group_network.cc): values with their types checked, and messages
// that name the line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <toml++/toml.h>

#include "core/base/error.h"

namespace friday {

// "FILE:LINE".
std::string place(const std::string& path, const toml::node& node);

// Reads a value of a type of TOML. `kind` completes the sentence "KEY must be ...".
template <typename T>
Result<void> read(const std::string& path, const toml::node& node, std::string_view key, const char* kind, T& out) {
  if (auto value = node.value<T>()) {
    out = *value;
    return {};
  }
  return fail(ErrorCode::bad_input, "{}: {} must be {}", place(path, node), key, kind);
}

// From 0 to below a million.
Result<void> read_seconds(const std::string& path, const toml::node& node, std::string_view key, double& out);

// From `least` to `most`, in what the key's name says.
Result<void> read_number(const std::string& path, const toml::node& node, std::string_view key, double least,
                         double most, double& out);

// A string whose placeholders are complete (placeholders.h).
Result<void> read_text(const std::string& path, const toml::node& node, std::string_view key, const char* kind,
                       std::string& out);

// A list of strings that is not empty. `kind` says what it must be, with an example.
Result<void> read_list(const std::string& path, const toml::node& node, std::string_view key, const char* kind,
                       std::vector<std::string>& out);

// Names of nodes: a string, or a list of strings that is not empty.
Result<void> read_names(const std::string& path, const toml::node& node, std::string_view key,
                        std::vector<std::string>& out);

}  // namespace friday
