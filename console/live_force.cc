#include "console/live_force.h"

#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <set>
#include <vector>

#include <fmt/ranges.h>

#include "console/forced_runs.h"
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

 private:
  std::string recording_, id_;
  NodeInfo program_;
  bool switched_ = false;
};

std::vector<MessageClass> messages_of(const ForcePlan& plan) {
  std::vector<MessageClass> all;
  if (const ExactOrder* exact = plan.exact()) {
    for (const ExactMessage& each : *exact) all.push_back(each.is);
    return all;
  }
  const auto& order = std::get<ForcedOrder>(plan.order);
  all = order.steps;
  all.insert(all.end(), order.kept_out.begin(), order.kept_out.end());
  return all;
}

// A program on standby. Fails if there is none, if one runs recorded already, or if a message of the order comes from
// somebody else.
Result<NodeInfo> find_program(const std::string& path, const ForcePlan& plan) {
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
  for (const MessageClass& each : messages_of(plan))
    if (!roles.contains(each.from))
      return fail(ErrorCode::usage,
                  "{}: no program of {} that runs has this name, so the message cannot be held back (they are: {})",
                  describe(each), path, fmt::join(roles, ", "));
  return *std::move(program);
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
  ForcedSeries series{.directory = {}, .patience = patience.get<double>()};
  apply_when_stuck(stuck.get<std::string>(), series);
  const auto shared = std::make_shared<const ForcePlan>(std::move(plan));
  return shaper_options(shared, shared->until, series, {});
}

Result<int> force_live(const ForceOptions& options, const ForcePlan& plan) {
  if (options.when_stuck == "stop")
    return fail(ErrorCode::usage,
                "--when-stuck stop ends a run: programs that run on standby are not ended by an order");
  FRIDAY_TRY(program, find_program(options.live, plan));
  FRIDAY_TRY(interrupts, Interrupts::watch());
  const std::string id = fmt::format("{}-{}", getpid(), std::chrono::system_clock::now().time_since_epoch().count());
  const std::string order = order_for_recorder(options, plan).dump(-1, ' ', false, json::error_handler_t::replace);
  if (!options.as_json) print_plan(options, plan);
  Asked asked(options.live, id, std::move(program));
  FRIDAY_TRY_VOID(write_live_order(options.live, {id, order}));
  FRIDAY_TRY(prepared, asked.await(Stage::prepared, interrupts, kLongestAnswer));
  if (prepared && prepared->stage == Stage::over) return fail(ErrorCode::unsupported, "{}", prepared->why);
  if (prepared) {
    FRIDAY_TRY_VOID(asked.switch_on(options.record));
    FRIDAY_TRY(forcing, asked.await(Stage::forcing, interrupts, kLongestAnswer));
    if (forcing && !options.quiet && !options.as_json) {
      say("The programs take part; Ctrl-C lets everything go.\n");
      fflush(stdout);
    }
  }
  FRIDAY_TRY(over, asked.await(Stage::over, interrupts, std::nullopt));
  if (!over) return 130;
  return tell(options, *over);
}

}  // namespace friday
