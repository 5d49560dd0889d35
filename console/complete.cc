#include "console/complete.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "console/paths.h"
#include "console/say.h"
#include "core/trace/aliases.h"
#include "core/trace/recording.h"

namespace friday {
namespace {

constexpr const char* kBash = R"sh(_friday() {
  local IFS=$'\n'
  COMPREPLY=($(friday __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o bashdefault -o default -F _friday friday
)sh";
constexpr const char* kZsh = R"sh(_friday() {
  local -a found
  found=(${(f)"$(friday __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#found )); then compadd -a found; else _files; fi
}
compdef _friday friday
)sh";

// The names of the nodes of the first recording among the words.
std::vector<std::string> node_names(const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    std::error_code error;
    const std::string place = recording_named(word);
    if (!std::filesystem::exists(std::filesystem::path(place) / "recording.json", error)) continue;
    auto recording = Recording::open(place);
    if (!recording) return {};
    std::vector<std::string> names;
    for (const auto& [id, alias] : aliases_of(recording->nodes())) names.push_back(alias);
    for (const NodeInfo& node : recording->nodes()) names.push_back(printable(node.name));
    return names;
  }
  return {};
}

// The sessions, for commands whose words are recordings.
std::vector<std::string> sessions() {
  std::vector<std::string> names;
  for (const auto& place : recordings_in(sessions_directory())) names.push_back(printable(place.filename().string()));
  return names;
}

std::vector<std::string> pages() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator file(docs_directory(), error), end; !error && file != end;
       file.increment(error))
    if (file->path().extension() == ".md") names.push_back(file->path().stem().string());
  return names;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace

std::vector<std::string> complete_words(const CLI::App& app, const std::vector<std::string>& words) {
  const std::string typed = words.empty() ? "" : words.back();
  const std::string before = words.size() > 1 ? words[words.size() - 2] : "";
  std::vector<std::string> known;
  if (words.size() <= 1) {
    if (typed.starts_with('-')) known = options_of(app);
    else
      for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
        known.push_back(each->get_name());
  } else if (std::ranges::find(words, "--") == words.end()) {  // what follows are a program and its arguments
    const auto commands = app.get_subcommands([&](const CLI::App* each) { return each->get_name() == words.front(); });
    if (typed.starts_with('-') && !commands.empty()) known = options_of(*commands.front());
    else if (before == "--node" && words.front() != "record") known = node_names(words);
    else if (before == "--sync") known = {"clock", "causal", "free"};
    else if (words.front() == "help" && words.size() == 2) known = pages();
    else if (words.front() == "completion") known = {"bash", "zsh"};
    else if (words.front() != "record" && words.front() != "doctor" && !before.starts_with('-')) known = sessions();
  }
  std::erase_if(known, [&](const std::string& name) { return !name.starts_with(typed); });
  std::ranges::sort(known);
  known.erase(std::ranges::unique(known).begin(), known.end());
  return known;
}

void add_completion_command(CLI::App& app, int* status) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand("completion", "Print what completes the command friday in a shell");
  command->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->footer("Example, in ~/.bashrc:\n  source <(friday completion bash)");
  command->callback([shell, status] {
    fmt::print("{}", *shell == "bash" ? kBash : kZsh);
    *status = 0;
  });
}

}  // namespace friday
