#include "console/saving.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <set>

#include "console/complain.h"
#include "console/followed_node.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/base/numbers.h"
#include "core/base/pattern.h"
#include "core/base/processes.h"
#include "core/trace/calls.h"
#include "core/trace/json_file.h"
#include "core/trace/recording.h"
#include "core/trace/save.h"

namespace friday {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto kApart = 10s;  // from one save to the next, at least
constexpr std::array kFaults = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGSYS, SIGTRAP};

struct Trigger {
  std::string text;
  std::optional<Pattern> output;  // none: a crash
};

Result<Trigger> parse_trigger(const std::string& text) {
  if (text == "crash") return Trigger{text, {}};
  if (text.size() > 2 && text.front() == '/' && text.back() == '/') {
    FRIDAY_TRY(pattern, Pattern::parse(std::string_view(text).substr(1, text.size() - 2)));
    return Trigger{text, std::move(pattern)};
  }
  return fail(ErrorCode::usage,
              "\"{}\" does not say when to save: write crash, or a regular expression for a line of output, such as "
              "'/assertion .* failed/'",
              text);
}

// Looks at a recording that goes on for what the triggers name. It reads little, since it runs beside live programs.
class Watch {
 public:
  Watch(std::string recording, std::vector<Trigger> triggers)
      : recording_(std::move(recording)), triggers_(std::move(triggers)) {
    for (const Trigger& each : triggers_) reads_output_ |= each.output.has_value();
  }

  // Which trigger has fired since the last call, if one has. The first call only notes the present state.
  std::optional<std::string> look() {
    std::optional<std::string> found;
    const auto now = std::chrono::steady_clock::now();
    const bool first = looked_ == std::chrono::steady_clock::time_point{};
    if (now - looked_ >= kLookForNodes) {
      looked_ = now;
      if (auto crash = look_at_nodes()) found = std::move(crash);
    }
    if (auto line = look_at_lines()) found = std::move(line);
    if (first) found.reset();
    return found;
  }
  // Whether somebody records, as of the last look at the nodes.
  bool goes_on() const { return recorded_; }

 private:
  std::optional<std::string> look_at_nodes() {
    std::optional<std::string> found;
    const auto names = names_beneath({recording_, "nodes"});
    recorded_ = false;
    if (!names) return found;
    for (const std::string& name : *names) {
      const auto number = canonical_number(name);
      if (!number || *number > UINT32_MAX || ended_.contains(static_cast<uint32_t>(*number))) continue;
      const NodeId id{static_cast<uint32_t>(*number)};
      const Beneath directory{recording_, "nodes/" + name};
      if (reads_output_) lines_.try_emplace(id, directory.below("trace"), id);
      const auto read = read_json(directory.below("node.json"));
      if (!read || !read->is_object()) continue;  // it is just being made, or removed
      names_[id] = read->value("name", json("")).is_string() ? read->value("name", "") : "";
      if (auto crash = how_it_ended(id, *read)) found = std::move(crash);
    }
    return found;
  }

  std::optional<std::string> how_it_ended(NodeId id, const json& description) {
    const auto recorder = description.value("recorder", json::object());
    const auto ended = description.value("ended", json::object());
    if (!recorder.is_object() || !ended.is_object()) return std::nullopt;
    const auto number = [](const json& in, const char* name) {
      const auto at = in.find(name);
      return at != in.end() && at->is_number_integer() ? at->get<int64_t>() : 0;
    };
    const int64_t start = number(recorder, "start");
    const bool recorded =
        start && process_start(static_cast<pid_t>(number(recorder, "pid"))) == static_cast<uint64_t>(start);
    const std::string how = ended.value("how", json("running")).is_string() ? ended.value("how", "running") : "";
    if (recorded && how == "running") recorded_ = true;
    else ended_.insert(id.value);
    const auto signal = static_cast<int>(number(ended, "detail"));
    const bool crash = how == "signal" && std::ranges::find(kFaults, signal) != kFaults.end();
    if (!crash || std::ranges::all_of(triggers_, [](const Trigger& each) { return each.output.has_value(); }))
      return std::nullopt;
    return fmt::format("node {} ({}) was killed by {}", id, names_[id], signal_text(signal));
  }

  std::optional<std::string> look_at_lines() {
    std::optional<std::string> found;
    std::vector<TimedLine> lines;
    for (auto& [id, node] : lines_)
      if (!damaged_.contains(id) && !node.poll(lines)) damaged_.insert(id);  // it is removed; or said when it is read
    for (const TimedLine& line : lines)
      for (const Trigger& each : triggers_)
        if (each.output && each.output->finds(line.line.text))
          found = fmt::format("node {} ({}) wrote what matches {}: {}", line.node, names_[line.node], each.text,
                              line.line.text);
    return found;
  }

  const std::string recording_;
  const std::vector<Trigger> triggers_;
  bool reads_output_ = false, recorded_ = true;
  std::chrono::steady_clock::time_point looked_{};
  std::map<NodeId, FollowedNode> lines_;
  std::map<NodeId, std::string> names_;
  std::set<uint32_t> ended_;
  std::set<NodeId> damaged_;
};

int save_now(const SavingOptions& options, const std::string& why) {
  const auto saved = save_recording(options.recording, options.place, tell_as("live"));
  if (!saved) return complain("live", saved.error());
  if (options.as_json) {
    json out = {{"path", saved->path},
                {"nodes", saved->nodes},
                {"under_way", saved->under_way},
                {"copied", saved->copied},
                {"linked", saved->linked}};
    if (!why.empty()) out["because"] = why;
    say_json(out, -1);
  } else {
    constexpr double kMiB = 1 << 20;
    say(options.with_recorder ? stderr : stdout,
        "{}saved in {}: {}, {} of them going on; {:.1f} MiB copied, {:.1f} MiB in common with {}\n",
        why.empty() ? "" : why + "; ", saved->path, counted(saved->nodes, "node"), saved->under_way,
        static_cast<double>(saved->copied) / kMiB, static_cast<double>(saved->linked) / kMiB, options.recording);
  }
  std::fflush(stdout);
  return 0;
}

// Waits for a moment. False: the recorder is gone.
bool pause_while_recorded(bool with_recorder) {
  pollfd input{with_recorder ? STDIN_FILENO : -1, POLLIN, 0};
  return ::poll(&input, 1, static_cast<int>(kBetweenLooks.count())) <= 0;
}

}  // namespace

Result<void> check_triggers(const std::vector<std::string>& when) {
  for (const std::string& text : when) FRIDAY_TRY_VOID(parse_trigger(text));
  return {};
}

int save_live(const SavingOptions& options) {
  if (options.when.empty()) return save_now(options, "");
  std::vector<Trigger> triggers;
  for (const std::string& text : options.when) {
    auto trigger = parse_trigger(text);
    if (!trigger) return complain("live", trigger.error());
    triggers.push_back(std::move(*trigger));
  }
  if (!options.with_recorder)
    if (auto recording = Recording::open(options.recording); !recording) return complain("live", recording.error());
  Watch watch(options.recording, std::move(triggers));
  auto last = std::chrono::steady_clock::time_point{};
  std::optional<std::string> why;
  for (unsigned saved = 0; saved < options.times;) {
    if (auto found = watch.look(); found && !why) why = std::move(found);
    if (why && (saved == 0 || std::chrono::steady_clock::now() - last >= kApart)) {
      if (const int code = save_now(options, *why); code && !options.with_recorder) return code;
      why.reset();
      last = std::chrono::steady_clock::now();
      saved++;
    }
    if (!pause_while_recorded(options.with_recorder)) return 0;
    if (options.with_recorder || watch.goes_on()) continue;
    say(stderr, "friday live: {} is not being recorded any more\n", options.recording);
    return saved ? 0 : kBadInput;
  }
  return 0;
}

Result<SavingProcess> SavingProcess::start(const SavingOptions& options) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  UniqueFd input(ends[0]), far(ends[1]);
  std::vector<std::string> words = {executable_path(),
                                    "live",
                                    options.recording,
                                    "save",
                                    "--with-recorder",
                                    "--times",
                                    std::to_string(options.times)};
  for (const std::string& when : options.when) words.insert(words.end(), {"--when", when});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // what the terminal sends is not for it
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error) return fail_errno(error, fmt::format("cannot start {}", words[0]));
  return SavingProcess(pid, std::move(far));
}

SavingProcess::~SavingProcess() {
  if (!input_) return;
  input_.reset();
  // The recorder may have waited for it already, among other children.
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

}  // namespace friday
