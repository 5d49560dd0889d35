#include "core/record/group_spec.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/record/collector.h"
#include "core/record/instrumentable.h"

namespace friday {

const char* name_of(EventSpec::Action action) {
  switch (action) {
    case EventSpec::Action::kill: return "kill";
    case EventSpec::Action::stop: return "stop";
    case EventSpec::Action::resume: return "continue";
    case EventSpec::Action::restart: return "restart";
    case EventSpec::Action::partition: return "partition";
    case EventSpec::Action::heal: return "heal";
    case EventSpec::Action::delay: return "delay";
    case EventSpec::Action::loss: return "loss";
  }
  return "";
}

std::string NetworkSpec::address_of(const std::string& host) const {
  const uint32_t address = first_address + static_cast<uint32_t>(std::ranges::find(hosts, host) - hosts.begin());
  return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

Result<void> check_node_name(const std::string& name) {
  bool letter = false, plain = true;
  for (char c : name) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    letter |= is_letter;
    plain &= is_letter || (c >= '0' && c <= '9') || strchr("_-.+", c);
  }
  if (plain && letter && name != "all") return {};
  return fail(ErrorCode::bad_input,
              "\"{}\" cannot name a node: use letters, digits, _ - . +, at least one letter, and not \"all\"", name);
}

Result<std::string> find_program(const ProgramSpec& program) {
  if (program.command.empty()) return fail(ErrorCode::usage, "node {}: no command given", program.name);
  const std::string& name = program.command[0];
  std::string path;
  if (name.find('/') != std::string::npos) {
    path = name[0] == '/' || program.cwd.empty() ? name : program.cwd + "/" + name;
  } else {
    std::string search = getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin";
    for (size_t from = 0; from <= search.size() && path.empty();) {
      size_t to = std::min(search.find(':', from), search.size());
      std::string candidate = search.substr(from, to - from) + "/" + name;
      if (access(candidate.c_str(), X_OK) == 0) path = candidate;
      from = to + 1;
    }
  }
  char resolved[PATH_MAX];
  if (path.empty() || !realpath(path.c_str(), resolved))
    return fail(ErrorCode::not_found, "node {}: the program {} was not found; give its path, or check PATH",
                program.name, name);
  if (program.record)
    if (auto how = check_instrumentable(resolved, {geteuid(), ""}); !how) return std::unexpected(how.error());
  constexpr int kGetMdwe = 66;  // PR_GET_MDWE; fails before Linux 6.3
  if (program.record && prctl(kGetMdwe, 0, 0, 0, 0) > 0)
    return fail(
        ErrorCode::unsupported,
        "node {}: who started friday record has forbidden it and its children to execute memory that they wrote "
        "(PR_SET_MDWE), so code cannot be "
        "patched to record it; start it from elsewhere, for a service of systemd with MemoryDenyWriteExecute=no",
        program.name);
  return std::string(resolved);
}

Result<int64_t> parse_time(const std::string& text) {
  constexpr double kSecond = 1e9, kLongest = 365 * 86400 * kSecond;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(end, text.data() + text.size());
  const double factor = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86400 : 0;
  const double time = number * factor * kSecond;
  if (error != std::errc{} || !(time >= kSecond && time <= kLongest))
    return fail(
        ErrorCode::usage,
        "{} is no time from 1s to a year: write a number and s, m, h or d, such as 30s or 10m; or a size, such as 2G",
        text);
  return static_cast<int64_t>(time);
}

Result<uint64_t> parse_size(const std::string& text, uint64_t least) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, text.data() + text.size() - end);
  if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
  const size_t power = unit.empty() ? 0 : std::string_view("KMGT").find(unit[0]) + 1;
  if (error != std::errc{} || unit.size() > 1 || (!unit.empty() && power == 0) ||
      number > (uint64_t{1} << 50 >> 10 * power))
    return fail(ErrorCode::bad_input, "\"{}\" is not a size: write for example 500M or 20G", text);
  const uint64_t bytes = number << 10 * power;
  if (bytes < least) return fail(ErrorCode::bad_input, "\"{}\" is too small: the least is {}M", text, least >> 20);
  return bytes;
}

}  // namespace friday
