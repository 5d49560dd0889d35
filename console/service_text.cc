#include "console/service_text.h"

#include <cctype>
#include <cstring>
#include <functional>

#include <nlohmann/json.hpp>

namespace friday {
namespace {

constexpr const char* kDefaultSize = "10G";

// Quotes a word for ExecStart= (systemd.service(5), COMMAND LINES) so that specifiers and variables are not expanded.
std::string systemd_word(const std::string& word) {
  std::string quoted;
  bool plain = !word.empty();
  for (char c : word) {
    plain &= isalnum(static_cast<unsigned char>(c)) || strchr("_-./:=,+@%$", c);
    if (c == '%' || c == '$') quoted += c;
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return plain ? quoted : '"' + quoted + '"';
}

std::vector<std::string> recording_command(const ServiceRequest& request, const std::string& recording) {
  std::vector<std::string> words = {
      request.friday, "record",     "-q",
      "-o",           recording,    "--node",
      request.name,   "--max-size", request.max_size.empty() ? kDefaultSize : request.max_size};
  words.insert(words.end(), request.options.begin(), request.options.end());
  words.push_back("--");
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

std::string joined(const std::vector<std::string>& words, const std::function<std::string(const std::string&)>& quote) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + quote(word);
  return line;
}

Result<void> check(const ServiceRequest& request) {
  for (const auto& word : request.command)
    if (word.find_first_of("\n\r") != std::string::npos)
      return fail(ErrorCode::usage,
                  "an argument of the command holds a new line, which neither systemd nor a Dockerfile can carry: put "
                  "the command into a script");
  return {};
}

}  // namespace

std::string shell_word(const std::string& word) {
  bool plain = !word.empty();
  for (char c : word) plain &= isalnum(static_cast<unsigned char>(c)) || strchr("_-./:=,+@%", c);
  if (plain) return word;
  std::string quoted = "'";
  for (char c : word) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

Result<std::string> systemd_drop_in(const ServiceRequest& request) {
  FRIDAY_TRY_VOID(check(request));
  const std::string recording = request.recording.empty() ? "/var/lib/friday/" + request.name : request.recording;
  std::string text = fmt::format(
      "# Records {0}.service. Save this as /etc/systemd/system/{0}.service.d/friday.conf, then\n"
      "#   systemctl daemon-reload && systemctl restart {0}\n"
      "# Each start of the service becomes one more node of {1}; look with\n"
      "#   {2} info --live {1}\n"
      "# To record no longer remove the file and do the same again.\n"
      "[Service]\n"
      "# The unit's own command, under `friday record`. The recording ends at --max-size, the service goes on. The "
      "program has to\n"
      "# stay in the foreground: for a unit of Type=forking give it the option for that, and set Type=simple here.\n"
      "ExecStart=\n"
      "ExecStart={3}\n",
      request.name, recording, request.friday, joined(recording_command(request, recording), systemd_word));
  if (request.recording.empty())
    text +=
        "# Makes /var/lib/friday, for the service's user and nobody else: a recording holds whatever the program saw.\n"
        "StateDirectory=friday\n"
        "StateDirectoryMode=0700\n";
  text +=
      "# systemd's signals go to `friday record`, which passes them on and waits; what is left at the end of "
      "TimeoutStopSec= is killed.\n"
      "KillMode=mixed\n"
      "# Time to compress the end of the recording.\n"
      "TimeoutStopSec=120\n"
      "# Messages of a Type=notify service come from a child of `friday record`.\n"
      "NotifyAccess=all\n"
      "# The call sites of the program are patched, which this setting of some units forbids.\n"
      "MemoryDenyWriteExecute=no\n"
      "# A SystemCallFilter= of the unit must allow what `friday doctor`, run under it, finds refused.\n";
  return text;
}

Result<std::string> container_entry_point(const ServiceRequest& request) {
  FRIDAY_TRY_VOID(check(request));
  const std::string recording = request.recording.empty() ? "/recordings/" + request.name : request.recording;
  const auto words = recording_command(request, recording);
  return fmt::format(
      "# Records {0} in a container whose image has {1} (with lib/ beside its bin/).\n"
      "# Recording needs no capability and no privilege. Run the container with\n"
      "#   -v /srv/recordings:{2}   so that the recording outlives it; readable by its user only\n"
      "#   --stop-timeout 120             time to compress the end of the recording\n"
      "# Replay, in a container too, needs --cap-add=SYS_PTRACE; `{1} doctor` says what else is refused.\n"
      "# In a Dockerfile:\n"
      "ENTRYPOINT {3}\n"
      "# At the end of an entry-point script, with the container's own arguments behind:\n"
      "exec {4} \"$@\"\n",
      request.name, request.friday, recording.substr(0, recording.find_last_of('/')),
      nlohmann::json(words).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), joined(words, shell_word));
}

}  // namespace friday
