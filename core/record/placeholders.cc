#include "core/record/placeholders.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/fd.h"
#include "core/base/files.h"
#include "core/base/nearest.h"

namespace friday {
namespace {

constexpr std::string_view kPort = "port", kAddress = "address";
constexpr std::string_view kNames[] = {"dir", "recording", "run", kPort, kAddress};

// What stands between the braces of a placeholder.
struct Found {
  std::string_view name, detail;  // "port" and "client" of {port:client}
};

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return isalnum(c) || strchr("_-.+", c); });
}

std::optional<Found> placeholder_in(std::string_view inside) {
  for (std::string_view name : kNames)
    if (inside == name) return Found{name, ""};
  for (std::string_view name : {kPort, kAddress})
    if (inside.starts_with(name) && inside.substr(name.size()).starts_with(':'))
      return Found{name, inside.substr(name.size() + 1)};
  return std::nullopt;
}

// The text with each placeholder replaced by what `value` says of it.
Result<std::string> replace(std::string_view text, const std::function<Result<std::string>(const Found&)>& value) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t open = text.find('{', at), close = text.find('}', open);
    if (open == std::string_view::npos || close == std::string_view::npos) {
      filled += text.substr(at);
      break;
    }
    filled += text.substr(at, open - at);
    const auto found = placeholder_in(text.substr(open + 1, close - open - 1));
    const bool quoted = found && !filled.empty() && filled.back() == '{' && text.substr(close).starts_with("}}");
    if (!found || (open > 0 && text[open - 1] == '$')) {
      filled += '{';
      at = open + 1;
    } else if (quoted) {
      filled.pop_back();
      filled += text.substr(open, close + 1 - open);
      at = close + 2;
    } else {
      FRIDAY_TRY(with, value(*found));
      filled += with;
      at = close + 1;
    }
  }
  return filled;
}

Result<std::string> check_found(const Found& found) {
  if (found.name == kPort && !is_name(found.detail))
    return fail(ErrorCode::bad_input,
                "a port needs a name, so that several places mean the same one: write for example {{port:server}} "
                "(or {{{{port}}}} for the text {{port}})");
  if (found.name == kAddress && !is_name(found.detail))
    return fail(ErrorCode::bad_input,
                "an address is that of a node: write for example {{address:n1}} (or {{{{address}}}} for the text "
                "{{address}})");
  return std::string();
}

// Where placeholders are filled in.
std::vector<std::string*> texts_of(GroupSpec& group) {
  std::vector<std::string*> texts;
  for (ProgramSpec& program : group.programs) {
    for (std::string& word : program.command) texts.push_back(&word);
    for (auto& [key, value] : program.environment) texts.push_back(&value);
    texts.insert(texts.end(), {&program.cwd, &program.input, &program.output, &program.errors, &program.ready});
  }
  for (std::string& word : group.check) texts.push_back(&word);
  texts.push_back(&group.faults.seed);
  return texts;
}

// The near misses in a text, as "{prot:web}" with what was meant, "{port:web}". A word without letters of its own, one
// behind `$` or in double braces, and one that goes on with anything but `:` or `}` belongs to somebody else.
std::map<std::string, std::string> near_misses_in(std::string_view text) {
  std::map<std::string, std::string> misses;
  for (size_t open = text.find('{'); open != std::string_view::npos; open = text.find('{', open + 1)) {
    const size_t close = text.find('}', open);
    if (close == std::string_view::npos) break;
    const std::string_view inside = text.substr(open + 1, close - open - 1), word = inside.substr(0, inside.find(':'));
    const bool belongs_to_others = open > 0 && (text[open - 1] == '$' || text[open - 1] == '{');
    if (belongs_to_others || word.size() < 3 || placeholder_in(inside)) continue;
    if (!std::ranges::all_of(word, [](unsigned char c) { return isalpha(c) || c == '_'; })) continue;
    std::string lower;
    for (unsigned char c : word) lower += static_cast<char>(tolower(c));
    const std::string_view meant = nearest(lower, kNames);
    if (!meant.empty())
      misses[fmt::format("{{{}}}", inside)] = fmt::format("{{{}{}}}", meant, inside.substr(word.size()));
  }
  return misses;
}

// The ports that the kernel does not give to sockets that name none, so that nobody takes one by chance.
std::pair<uint16_t, uint16_t> quiet_ports() {
  unsigned low = 32768, high = 60999;
  if (auto text = read_file("/proc/sys/net/ipv4/ip_local_port_range")) sscanf(text->c_str(), "%u %u", &low, &high);
  if (low >= 12000 && low <= 65536) return {10000, static_cast<uint16_t>(low - 1)};
  if (high <= 63000) return {static_cast<uint16_t>(high + 1), 65535};
  return {10000, 65535};
}

bool is_free(uint16_t port, int kind) {
  const UniqueFd probe(socket(AF_INET, kind | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return probe && bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Result<void> check_placeholders(const std::string& text) {
  FRIDAY_TRY_VOID(replace(text, check_found));
  return {};
}

std::vector<std::string> near_misses(const GroupSpec& group) {
  GroupSpec copy = group;
  std::map<std::string, std::string> misses;
  for (const std::string* text : texts_of(copy)) misses.merge(near_misses_in(*text));
  std::vector<std::string> messages;
  for (const auto& [written, meant] : misses)
    messages.push_back(
        fmt::format("{} in the group file is no placeholder, so it stays as it is: was {} meant?", written, meant));
  return messages;
}

std::vector<std::string> addresses_in(const std::string& text) {
  std::vector<std::string> names;
  (void)replace(text, [&names](const Found& found) -> Result<std::string> {
    if (found.name == kAddress) names.emplace_back(found.detail);
    return std::string();
  });
  return names;
}

Placeholders::Placeholders(const std::string& recording, unsigned run, PortShare share)
    : recording_(std::filesystem::absolute(recording).lexically_normal().string()), run_(run), share_(share) {
  while (recording_.size() > 1 && recording_.ends_with('/')) recording_.pop_back();
}

// A recording to which several groups are added has one directory for each.
std::string Placeholders::new_directory() const {
  std::string path = recording_ + "/dir";
  for (unsigned number = 2; std::filesystem::exists(path); number++)
    path = fmt::format("{}/dir-{}", recording_, number);
  return path;
}

Result<uint16_t> Placeholders::port_of(const std::string& name) {
  if (const auto known = ports_.find(name); known != ports_.end()) return known->second;
  const auto [first, last] = quiet_ports();
  std::random_device random;
  std::uniform_int_distribution<unsigned> any(first, last);
  for (int attempt = 0; attempt < 1000; attempt++) {
    const unsigned drawn = any(random), mine = drawn - drawn % share_.parts + share_.part;
    if (mine < first || mine > last) continue;
    const auto port = static_cast<uint16_t>(mine);
    const bool given = std::ranges::any_of(ports_, [port](const auto& each) { return each.second == port; });
    if (!given && is_free(port, SOCK_STREAM) && is_free(port, SOCK_DGRAM)) return ports_[name] = port;
  }
  return fail(ErrorCode::unsupported, "no free port was found for {{port:{}}} among {} to {}", name, first, last);
}

Result<std::string> Placeholders::fill(const std::string& text) {
  return replace(text, [this](const Found& found) -> Result<std::string> {
    FRIDAY_TRY_VOID(check_found(found));
    if (found.name == "recording") return recording_;
    if (found.name == "run") return std::to_string(run_);
    if (found.name == kAddress) {
      const auto known = addresses_.find(std::string(found.detail));
      if (known != addresses_.end()) return known->second;
      return fail(ErrorCode::bad_input, "{{address:{}}} names no node with an address", found.detail);
    }
    if (found.name == kPort) {
      FRIDAY_TRY(port, port_of(std::string(found.detail)));
      return std::to_string(port);
    }
    if (directory_.empty()) directory_ = new_directory();
    return directory_;
  });
}

Result<GroupSpec> Placeholders::fill(const GroupSpec& group) {
  GroupSpec filled = group;
  if (!group.network.hosts.empty())
    for (const ProgramSpec& program : group.programs) addresses_[program.name] = group.network.address_of(program.host);
  for (std::string* text : texts_of(filled)) {
    FRIDAY_TRY(value, fill(*text));
    *text = value;
  }
  return filled;
}

}  // namespace friday
