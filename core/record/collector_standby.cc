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

}  // namespace friday
