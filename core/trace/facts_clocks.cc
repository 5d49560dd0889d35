// Gives the events of a host times on one clock.
#include <algorithm>

#include "core/trace/facts.h"

namespace friday {

using namespace format;

void unify_clock_kinds(FactSet& set, uint32_t host) {
  uint32_t kind = 0;
  uint64_t rate = 0;
  bool mixed = false;
  for (uint32_t slot = 0; slot < set.nodes.size(); ++slot) {
    if (set.nodes[slot].host != host) continue;
    const FileHeader& header = set.readers[slot].header();
    if (kind && kind != header.clock_kind) mixed = true;
    kind = header.clock_kind;
    rate = header.ticks_per_second;
  }
  if (!mixed) {
    set.clocks[host].finish(kind, rate);
    return;
  }
  HostClock joint;
  for (uint32_t slot = 0; slot < set.nodes.size(); ++slot) {
    if (set.nodes[slot].host != host) continue;
    const FileHeader& header = set.readers[slot].header();
    HostClock own;
    for (RecordCursor cursor = set.readers[slot].records(); cursor.next();) {
      if (const auto* clock = cursor.record().clock()) {
        own.add(*clock);
        ClockRecord on_monotonic = *clock;
        on_monotonic.ticks = static_cast<uint64_t>(clock->monotonic_ns);
        joint.add(on_monotonic);
      }
    }
    own.finish(header.clock_kind, header.ticks_per_second);
    auto convert = [&](uint64_t ticks) { return static_cast<uint64_t>(std::max<int64_t>(own.monotonic_ns(ticks), 0)); };
    NodeFacts& node = set.nodes[slot];
    for (EventTime& time : node.times) time = {convert(time.entry), convert(time.back), time.outgoing};
    for (auto& use : node.uses) use.time = convert(use.time);
    for (auto& kill : node.kills) kill.time = convert(kill.time);
    for (auto& signal : node.signals) signal.time = convert(signal.time);
    for (auto& wait : node.waits) wait.time = convert(wait.time);
    for (Channel& channel : set.channels) {
      if (channel.node != slot) continue;
      for (uint64_t* time : {&channel.first_time, &channel.connect_time, &channel.accept_time, &channel.close_time,
                             &channel.gone_time, &channel.connect_back})
        *time = convert(*time);
      for (auto* list : {&channel.ends, &channel.breaks})
        for (EndSeen& seen : *list) seen.time = convert(seen.time);
      for (auto* list : {&channel.out, &channel.in})
        for (Transfer& transfer : *list)
          for (uint64_t* time : {&transfer.time, &transfer.entered, &transfer.returned}) *time = convert(*time);
    }
  }
  joint.finish(kClockMonotonic, 1'000'000'000);
  set.clocks[host] = std::move(joint);
}

}  // namespace friday
