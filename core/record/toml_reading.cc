#include "core/record/toml_reading.h"

#include "core/record/placeholders.h"

namespace friday {

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

Result<void> read_seconds(const std::string& path, const toml::node& node, std::string_view key, double& out) {
  FRIDAY_TRY_VOID(read(path, node, key, "a number of seconds", out));
  if (out < 0) return fail(ErrorCode::bad_input, "{}: {} must not be negative", place(path, node), key);
  if (!(out < 1e6))
    return fail(ErrorCode::bad_input, "{}: {} must be a number of seconds below a million", place(path, node), key);
  return {};
}

Result<void> read_number(const std::string& path, const toml::node& node, std::string_view key, double least,
                         double most, double& out) {
  FRIDAY_TRY_VOID(read(path, node, key, "a number", out));
  if (out >= least && out <= most) return {};
  return fail(ErrorCode::bad_input, "{}: {} is {:g}, but must be from {:g} to {:g}", place(path, node), key, out, least,
              most);
}

Result<void> read_text(const std::string& path, const toml::node& node, std::string_view key, const char* kind,
                       std::string& out) {
  FRIDAY_TRY_VOID(read(path, node, key, kind, out));
  if (auto whole = check_placeholders(out); !whole)
    return fail(ErrorCode::bad_input, "{}: {}: {}", place(path, node), key, whole.error().message);
  return {};
}

Result<void> read_list(const std::string& path, const toml::node& node, std::string_view key, const char* kind,
                       std::vector<std::string>& out) {
  const auto* list = node.as_array();
  if (!list || list->empty()) return fail(ErrorCode::bad_input, "{}: {} must be {}", place(path, node), key, kind);
  for (const auto& item : *list) {
    std::string text;
    FRIDAY_TRY_VOID(read_text(path, item, key, "a list of strings", text));
    out.push_back(text);
  }
  return {};
}

Result<void> read_names(const std::string& path, const toml::node& node, std::string_view key,
                        std::vector<std::string>& out) {
  if (!node.is_string()) return read_list(path, node, key, "the name of a node, or a list of names", out);
  out.push_back(*node.value<std::string>());
  return {};
}

}  // namespace friday
