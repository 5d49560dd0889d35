#include "core/record/faults.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include <fmt/ranges.h>

namespace friday {
namespace {

using Action = EventSpec::Action;

Action action_of(LinkChange::Kind kind) {
  switch (kind) {
    case LinkChange::Kind::cut: return Action::partition;
    case LinkChange::Kind::heal: return Action::heal;
    case LinkChange::Kind::delay: return Action::delay;
    case LinkChange::Kind::loss: return Action::loss;
  }
  return Action::heal;
}

std::string amount_of(const LinkChange& change) {
  const double delay_ms = static_cast<double>(change.delay_ns) / 1e6,
               jitter_ms = static_cast<double>(change.jitter_ns) / 1e6;
  if (change.kind == LinkChange::Kind::loss) return fmt::format(": {:g} %", change.percent);
  if (change.kind != LinkChange::Kind::delay) return "";
  if (change.jitter_ns == 0) return fmt::format(": {:g} ms", delay_ms);
  return fmt::format(": {:g} to {:g} ms", delay_ms, delay_ms + jitter_ms);
}

// Draws the plan. Only the generator of the standard library is used, whose numbers the standard fixes; those of its
// distributions differ from one library to another.
class Plan {
 public:
  Plan(const GroupSpec& group, uint64_t seed) : group_(group), faults_(group.faults), random_(seed) {}

  std::vector<EventSpec> draw() {
    double at = faults_.from;
    while (true) {
      at += about(faults_.every);
      const double end = at + about(faults_.lasts);
      if (end > faults_.until || faults_.kinds.empty()) break;
      add(faults_.kinds[below(faults_.kinds.size())], rounded(at), rounded(end));
      at = end;
    }
    return std::move(events_);
  }

 private:
  static double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }
  double unit() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  size_t below(size_t count) { return static_cast<size_t>(unit() * static_cast<double>(count)); }
  // From half of it to one and a half.
  double about(double mean) { return mean * (0.5 + unit()); }

  void add(Action kind, double at, double end) {
    if (kind == Action::kill) return add_program_fault(kind, Action::restart, at, end);
    if (kind == Action::stop) return add_program_fault(kind, Action::resume, at, end);
    if (kind == Action::partition) return add_partition(at, end);
    LinkChange change;
    change.kind = kind == Action::delay ? LinkChange::Kind::delay : LinkChange::Kind::loss;
    const auto pair = shuffled();
    const std::vector<std::string> two(pair.begin(), pair.begin() + 2);
    if (kind == Action::delay)
      change.delay_ns = std::llround(std::max(1.0, std::round(unit() * faults_.most_delay_ms))) * 1'000'000;
    else change.percent = std::max(1.0, std::round(unit() * faults_.most_percent));
    add_link_fault(links_between(group_, two), change, fmt::format("{} - {}", two[0], two[1]), at, end);
  }

  void add_program_fault(Action fault, Action undone, double at, double end) {
    const std::string& program = faults_.programs[below(faults_.programs.size())];
    events_.push_back({at, fault, {program}, {}, ""});
    events_.push_back({end, undone, {program}, {}, ""});
  }

  void add_partition(double at, double end) {
    const std::vector<std::string> programs = shuffled();
    const auto cut = static_cast<std::ptrdiff_t>(1 + below(programs.size() - 1));
    std::vector<std::vector<std::string>> sides{{programs.begin(), programs.begin() + cut},
                                                {programs.begin() + cut, programs.end()}};
    for (auto& side : sides) std::ranges::sort(side);
    std::ranges::sort(sides);
    add_link_fault(links_between_sides(sides), {},
                   fmt::format("{} | {}", fmt::join(sides[0], ", "), fmt::join(sides[1], ", ")), at, end);
  }

  void add_link_fault(const std::vector<NamedLink>& links, const LinkChange& change, const std::string& between,
                      double at, double end) {
    LinkChange heal;
    heal.kind = LinkChange::Kind::heal;
    events_.push_back(network_event(group_, links, change, between));
    events_.back().at = at;
    events_.push_back(network_event(group_, links, heal, between));
    events_.back().at = end;
  }

  // One program of each host, since a fault of the network concerns whole hosts, in an order that is drawn.
  std::vector<std::string> shuffled() {
    std::vector<std::string> programs;
    std::set<std::string> hosts;
    for (const std::string& name : faults_.programs)
      if (hosts.insert(host_of(group_, name)).second) programs.push_back(name);
    for (size_t i = programs.size(); i > 1; i--) std::swap(programs[i - 1], programs[below(i)]);
    return programs;
  }

  const GroupSpec& group_;
  const RandomFaultsSpec& faults_;
  std::mt19937_64 random_;
  std::vector<EventSpec> events_;
};

}  // namespace

const std::string& host_of(const GroupSpec& group, const std::string& program) {
  return std::ranges::find(group.programs, program, &ProgramSpec::name)->host;
}

std::vector<NamedLink> links_between(const GroupSpec& group, std::span<const std::string> programs) {
  std::vector<NamedLink> links;
  for (const std::string& from : programs)
    for (const std::string& to : programs)
      if (host_of(group, from) != host_of(group, to)) links.emplace_back(from, to);
  return links;
}

std::vector<NamedLink> links_between_sides(std::span<const std::vector<std::string>> sides) {
  std::vector<NamedLink> links;
  for (const auto& one : sides)
    for (const auto& other : sides)
      if (&one != &other)
        for (const std::string& from : one)
          for (const std::string& to : other) links.emplace_back(from, to);
  return links;
}

EventSpec network_event(const GroupSpec& group, std::span<const NamedLink> links, const LinkChange& change,
                        const std::string& between) {
  EventSpec event;
  event.action = action_of(change.kind);
  event.detail = between + amount_of(change);
  const auto& hosts = group.network.hosts;
  const auto number_of = [&](const std::string& program) {
    return static_cast<uint32_t>(std::ranges::find(hosts, host_of(group, program)) - hosts.begin());
  };
  std::set<std::pair<uint32_t, uint32_t>> changed;
  std::set<std::string> touched;
  for (const auto& [from, to] : links) {
    LinkChange one = change;
    one.from = number_of(from);
    one.to = number_of(to);
    if (one.from == one.to || !changed.emplace(one.from, one.to).second) continue;
    event.links.push_back(one);
    touched.insert({hosts[one.from], hosts[one.to]});
  }
  for (const ProgramSpec& program : group.programs)
    if (touched.contains(program.host)) event.programs.push_back(program.name);
  return event;
}

std::vector<EventSpec> draw_faults(const GroupSpec& group, uint64_t seed) { return Plan(group, seed).draw(); }

}  // namespace friday
