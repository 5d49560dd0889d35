#include "console/usage.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/nearest.h"
#include "core/base/printable.h"

namespace friday {
namespace {

constexpr double kMostShown = 1e9;  // of a range; one that ends behind it has no end that matters

// What an option takes.
struct Type {
  std::string kind;         // "N", "NUMBER", "TEXT", or as the option names it
  std::string least, most;  // of a number, if it has bounds
  std::string choices;      // "clock,causal,free": one of these
};

// The library names a type and then what checks it: "UINT:UINT in [1 - 64]", "TEXT:{bash,zsh}".
Type type_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const size_t colon = name.find(':');
  Type type{.kind = name.substr(0, colon), .least = {}, .most = {}, .choices = {}};
  const std::string_view check = colon == std::string::npos ? "" : std::string_view(name).substr(colon + 1);
  if (type.kind == "UINT" || type.kind == "INT") type.kind = "N";
  if (type.kind == "FLOAT") type.kind = "NUMBER";
  if (check.starts_with('{') && check.ends_with('}')) type.choices = check.substr(1, check.size() - 2);
  const size_t open = check.find(" in ["), dash = check.find(" - "), close = check.rfind(']');
  if (open == check.npos || dash == check.npos || close == check.npos) return type;
  const std::string most(check.substr(dash + 3, close - dash - 3));
  if (std::strtod(most.c_str(), nullptr) > kMostShown) return type;
  type.least = check.substr(open + 5, dash - open - 5);
  type.most = most;
  return type;
}

// For a help text: "N (1 to 64)", "clock|causal|free".
std::string type_text(Type type) {
  std::ranges::replace(type.choices, ',', '|');
  if (!type.choices.empty()) return type.choices;
  return type.most.empty() ? type.kind : fmt::format("{} ({} to {})", type.kind, type.least, type.most);
}

// For a sentence: "a whole number from 1 to 64", "one of clock, causal, free".
std::string value_text(const Type& type) {
  if (!type.choices.empty()) {
    std::string list;
    for (char c : type.choices) list += c == ',' ? std::string(", ") : std::string(1, c);
    return "one of " + list;
  }
  const std::string kind = type.kind == "N" ? "a whole number" : type.kind == "NUMBER" ? "a number" : "a value";
  return type.most.empty() ? kind : fmt::format("{} from {} to {}", kind, type.least, type.most);
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* each : options) names.push_back(each->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text;
    if (option->get_type_size() != 0) {
      if (const std::string type = type_text(type_of(*option)); !type.empty()) text = " " + type;
      if (option->get_expected_max() > 1) text += " ...";
      if (option->get_required()) text += " REQUIRED";
    }
    if (!option->get_needs().empty()) text += fmt::format(" (with {})", names_of(option->get_needs()));
    if (!option->get_excludes().empty()) text += fmt::format(" (not with {})", names_of(option->get_excludes()));
    return text;
  }

  std::string make_option_usage(const CLI::Option* option) const override {
    const std::string text = make_option_name(option, true) + (option->get_expected_max() > 1 ? "..." : "");
    return option->get_required() ? text : fmt::format("[{}]", text);
  }
};

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return names;
}

std::string nearest_of(std::string_view word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  return nearest_text(word, known);
}

// The options of a command that its help shows.
std::vector<const CLI::Option*> options_of(const CLI::App& command) {
  return command.get_options([](const CLI::Option* each) { return !each->get_group().empty(); });
}

std::string unknown_option(const CLI::App& command, std::string_view word) {
  word = word.substr(0, word.find('='));
  std::vector<std::string> names;
  for (const CLI::Option* option : options_of(command)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return fmt::format("there is no option `{}`{}", word, nearest_of(word, names));
}

// The option or the positional argument that a message of the library begins with.
const CLI::Option* option_in(const CLI::App& command, std::string_view message) {
  for (const CLI::Option* option : options_of(command)) {
    const std::string name = option->get_name();
    if (message.starts_with(name) && (message.size() == name.size() || strchr(": ", message[name.size()])))
      return option;
  }
  return nullptr;
}

// What the library says of a value, an option or their number, in the words of this program.
std::string explained(const CLI::App& command, const CLI::ParseError& error) {
  std::string_view message = error.what();
  constexpr std::string_view kNotConverted = "Could not convert: ";
  const bool is_converted = !message.starts_with(kNotConverted);
  if (!is_converted) message.remove_prefix(kNotConverted.size());
  const CLI::Option* option = option_in(command, message);
  if (!option) return std::string(message);
  const std::string name = option->get_name(), takes = value_text(type_of(*option));
  std::string_view rest = message.substr(name.size());
  if (!is_converted) return fmt::format("`{}` is no value for {}, which takes {}", rest.substr(3), name, takes);
  if (dynamic_cast<const CLI::RequiredError*>(&error))
    return fmt::format("{} is missing: {}", name, option->get_description());
  if (dynamic_cast<const CLI::ExcludesError*>(&error))
    return fmt::format("{} does not go with {}: leave one of them away", name, rest.substr(rest.rfind(' ') + 1));
  if (dynamic_cast<const CLI::RequiresError*>(&error))
    return fmt::format("{} needs {}", name, rest.substr(rest.rfind(' ') + 1));
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error))
    return rest.ends_with(" missing") ? fmt::format("{} needs {}: {}", name, takes, option->get_description())
                                      : fmt::format("too many words for {}: {}", name, option->get_description());
  if (dynamic_cast<const CLI::ValidationError*>(&error) && !option->results().empty() &&
      (rest.find(" not in ") != std::string_view::npos))
    return fmt::format("`{}` is no value for {}, which takes {}", option->results().back(), name, takes);
  return std::string(message);
}

}  // namespace

std::shared_ptr<CLI::Formatter> make_help_formatter() { return std::make_shared<HelpFormatter>(); }

std::string refusal_of(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "";
  const auto names = subcommands_of(app);
  const auto commands = app.get_subcommands();
  if (commands.empty() && word.empty())
    return fmt::format("friday: say what to do: {}; `friday --help` says what each does", fmt::join(names, ", "));
  if (commands.empty())
    return fmt::format("friday: {}; `friday --help` lists them",
                       word.starts_with('-')
                           ? unknown_option(app, printable(word))
                           : fmt::format("there is no subcommand `{}`{}", printable(word), nearest_of(word, names)));
  const CLI::App& command = *commands.front();
  std::vector<std::string> left = command.remaining();
  left.erase(std::ranges::find(left, "--"), left.end());
  const auto option = std::ranges::find_if(left, [](const std::string& each) { return each.starts_with('-'); });
  const std::string why = option != left.end() ? unknown_option(command, *option)
                          : !left.empty() && dynamic_cast<const CLI::ExtrasError*>(&error)
                              ? fmt::format("`{}` is one word too many", left.front())
                              : explained(command, error);
  return fmt::format("friday {}: {}; `friday {} --help` says what it takes", command.get_name(), printable(why),
                     command.get_name());
}

}  // namespace friday
