// Programs on standby (CollectorOptions::standby) run unrecorded, with the shim in them, until somebody switches the
// recording on (core/trace/switches.h). A process on standby has a trace in which nothing stands; what is recorded of
// it goes into traces that begin with a start image, like the parts of collector_parts.cc.
#include "core/base/log.h"
#include "core/record/collector_node.h"
#include "core/trace/standing_still.h"

namespace friday {

Keeps Collector::keeps_of(const NodeOrigin& origin) const {
  if (!options_.standby) return options_.schedule ? Keeps::schedule : Keeps::everything;
  std::vector<std::string> names = origin.lineage;
  names.push_back(origin.name);
  return switches_.of(names);
}

// Whether it is to be recorded in full.
bool Collector::is_wanted(const NodeOrigin& origin) const { return keeps_of(origin) == Keeps::everything; }

// Creates the node of a program that starts. `parent`: of the process that starts it, or that executes it; only where
// both are recorded it is known what made it.
Result<Collector::Node*> Collector::create_program(const NodeOrigin& origin, const Node* parent) {
  const Keeps keeps = keeps_of(origin);
  const bool sleeps = keeps == Keeps::nothing;
  const bool known = parent && !parent->on_standby && !sleeps;
  return create_node(origin, known ? parent : nullptr, sleeps ? Begins::on_standby : Begins::by_itself,
                     keeps == Keeps::schedule);
}

// Tells the processes what has changed in the file of switches since the last look.
void Collector::look_at_switches() {
  constexpr int64_t kLookAgain = 100'000'000;
  switches_at_ = now_ns(CLOCK_MONOTONIC) + kLookAgain;
  look_at_order();
  for (const auto& node : nodes_) remove_from_standby(*node);
  std::erase_if(nodes_, [](const auto& node) { return node->dropped && node->closed; });
  auto switches = Switches::read(options_.recording);
  if (!switches) {
    if (!switches_problem_.empty()) return;
    switches_problem_ = switches.error().message;
    news_.push_back(fmt::format("what is to be recorded stays as it is: {}", switches_problem_));
    return;
  }
  switches_problem_.clear();
  switches_ = std::move(*switches);
  for (Node* node : open_)
    if (node->header && node->hello) tell_wanted(*node);
}

// From a schedule to a full recording, or back, a process goes by way of standby.
void Collector::tell_wanted(Node& node) {
  const Keeps keeps = keeps_of(node.origin);
  const bool wanted = keeps == Keeps::everything;
  uint32_t& word = node.header->wanted;
  if (!wanted) drop_room_ahead(node);
  if (node.cut) {
    const uint32_t called = wanted ? format::kPartTogether : format::kNothingTogether;
    if (__atomic_load_n(&word, __ATOMIC_RELAXED) == called) return;
    leave_cut(node);
  }
  if (node.shares) look_at_cuts_soon(0);
  if (node.on_standby) {
    const format::Wanted begins = wanted                     ? format::kPartInAnyCase
                                  : keeps == Keeps::schedule ? format::kOnlySchedule
                                                             : format::kNoPart;
    __atomic_store_n(&word, uint32_t{begins}, __ATOMIC_RELEASE);
  } else if (keeps != (node.schedule ? Keeps::schedule : Keeps::everything)) {
    __atomic_store_n(&word, uint32_t{format::kNothing}, __ATOMIC_RELEASE);
  } else {  // what --keep asks for stays
    uint32_t nothing = format::kNothing;
    __atomic_compare_exchange_n(&word, &nothing, uint32_t{format::kNoPart}, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
  }
}

// Of a process on standby nothing remains in the recording. While somebody copies the files it is tried again later.
void Collector::remove_from_standby(Node& node) {
  if (!node.on_standby || !node.closed || node.dropped || !try_moving(still_)) return;
  remove_node(node);
  end_moving(still_);
}

// ---- An order of messages that somebody asks for

void Collector::tell_order(LiveOrderState::Stage stage, bool came_true, const std::string& why) {
  live_order_.stage = stage;
  live_order_.came_true = came_true;
  live_order_.why = why;
  if (auto told = write_live_order_state(options_.recording, live_order_); !told)
    news_.push_back(fmt::format("what becomes of an order of messages cannot be told: {}", told.error().message));
}

void Collector::begin_live_order(const std::string& text) {
  auto options = options_.live_order(text);
  if (!options) return tell_order(LiveOrderState::Stage::over, false, options.error().message);
  options->late = true;
  options_.shaper = std::move(*options);
  if (const auto begun = begin_shaping(); !begun)
    return tell_order(LiveOrderState::Stage::over, false, begun.error().message);
  tell_order(LiveOrderState::Stage::prepared);
}

// Whether all programs that shall be recorded are, so that all of them know of the order.
bool Collector::all_take_part() const {
  unsigned count = 0;
  for (const Node* node : open_) {
    if (!node->header || !node->hello || keeps_of(node->origin) == Keeps::nothing) continue;
    if (node->on_standby) return false;
    count++;
  }
  return count > 0;
}

// Says what became of an order that is over.
void Collector::tell_end_of_order() {
  if (!shaper_ || !options_.live_order || live_order_.stage == LiveOrderState::Stage::over) return;
  const bool came_true = shaper_->judge().came_true();
  tell_order(LiveOrderState::Stage::over, came_true, came_true ? "" : shaper_->judge().reason());
}

void Collector::look_at_order() {
  if (!options_.live_order) return;
  const auto order = read_live_order(options_.recording);
  const std::string id = order ? order->id : "";
  using Stage = LiveOrderState::Stage;
  if (shaper_ && id != live_order_.id && !shaper_->judge().is_over()) shaper_->let_all_go("it was called off");
  if (shaper_ && shaper_->judge().is_over()) {
    tell_end_of_order();
    if (shaper_->is_idle()) shaper_.reset();
  } else if (shaper_ && !shaper_->is_armed() && all_take_part()) {
    shaper_->arm();
    tell_order(Stage::forcing);
  } else if (!shaper_ && order && id != live_order_.id) {
    live_order_ = {.id = id};
    begin_live_order(order->order);
  }
}

}  // namespace friday
