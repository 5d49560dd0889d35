#include "core/record/group.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <toml++/toml.h>

#include "core/record/placeholders.h"
#include "core/record/readiness.h"

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

Result<void> read_ready(const std::string& path, const toml::node& node, std::string& out) {
  FRIDAY_TRY_VOID(read_text(path, node, "ready", "a string such as \"port 7000\" or \"output listening\"", out));
  if (out.find("{port:") != std::string::npos) return {};  // it is filled later
  if (auto what = parse_ready(out); !what)
    return fail(ErrorCode::bad_input, "{}: ready: {}", place(path, node), what.error().message);
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
    } else if (key == "stdin") {
      FRIDAY_TRY_VOID(read_text(path, node, "stdin", "a file name", program.input));
    } else if (key == "ready") {
      FRIDAY_TRY_VOID(read_ready(path, node, program.ready));
    } else if (key == "ready_timeout") {
      FRIDAY_TRY_VOID(read_seconds(path, node, "ready_timeout", program.ready_timeout));
    } else if (key == "after") {
      FRIDAY_TRY_VOID(read_list(path, node, "after", "a list of node names, e.g. [\"primary\"]", program.after));
    } else if (key == "record") {
      FRIDAY_TRY_VOID(read(path, node, "record", "true or false", program.record));
    } else if (key == "stop_signal") {
      FRIDAY_TRY(number, signal_number(path, node));
      program.stop_signal = number;
    } else {
      return fail(ErrorCode::bad_input,
                  "{}: unknown key \"{}\" in [[node]]; known: name, command, cwd, env, start_delay, after, ready, "
                  "ready_timeout, stdin, stdout, stderr, record, stop_signal",
                  place(path, node), key.str());
    }
  }
  if (program.name.empty()) return fail(ErrorCode::bad_input, "{}: a [[node]] has no name", place(path, table));
  if (program.command.empty())
    return fail(ErrorCode::bad_input, "{}: node {} has no command", place(path, table), program.name);
  return program;
}

// The names of an event: a string, or a list of strings.
Result<void> read_names(const std::string& path, const toml::node& node, std::string_view key,
                        std::vector<std::string>& out) {
  if (!node.is_string()) return read_list(path, node, key, "the name of a node, or a list of names", out);
  out.push_back(*node.value<std::string>());
  return {};
}

Result<EventSpec> read_event(const std::string& path, const toml::table& table) {
  using Action = EventSpec::Action;
  EventSpec event;
  bool timed = false;
  for (const auto& [key, node] : table) {
    bool is_action = false;
    for (Action action : {Action::kill, Action::stop, Action::resume, Action::restart}) {
      if (key.str() != name_of(action)) continue;
      if (!event.programs.empty())
        return fail(ErrorCode::bad_input, "{}: an [[event]] does one thing; write a second one for {}",
                    place(path, node), key.str());
      is_action = true;
      event.action = action;
      FRIDAY_TRY_VOID(read_names(path, node, key.str(), event.programs));
    }
    if (key == "at") timed = true;
    if (key == "at") FRIDAY_TRY_VOID(read_seconds(path, node, "at", event.at));
    else if (!is_action)
      return fail(ErrorCode::bad_input, "{}: unknown key \"{}\" in [[event]]; known: at, kill, stop, continue, restart",
                  place(path, node), key.str());
  }
  if (!timed || event.programs.empty())
    return fail(ErrorCode::bad_input, "{}: an [[event]] says when and what, for example: at = 4.5, kill = \"n4\"",
                place(path, table));
  return event;
}

Result<void> read_settings(const std::string& path, const toml::table& table, GroupSpec& group) {
  for (const auto& [key, node] : table) {
    if (key == "stop_after") FRIDAY_TRY_VOID(read_seconds(path, node, "stop_after", group.stop_after));
    else if (key == "stop_when_ends")
      FRIDAY_TRY_VOID(read(path, node, "stop_when_ends", "a node name", group.stop_when_ends));
    else if (key == "linger") FRIDAY_TRY_VOID(read_seconds(path, node, "linger", group.linger));
    else if (key == "stop_order")
      FRIDAY_TRY_VOID(read_list(path, node, "stop_order", "a list of node names", group.stop_order));
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
                  "{}: unknown key \"{}\" in [group]; known: stop_after, stop_when_ends, linger, stop_order, timeout, "
                  "must_succeed, check, predicates, check_timeout, max_size",
                  place(path, node), key.str());
  }
  return {};
}

// Each name belongs to one node, and whatever names a node names one of this group.
Result<void> check_names(const std::string& path, const GroupSpec& group) {
  std::set<std::string> names;
  for (const auto& program : group.programs)
    if (!names.insert(program.name).second)
      return fail(ErrorCode::bad_input, "{}: two nodes are named {}", path, program.name);
  std::vector<std::pair<std::string, std::string>> used;
  if (!group.stop_when_ends.empty()) used.emplace_back("stop_when_ends", group.stop_when_ends);
  for (const std::string& name : group.must_succeed) used.emplace_back("must_succeed", name);
  for (const std::string& name : group.stop_order) used.emplace_back("stop_order", name);
  for (const auto& program : group.programs)
    for (const std::string& name : program.after) used.emplace_back("after of " + program.name, name);
  for (const EventSpec& event : group.events)
    for (const std::string& name : event.programs) used.emplace_back("an [[event]]", name);
  for (const auto& [where, name] : used)
    if (!names.contains(name))
      return fail(ErrorCode::bad_input, "{}: {} names {}, which is no node of this group", path, where, name);
  return {};
}

// A node without `after` waits for those before it in the file that say when they are ready. Fails if nodes wait for
// each other.
Result<void> order_starts(const std::string& path, GroupSpec& group) {
  std::vector<std::string> ready;
  std::map<std::string, const ProgramSpec*> by_name;
  for (ProgramSpec& program : group.programs) {
    if (program.after.empty()) program.after = ready;
    if (!program.ready.empty()) ready.push_back(program.name);
    by_name[program.name] = &program;
    if (program.ready.starts_with("output ") && program.output.empty() && program.errors.empty())
      return fail(
          ErrorCode::bad_input,
          "{}: node {} is ready by its output, which is not seen unless it goes to a file: add stdout or stderr", path,
          program.name);
  }
  std::map<std::string, int> seen;  // 1: what it waits for is being followed, 2: done
  const std::function<bool(const std::string&)> waits_for_itself = [&](const std::string& name) {
    if (seen[name]) return seen[name] == 1;
    seen[name] = 1;
    const bool found = std::ranges::any_of(by_name[name]->after, waits_for_itself);
    seen[name] = 2;
    return found;
  };
  for (const auto& program : group.programs)
    if (waits_for_itself(program.name))
      return fail(ErrorCode::bad_input, "{}: node {} would wait for itself: its `after` leads back to it", path,
                  program.name);
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
    } else if (key == "event" && node.is_array_of_tables()) {
      for (const auto& item : *node.as_array()) {
        FRIDAY_TRY(event, read_event(path, *item.as_table()));
        group.events.push_back(std::move(event));
      }
    } else {
      return fail(ErrorCode::bad_input,
                  "{}: unknown entry \"{}\"; a group file has one [group] table, [[node]] tables and [[event]] tables",
                  place(path, node), key.str());
    }
  }
  if (group.programs.empty()) return fail(ErrorCode::bad_input, "{}: no [[node]] table: nothing to run", path);
  std::ranges::stable_sort(group.events, {}, &EventSpec::at);
  FRIDAY_TRY_VOID(check_names(path, group));
  FRIDAY_TRY_VOID(order_starts(path, group));
  return group;
}

}  // namespace friday
