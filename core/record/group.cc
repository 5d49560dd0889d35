#include "core/record/group.h"

#include <csignal>
#include <set>

#include <toml++/toml.h>

#include "core/record/placeholders.h"

namespace friday {
namespace {

std::string place(const std::string& path, const toml::node& node) {
  return fmt::format("{}:{}", path, node.source().begin.line);
}

template <typename T>
Result<void> read(const std::string& path, const toml::node& node, std::string_view key, const char* kind, T& out) {
  if (auto value = node.value<T>()) {
    out = *value;
    return {};
  }
  return fail(ErrorCode::bad_input, "{}: {} must be {}", place(path, node), key, kind);
}

Result<void> read_seconds(const std::string& path, const toml::node& node, std::string_view key, double& out) {
  FRIDAY_TRY_VOID(read(path, node, key, "a number of seconds", out));
  if (out < 0) return fail(ErrorCode::bad_input, "{}: {} must not be negative", place(path, node), key);
  if (!(out < 1e6))
    return fail(ErrorCode::bad_input, "{}: {} must be a number of seconds below a million", place(path, node), key);
  return {};
}

// A string whose placeholders are complete (placeholders.h).
Result<void> read_text(const std::string& path, const toml::node& node, std::string_view key, const char* kind,
                       std::string& out) {
  FRIDAY_TRY_VOID(read(path, node, key, kind, out));
  if (auto whole = check_placeholders(out); !whole)
    return fail(ErrorCode::bad_input, "{}: {}: {}", place(path, node), key, whole.error().message);
  return {};
}

// A list of strings that is not empty. `kind` says what it must be, with an example.
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

Result<void> read_size(const std::string& path, const toml::node& node, uint64_t& out) {
  std::string text;
  FRIDAY_TRY_VOID(read(path, node, "max_size", "a string as \"500M\" or \"20G\"", text));
  auto size = parse_size(text);
  if (!size) return fail(ErrorCode::bad_input, "{}: max_size: {}", place(path, node), size.error().message);
  out = *size;
  return {};
}

Result<int> signal_number(const std::string& path, const toml::node& node) {
  std::string name;
  FRIDAY_TRY_VOID(read(path, node, "stop_signal", "a signal name such as \"TERM\"", name));
  if (name.starts_with("SIG")) name = name.substr(3);
  const std::pair<const char*, int> known[] = {{"TERM", SIGTERM}, {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"HUP", SIGHUP},
                                               {"KILL", SIGKILL}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};
  for (const auto& [known_name, number] : known)
    if (name == known_name) return number;
  return fail(ErrorCode::bad_input, "{}: unknown stop_signal \"{}\"; use TERM, INT, QUIT, HUP, KILL, USR1 or USR2",
              place(path, node), name);
}

Result<ProgramSpec> read_node(const std::string& path, const toml::table& table) {
  ProgramSpec program;
  for (const auto& [key, node] : table) {
    if (key == "name") {
      FRIDAY_TRY_VOID(read(path, node, "name", "a string", program.name));
      if (auto fits = check_node_name(program.name); !fits)
        return fail(ErrorCode::bad_input, "{}: name: {}", place(path, node), fits.error().message);
    } else if (key == "command") {
      FRIDAY_TRY_VOID(read_list(path, node, "command", "a list of strings, e.g. [\"./server\", \"--port\", \"1\"]",
                                program.command));
    } else if (key == "env") {
      const auto* env = node.as_table();
      if (!env)
        return fail(ErrorCode::bad_input, "{}: env must be a table, e.g. {{ KEY = \"value\" }}", place(path, node));
      for (const auto& [name, value] : *env)
        FRIDAY_TRY_VOID(read_text(path, value, name.str(), "a string", program.environment[std::string(name.str())]));
    } else if (key == "cwd") {
      FRIDAY_TRY_VOID(read_text(path, node, "cwd", "a string", program.cwd));
    } else if (key == "stdout") {
      FRIDAY_TRY_VOID(read_text(path, node, "stdout", "a file name", program.output));
    } else if (key == "stderr") {
      FRIDAY_TRY_VOID(read_text(path, node, "stderr", "a file name", program.errors));
    } else if (key == "start_delay") {
      FRIDAY_TRY_VOID(read_seconds(path, node, "start_delay", program.start_delay));
    } else if (key == "record") {
      FRIDAY_TRY_VOID(read(path, node, "record", "true or false", program.record));
    } else if (key == "stop_signal") {
      FRIDAY_TRY(number, signal_number(path, node));
      program.stop_signal = number;
    } else {
      return fail(ErrorCode::bad_input,
                  "{}: unknown key \"{}\" in [[node]]; known: name, command, cwd, env, start_delay, stdout, stderr, "
                  "record, stop_signal",
                  place(path, node), key.str());
    }
  }
  if (program.name.empty()) return fail(ErrorCode::bad_input, "{}: a [[node]] has no name", place(path, table));
  if (program.command.empty())
    return fail(ErrorCode::bad_input, "{}: node {} has no command", place(path, table), program.name);
  return program;
}

Result<void> read_settings(const std::string& path, const toml::table& table, GroupSpec& group) {
  for (const auto& [key, node] : table) {
    if (key == "stop_after") FRIDAY_TRY_VOID(read_seconds(path, node, "stop_after", group.stop_after));
    else if (key == "stop_when_ends")
      FRIDAY_TRY_VOID(read(path, node, "stop_when_ends", "a node name", group.stop_when_ends));
    else if (key == "max_size") FRIDAY_TRY_VOID(read_size(path, node, group.max_size));
    else if (key == "timeout") FRIDAY_TRY_VOID(read_seconds(path, node, "timeout", group.timeout));
    else if (key == "must_succeed")
      FRIDAY_TRY_VOID(read_list(path, node, "must_succeed", "a list of node names", group.must_succeed));
    else if (key == "check")
      FRIDAY_TRY_VOID(
          read_list(path, node, "check", "a list of strings, e.g. [\"./check.sh\", \"{dir}\"]", group.check));
    else if (key == "predicates")
      FRIDAY_TRY_VOID(read_list(path, node, "predicates", "a list of scripts for friday run", group.predicates));
    else if (key == "check_timeout") FRIDAY_TRY_VOID(read_seconds(path, node, "check_timeout", group.check_timeout));
    else
      return fail(ErrorCode::bad_input,
                  "{}: unknown key \"{}\" in [group]; known: stop_after, stop_when_ends, timeout, must_succeed, check, "
                  "predicates, check_timeout, max_size",
                  place(path, node), key.str());
  }
  return {};
}

}  // namespace

Result<GroupSpec> read_group(const std::string& path) {
  toml::table document;
  try {
    document = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::bad_input, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  GroupSpec group;
  for (const auto& [key, node] : document) {
    if (key == "group" && node.is_table()) {
      FRIDAY_TRY_VOID(read_settings(path, *node.as_table(), group));
    } else if (key == "node" && node.is_array_of_tables()) {
      for (const auto& item : *node.as_array()) {
        FRIDAY_TRY(program, read_node(path, *item.as_table()));
        group.programs.push_back(std::move(program));
      }
    } else {
      return fail(ErrorCode::bad_input,
                  "{}: unknown entry \"{}\"; a group file has one [group] table and [[node]] tables", place(path, node),
                  key.str());
    }
  }
  if (group.programs.empty()) return fail(ErrorCode::bad_input, "{}: no [[node]] table: nothing to run", path);
  std::set<std::string> names;
  for (const auto& program : group.programs)
    if (!names.insert(program.name).second)
      return fail(ErrorCode::bad_input, "{}: two nodes are named {}", path, program.name);
  if (!group.stop_when_ends.empty() && !names.contains(group.stop_when_ends))
    return fail(ErrorCode::bad_input, "{}: stop_when_ends names {}, which is no node of this group", path,
                group.stop_when_ends);
  for (const std::string& name : group.must_succeed)
    if (!names.contains(name))
      return fail(ErrorCode::bad_input, "{}: must_succeed names {}, which is no node of this group", path, name);
  return group;
}

}  // namespace friday
