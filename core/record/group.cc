#include "core/record/group.h"

#include <algorithm>
#include <csignal>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <toml++/toml.h>

#include "core/base/files.h"
#include "core/record/group_network.h"
#include "core/record/readiness.h"
#include "core/record/toml_reading.h"

namespace friday {
namespace {

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

Result<ProgramSpec> read_node(const std::string& path, const toml::table& table, bool has_network) {
  ProgramSpec program;
  for (const auto& [key, node] : table) {
    if (key == "name") {
      FRIDAY_TRY_VOID(read(path, node, "name", "a string", program.name));
      if (auto fits = check_node_name(program.name); !fits)
        return fail(ErrorCode::bad_input, "{}: name: {}", place(path, node), fits.error().message);
    } else if (key == "host") {
      FRIDAY_TRY_VOID(read(path, node, "host", "a string", program.host));
      if (auto fits = check_node_name(program.host); !fits)
        return fail(ErrorCode::bad_input, "{}: host: {}", place(path, node), fits.error().message);
      if (!has_network)
        return fail(ErrorCode::bad_input,
                    "{}: node hosts belong to a network that the recorder makes: add a table [network] to the file",
                    place(path, node));
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
      return fail(
          ErrorCode::bad_input,
          "{}: unknown key \"{}\" in [[node]]; known: name, command, host, cwd, env, start_delay, after, ready, "
          "ready_timeout, stdin, stdout, stderr, record, stop_signal",
          place(path, node), key.str());
    }
  }
  if (program.name.empty()) return fail(ErrorCode::bad_input, "{}: a [[node]] has no name", place(path, table));
  if (program.command.empty())
    return fail(ErrorCode::bad_input, "{}: node {} has no command", place(path, table), program.name);
  return program;
}

Result<EventSpec> read_event(const std::string& path, const toml::table& table, const GroupSpec& group) {
  using Action = EventSpec::Action;
  EventSpec event;
  bool timed = false, does = false;
  for (const auto& [key, node] : table) {
    if (key == "at") {
      timed = true;
      FRIDAY_TRY_VOID(read_seconds(path, node, "at", event.at));
      continue;
    }
    bool of_program = false;
    for (Action action : {Action::kill, Action::stop, Action::resume, Action::restart})
      if (key.str() == name_of(action)) of_program = true, event.action = action;
    if (!of_program && !is_network_event(key.str()))
      return fail(ErrorCode::bad_input,
                  "{}: unknown key \"{}\" in [[event]]; known: at, kill, stop, continue, restart, partition, heal, "
                  "delay, loss",
                  place(path, node), key.str());
    if (std::exchange(does, true))
      return fail(ErrorCode::bad_input, "{}: an [[event]] does one thing; write a second one for {}", place(path, node),
                  key.str());
    if (of_program) FRIDAY_TRY_VOID(read_names(path, node, key.str(), event.programs));
    else FRIDAY_TRY_VOID(read_network_event(path, node, key.str(), group, event));
  }
  if (!timed || !does)
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

// The file has the tables that a group file may have, and no others.
Result<void> check_entries(const std::string& path, const toml::table& document) {
  for (const auto& [key, node] : document) {
    const bool one = key == "group" || key == "network" || key == "faults", several = key == "node" || key == "event";
    if (!(one && node.is_table()) && !(several && node.is_array_of_tables()))
      return fail(ErrorCode::bad_input,
                  "{}: unknown entry \"{}\"; a group file has one [group] table, [[node]] tables and [[event]] tables, "
                  "and may have one [network] and one [faults]",
                  place(path, node), key.str());
  }
  return {};
}

}  // namespace

Result<GroupSpec> read_group(const std::string& path) {
  FRIDAY_TRY(text, read_file(path));
  toml::table document;
  try {
    document = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::bad_input, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  FRIDAY_TRY_VOID(check_entries(path, document));
  GroupSpec group;
  if (const auto* table = document["group"].as_table()) FRIDAY_TRY_VOID(read_settings(path, *table, group));
  const auto* network = document["network"].as_table();
  if (const auto* nodes = document["node"].as_array())
    for (const auto& item : *nodes) {
      FRIDAY_TRY(program, read_node(path, *item.as_table(), network != nullptr));
      group.programs.push_back(std::move(program));
    }
  if (group.programs.empty()) return fail(ErrorCode::bad_input, "{}: no [[node]] table: nothing to run", path);
  if (network) FRIDAY_TRY_VOID(read_network(path, *network, group));
  if (const auto* events = document["event"].as_array())
    for (const auto& item : *events) {
      FRIDAY_TRY(event, read_event(path, *item.as_table(), group));
      group.events.push_back(std::move(event));
    }
  if (const auto* faults = document["faults"].as_table()) FRIDAY_TRY_VOID(read_random_faults(path, *faults, group));
  FRIDAY_TRY_VOID(check_addresses(path, document, group));
  std::ranges::stable_sort(group.events, {}, &EventSpec::at);
  FRIDAY_TRY_VOID(check_names(path, group));
  FRIDAY_TRY_VOID(order_starts(path, group));
  return group;
}

Result<void> check_judged_by_schedules(const GroupSpec& group) {
  if (group.predicates.empty()) return {};
  return fail(
      ErrorCode::usage,
      "the predicate {} needs a replay, and --schedule keeps no more than what was sent and received: leave one "
      "of them away",
      group.predicates.front());
}

}  // namespace friday
