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
#include "console/message_trigger.h"
#include "console/paths.h"
#include "console/progress.h"
#include "console/say.h"
#include "core/base/counted.h"
#include "core/base/files.h"
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
  enum class On { crash, output, messages };
  On on;
  std::string text;
  std::optional<Pattern> output;
};

Result<Trigger> parse_trigger(const std::string& text) {
  if (text == "crash") return Trigger{Trigger::On::crash, text, {}};
  if (is_python_file(text)) return Trigger{Trigger::On::messages, text, {}};
  if (text.size() > 2 && text.front() == '/' && text.back() == '/') {
    FRIDAY_TRY(pattern, Pattern::parse(std::string_view(text).substr(1, text.size() - 2)));
    return Trigger{Trigger::On::output, text, std::move(pattern)};
  }
  return fail(ErrorCode::usage,
              "\"{}\" does not say when to save: write crash, a regular expression for a line of output, such as "
              "'/assertion .* failed/', or the name of a Python file with a function save_when(message)",
              text);
}

// Looks at a recording that goes on for what the triggers name. It reads little, since it runs beside live programs.
class Watch {
 public:
  // Fails if one of the triggers is a Python file that cannot be used.
  static Result<Watch> create(std::string recording, std::vector<Trigger> triggers) {
    std::vector<std::string> files;
    for (const Trigger& each : triggers)
      if (each.on == Trigger::On::messages) files.push_back(each.text);
    std::unique_ptr<MessageTriggers> messages;
    if (!files.empty()) {
      FRIDAY_TRY(loaded, MessageTriggers::load(files));
      messages = std::move(loaded);
    }
    return Watch(std::move(recording), std::move(triggers), std::move(messages));
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
    if (auto written = look_at_traces(!first)) found = std::move(written);
    if (first) found.reset();
    return found;
  }
  // Python files that have failed since the last call, with the reason.
  std::vector<std::string> take_failures() {
    return messages_ ? messages_->take_failures() : std::vector<std::string>();
  }
  // Whether there is a trigger that has not failed.
  bool has_triggers() const {
    return (messages_ && messages_->any_left()) ||
           std::ranges::any_of(triggers_, [](const Trigger& each) { return each.on != Trigger::On::messages; });
  }
  // Whether somebody records, as of the last look at the nodes.
  bool goes_on() const { return recorded_; }

 private:
  struct Followed {
    FollowedNode trace;
    MessageTriggers::Node messages;
  };

  Watch(std::string recording, std::vector<Trigger> triggers, std::unique_ptr<MessageTriggers> messages)
      : recording_(std::move(recording)), triggers_(std::move(triggers)), messages_(std::move(messages)) {
    for (const Trigger& each : triggers_) {
      reads_traces_ |= each.on != Trigger::On::crash;
      sees_crashes_ |= each.on == Trigger::On::crash;
    }
  }

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
      const auto read = read_json(directory.below("node.json"));
      if (!read || !read->is_object()) continue;  // it is just being made, or removed
      names_[id] = read->value("name", json("")).is_string() ? read->value("name", "") : "";
      if (reads_traces_ && !followed_.contains(id))
        followed_.emplace(id, Followed{FollowedNode(directory.below("trace"), id), {id, names_[id]}});
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
    if (!crash || !sees_crashes_) return std::nullopt;
    return fmt::format("node {} ({}) was killed by {}", id, names_[id], signal_text(signal));
  }

  std::optional<std::string> look_at_traces(bool ask) {
    std::optional<std::string> found;
    std::vector<TimedLine> lines;
    for (auto& [id, node] : followed_) {
      if (damaged_.contains(id)) continue;
      const auto look_at_message = [&](const RecordView& record) {
        if (auto why = messages_->visit(node.messages, record, node.trace, ask)) found = std::move(why);
      };
      const auto read = node.trace.poll(lines, messages_ ? look_at_message : TraceTail::Visit());
      if (!read) damaged_.insert(id);  // it is removed; or said when it is read
    }
    for (const TimedLine& line : lines)
      for (const Trigger& each : triggers_)
        if (each.output && each.output->finds(line.line.text))
          found = fmt::format("node {} ({}) wrote what matches {}: {}", line.node, names_[line.node], each.text,
                              line.line.text);
    return found;
  }

  std::string recording_;
  std::vector<Trigger> triggers_;
  std::unique_ptr<MessageTriggers> messages_;  // null: no trigger is a Python file
  bool reads_traces_ = false, sees_crashes_ = false, recorded_ = true;
  std::chrono::steady_clock::time_point looked_{};
  std::map<NodeId, Followed> followed_;
  std::map<NodeId, std::string> names_;
  std::set<uint32_t> ended_;
  std::set<NodeId> damaged_;
};

int save_now(const SavingOptions& options, const std::string& why) {
  const auto saved = save_recording(options.recording, {.place = options.place, .tell = tell_as("live")});
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

namespace {

Result<Watch> watch_for(const SavingOptions& options) {
  std::vector<Trigger> triggers;
  for (const std::string& text : options.when) {
    FRIDAY_TRY(trigger, parse_trigger(text));
    triggers.push_back(std::move(trigger));
  }
  if (!options.with_recorder) FRIDAY_TRY_VOID(Recording::open(options.recording));
  return Watch::create(options.recording, std::move(triggers));
}

// What a recorder waits for when it has started this process: a line that says what is wrong, or an empty one. From
// then on this process writes to its standard error only.
class Answer {
 public:
  explicit Answer(bool with_recorder) {
    if (!with_recorder) return;
    file_ = UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    dup2(STDERR_FILENO, STDOUT_FILENO);
  }
  void give(const std::string& problem) {
    if (file_) (void)!write(file_.get(), (problem + "\n").data(), problem.size() + 1);
    file_.reset();
  }

 private:
  UniqueFd file_;
};

}  // namespace

int save_live(const SavingOptions& options) {
  if (options.when.empty()) return save_now(options, "");
  if (options.with_recorder && std::ranges::any_of(options.when, is_python_file)) end_when_python_outlives_the_input();
  Answer answer(options.with_recorder);
  auto watch = watch_for(options);
  answer.give(watch ? "" : describe(watch.error()));
  if (!watch) return options.with_recorder ? kBadInput : complain("live", watch.error());
  auto last = std::chrono::steady_clock::time_point{};
  std::optional<std::string> why;
  for (unsigned saved = 0; saved < options.times;) {
    if (auto found = watch->look(); found && !why) why = std::move(found);
    if (why && (saved == 0 || std::chrono::steady_clock::now() - last >= kApart)) {
      if (const int code = save_now(options, *why); code && !options.with_recorder) return code;
      why.reset();
      last = std::chrono::steady_clock::now();
      saved++;
    }
    for (const std::string& failure : watch->take_failures()) say(stderr, "friday live: {}\n", failure);
    if (!watch->has_triggers() && !why) return kBadInput;
    if (!pause_while_recorded(options.with_recorder)) return 0;
    if (options.with_recorder || watch->goes_on()) continue;
    say(stderr, "friday live: {} is not being recorded any more\n", options.recording);
    return saved ? 0 : kBadInput;
  }
  return 0;
}

Result<SavingProcess> SavingProcess::start(const SavingOptions& options) {
  int ends[2], answers[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  UniqueFd input(ends[0]), far(ends[1]);
  if (pipe2(answers, O_CLOEXEC) != 0) return fail_errno(errno, "cannot make a pipe");
  UniqueFd answer(answers[0]), far_answer(answers[1]);
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
  posix_spawn_file_actions_adddup2(&files, far_answer.get(), STDOUT_FILENO);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);  // what the terminal sends is not for it
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0].c_str(), &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error) return fail_errno(error, fmt::format("cannot start {}", words[0]));
  SavingProcess process(pid, std::move(far));
  far_answer.reset();
  FRIDAY_TRY(problem, read_to_end(answer.get(), "what the process that is to save the recording says"));
  if (problem.empty()) return fail(ErrorCode::component_died, "the process that is to save the recording has ended");
  if (problem != "\n") return fail(ErrorCode::usage, "{}", problem.substr(0, problem.size() - 1));
  return process;
}

SavingProcess::~SavingProcess() {
  if (!input_) return;
  input_.reset();
  // The recorder may have waited for it already, among other children.
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {}
}

}  // namespace friday
