#include "console/live_force.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include <fmt/ranges.h>

#include "console/forced_runs.h"
#include "console/live_judge.h"
#include "console/say.h"
#include "console/switching.h"
#include "core/record/interrupts.h"
#include "core/trace/live_order.h"
#include "core/trace/recording.h"

namespace friday {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using Clock = std::chrono::steady_clock;
using Stage = LiveOrderState::Stage;

constexpr int kLookAgainMs = 50;
constexpr auto kLongestAnswer = 10s;  // of the recorder, which looks for an order several times a second

// An order in the file of the recording. It is removed, and the programs are put back on standby, when this ends.
class Asked {
 public:
  // `program`: a node of the recorder that shall take it up.
  Asked(std::string recording, std::string id, NodeInfo program)
      : recording_(std::move(recording)), id_(std::move(id)), program_(std::move(program)) {}
  ~Asked() {
    remove_live_order(recording_);
    remove_live_order_state(recording_);
    if (switched_) (void)switch_nodes({recording_, {}, Keeps::nothing});
  }
  Asked(const Asked&) = delete;

  Result<void> switch_on(bool record) {
    switched_ = true;
    FRIDAY_TRY(switched, switch_nodes({recording_, {}, record ? Keeps::everything : Keeps::schedule}));
    if (switched.left_over.empty()) return {};
    return fail(ErrorCode::io, "not all programs of {} could be switched on: {}", recording_, switched.left_over[0]);
  }

  // The state of this order once it has come so far. None if it was interrupted.
  Result<std::optional<LiveOrderState>> await(Stage stage, const Interrupts& interrupts,
                                              std::optional<Clock::duration> longest) const {
    const auto end = longest ? std::optional(Clock::now() + *longest) : std::nullopt;
    for (bool recorder_has_ended = false; !interrupts.came();) {
      const auto state = read_live_order_state(recording_);
      if (state && state->id == id_ && state->stage >= stage) return *state;
      if (recorder_has_ended || (end && Clock::now() > *end))
        return fail(ErrorCode::io, "{}",
                    recorder_has_ended ? fmt::format("the recorder of {} has ended", recording_)
                                       : fmt::format("the recorder of {} does not take the order up", recording_));
      recorder_has_ended = !recorder_lives(program_);  // it may have told the end just before its own
      pollfd wake{interrupts.fd(), POLLIN, 0};
      (void)poll(&wake, 1, kLookAgainMs);
    }
    return std::nullopt;
  }

  // Why the recorder takes no part in the order any more, other than that all its programs have ended.
  std::optional<std::string> failure() const {
    const auto state = read_live_order_state(recording_);
    const bool lives = recorder_lives(program_), is_over = state && state->id == id_ && state->stage == Stage::over;
    if (is_over && lives) return state->why;
    if (!is_over && !lives) return fmt::format("the recorder of {} has ended", recording_);
    return std::nullopt;
  }

 private:
  std::string recording_, id_;
  NodeInfo program_;
  bool switched_ = false;
};

struct Programs {
  NodeInfo one;
  std::set<std::string> roles;
};

// The programs on standby. Fails if there are none, or if one runs recorded already.
Result<Programs> find_programs(const std::string& path) {
  FRIDAY_TRY(recording, Recording::open(path, Recording::Standby::shown));
  std::set<std::string> roles;
  std::optional<NodeInfo> program;
  for (const NodeInfo& node : recording.nodes()) {
    if (!program_lives(node) || !recorder_lives(node)) continue;
    roles.insert(role_of(node.name));
    program = node;
    if (!node.on_standby && node.end.how == NodeEnd::How::running)
      return fail(
          ErrorCode::usage,
          "{} is recorded already, since before there was an order: `friday live {} off` puts the programs back "
          "on standby",
          node.given_name, path);
  }
  if (!program) return fail(ErrorCode::usage, "no program of {} runs on standby", path);
  return Programs{*std::move(program), std::move(roles)};
}

// Fails if a message of the order comes from somebody else.
Result<void> check_senders(const std::string& path, const Programs& programs, const ForcePlan& plan) {
  for (const MessageClass& each : messages_of(plan))
    if (std::ranges::none_of(programs.roles, [&](const std::string& role) { return is_role(role, each.from); }))
      return fail(ErrorCode::usage,
                  "{}: no program of {} that runs has this name, so the message cannot be held back (they are: {}; "
                  "--listen forces an order onto programs of several machines)",
                  describe(each), path, fmt::join(programs.roles, ", "));
  return {};
}

json order_for_recorder(const ForceOptions& options, const ForcePlan& plan) {
  json order = as_json(plan);
  if (const auto* steps = std::get_if<ForcedOrder>(&plan.order)) {
    order["before"] = steps->before;
    order["one_matter"] = steps->one_matter;
  }
  order["class"] = options.classes;
  order["ignore"] = options.ignored;
  order["until"] = plan.until.empty() ? options.until : plan.until;
  order["patience"] = options.patience > 0 ? options.patience : kUsualPatience;
  order["when_stuck"] = options.when_stuck;
  return order;
}

Result<int> tell(const ForceOptions& options, const LiveOrderState& state) {
  if (options.as_json) say_json({{"recording", options.live}, {"forced", state.came_true}, {"why", state.why}});
  else if (state.came_true) say("the order came true\n");
  else say("the order did not come true: {}\n", state.why);
  if (!options.as_json && options.record)
    say("recorded: `friday live {} save -o CASE` keeps what it holds now\n", options.live);
  return state.came_true ? 0 : 1;
}

}  // namespace

Result<ShaperOptions> shaper_for(const std::string& order) {
  FRIDAY_TRY(plan, read_order(order, "the order"));
  const json known = json::parse(order, nullptr, false);
  const json patience = known.value("patience", json(kUsualPatience)), stuck = known.value("when_stuck", json(""));
  constexpr double kMostPatience = 1e9;  // seconds
  if (!patience.is_number() || !(patience > 0.0 && patience < kMostPatience) || !stuck.is_string())
    return fail(ErrorCode::bad_input, "the order is damaged");
  FRIDAY_TRY(elsewhere, joined_judge_of(known));
  ForcedSeries series{.directory = {}, .patience = patience.get<double>()};
  apply_when_stuck(stuck.get<std::string>(), series);
  const auto shared = std::make_shared<const ForcePlan>(std::move(plan));
  ShaperOptions options = shaper_options(shared, shared->until, series, {});
  if (elsewhere) ask_elsewhere(shared, *elsewhere, options);
  return options;
}

namespace {

using Outcome = std::function<std::optional<JudgeServer::Outcome>()>;

// What becomes of an order whose judge is elsewhere: also when the programs of this machine have ended before. None if
// it was interrupted.
std::optional<LiveOrderState> await_elsewhere(const Asked& asked, const Outcome& outcome,
                                              const Interrupts& interrupts) {
  constexpr auto kLongestNews = 3s;  // of what has happened to this machine's recorder
  std::optional<Clock::time_point> failed;
  while (!interrupts.came()) {
    if (const auto over = outcome())
      return LiveOrderState{.id = {}, .stage = Stage::over, .came_true = over->came_true, .why = over->why};
    const auto why = asked.failure();
    if (!why) failed.reset();
    else if (!failed) failed = Clock::now();
    if (failed && Clock::now() - *failed > kLongestNews)
      return LiveOrderState{.id = {}, .stage = Stage::over, .came_true = false, .why = *why};
    pollfd wake{interrupts.fd(), POLLIN, 0};
    (void)poll(&wake, 1, kLookAgainMs);
  }
  return std::nullopt;
}

// `order`: what the recorder is given. `elsewhere`: of the judge that it asks; empty: it is the judge itself.
Result<int> force_here(const ForceOptions& options, const Programs& programs, const json& order,
                       const Outcome& elsewhere = {}) {
  FRIDAY_TRY(interrupts, Interrupts::watch());
  const std::string id = fmt::format("{}-{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  Asked asked(options.live, id, programs.one);
  FRIDAY_TRY_VOID(write_live_order(options.live, {id, order.dump(-1, ' ', false, json::error_handler_t::replace)}));
  FRIDAY_TRY(prepared, asked.await(Stage::prepared, interrupts, kLongestAnswer));
  if (prepared && prepared->stage == Stage::over) return fail(ErrorCode::unsupported, "{}", prepared->why);
  if (prepared) {
    FRIDAY_TRY_VOID(asked.switch_on(options.record));
    FRIDAY_TRY(forcing, asked.await(Stage::forcing, interrupts, kLongestAnswer));
    if (forcing && forcing->stage == Stage::forcing && !options.quiet && !options.as_json) {
      say("The programs {}take part; Ctrl-C lets everything go.\n", elsewhere ? "of this machine " : "");
      fflush(stdout);
    }
  }
  std::optional<LiveOrderState> over;
  if (elsewhere) {
    over = await_elsewhere(asked, elsewhere, interrupts);
  } else {
    FRIDAY_TRY(told, asked.await(Stage::over, interrupts, std::nullopt));
    over = std::move(told);
  }
  if (!over) return 130;
  return tell(options, *over);
}

void say_how_to_join(const ForceOptions& options, const LiveJudge& judge) {
  std::FILE* to = options.as_json ? stderr : stdout;
  say(to, "On each other machine:  friday force --live REC --join {}\n", judge.join_text());
  fflush(to);
}

}  // namespace

Result<int> force_live(const ForceOptions& options, const ForcePlan& plan) {
  if (options.when_stuck == "stop")
    return fail(ErrorCode::usage,
                "--when-stuck stop ends a run: programs that run on standby are not ended by an order");
  FRIDAY_TRY(programs, find_programs(options.live));
  json order = order_for_recorder(options, plan);
  if (options.listen.empty()) {
    FRIDAY_TRY_VOID(check_senders(options.live, programs, plan));
    if (!options.as_json) print_plan(options, plan);
    return force_here(options, programs, order);
  }
  const std::string text = order.dump(-1, ' ', false, json::error_handler_t::replace);
  FRIDAY_TRY(shaper, shaper_for(text));
  FRIDAY_TRY(judge, LiveJudge::listen(options.listen, plan, text, shaper, options.quiet || options.as_json));
  if (!options.as_json) print_plan(options, plan);
  say_how_to_join(options, *judge);
  JoinedJudge joined = judge->for_this_machine();
  joined.roles = programs.roles;
  order["join"] = as_json(joined);
  return force_here(options, programs, order, [&] { return judge->outcome(); });
}

Result<int> join_live(const ForceOptions& options) {
  FRIDAY_TRY(judge, read_joined_judge(options.join));
  FRIDAY_TRY(programs, find_programs(options.live));
  FRIDAY_TRY(observer, JudgeObserver::ask(judge.place, judge.key));
  FRIDAY_TRY(plan, read_order(observer->order(), fmt::format("the order of {}", describe(judge.place))));
  json order = json::parse(observer->order(), nullptr, false);
  FRIDAY_TRY(numeric, without_name(judge.place));  // the recorder shall not wait for a name server
  judge.place = std::move(numeric);
  judge.roles = programs.roles;
  order["join"] = as_json(judge);
  if (!options.as_json) print_plan(options, plan);
  return force_here(options, programs, order, [&] { return observer->outcome(); });
}

}  // namespace friday
