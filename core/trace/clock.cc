#include "core/trace/clock.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>

namespace friday {

namespace {

// Quartz oscillators drift by up to 100 ppm, and NTP slews by up to 500 ppm.
constexpr double kMaxDrift = 1e-3;
// Two readings closer together than this say nothing about the rate: the jitter of taking them is larger than the
// drift.
constexpr int64_t kMinSpacingNs = 10'000'000;
// How far a reading may lie off the line. A reading that was interrupted by the kernel's scheduler is late by more.
constexpr double kReadingJitterNs = 50'000;

// About 120 years. Times outside this range come from damaged traces; the limit keeps all sums below far from overflow.
constexpr int64_t kMostNs = 4'000'000'000'000'000'000;

int64_t bounded(__int128 ns) { return static_cast<int64_t>(ns > kMostNs ? kMostNs : ns < -kMostNs ? -kMostNs : ns); }

int64_t rounded_down(double ns) {
  constexpr auto kMost = static_cast<double>(kMostNs);
  if (std::isnan(ns)) return 0;
  return static_cast<int64_t>(std::floor(std::clamp(ns, -kMost, kMost)));
}

struct Dot {
  double x, y;
};

double cross(const Dot& o, const Dot& a, const Dot& b) { return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x); }

// The corners of `dots` that a line above (sign 1) or below (sign -1) all of them can touch: one side of the convex
// hull.
std::vector<Dot> hull(std::vector<Dot> dots, double sign) {
  std::ranges::sort(dots, [](const Dot& a, const Dot& b) { return a.x != b.x ? a.x < b.x : a.y < b.y; });
  std::vector<Dot> corners;
  for (const Dot& dot : dots) {
    while (corners.size() >= 2 && sign * cross(corners[corners.size() - 2], corners.back(), dot) >= 0)
      corners.pop_back();
    corners.push_back(dot);
  }
  return corners;
}

// Constraints on the map from one host's time x to the reference time y. Lower: y must be at least this at x (sent by
// the reference host, received by the other). Upper: y must be at most this (sent by the other host, received by the
// reference).
struct Bounds {
  std::vector<Dot> lower, upper;
};

struct Fit {
  double rate, intercept, margin;
};

// For a given rate, the intercept in the middle between the bounds.
Fit fit_at(double rate, const Bounds& bounds) {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  for (const Dot& dot : bounds.lower) low = std::max(low, dot.y - rate * dot.x);
  for (const Dot& dot : bounds.upper) high = std::min(high, dot.y - rate * dot.x);
  if (bounds.lower.empty()) return {rate, high, 0};
  if (bounds.upper.empty()) return {rate, low, 0};
  return {rate, (low + high) / 2, (high - low) / 2};
}

Fit best_fit(Bounds bounds) {
  bounds.lower = hull(std::move(bounds.lower), 1);
  bounds.upper = hull(std::move(bounds.upper), -1);
  Fit steady = fit_at(1, bounds);
  if (bounds.lower.empty() || bounds.upper.empty()) return steady;
  // The margin is a concave function of the rate, so a ternary search finds its maximum.
  double left = 1 - kMaxDrift, right = 1 + kMaxDrift;
  for (int round = 0; round < 100; ++round) {
    double a = left + (right - left) / 3, b = right - (right - left) / 3;
    (fit_at(a, bounds).margin < fit_at(b, bounds).margin ? left : right) =
        fit_at(a, bounds).margin < fit_at(b, bounds).margin ? a : b;
  }
  Fit best = fit_at((left + right) / 2, bounds);
  // A short recording cannot tell drift from jitter. Unless a different rate is clearly better, assume equal rates.
  return steady.margin >= 0.8 * best.margin && steady.margin > 0 ? steady : best;
}

struct Relation {
  Bounds bounds;  // constraints on the second host's time, given the first's
  int64_t origin_first = 0, origin_second = 0;
  size_t forth = 0, back = 0;
};

LinearMap map_of(const Relation& relation, const Fit& fit) {
  LinearMap map;
  map.origin_local = relation.origin_second;
  map.origin_reference = bounded(static_cast<__int128>(relation.origin_first) + rounded_down(fit.intercept));
  map.rate = fit.rate;
  return map;
}

using Pair = std::pair<uint32_t, uint32_t>;

std::map<Pair, Relation> relations_of(std::span<const CrossMessage> messages) {
  std::map<Pair, Relation> relations;
  for (const CrossMessage& message : messages) {
    bool forth = message.from_host < message.to_host;  // sent by the first host of the pair to the second
    Pair pair = std::minmax(message.from_host, message.to_host);
    Relation& relation = relations[pair];
    int64_t first = forth ? message.sent_ns : message.received_ns;
    int64_t second = forth ? message.received_ns : message.sent_ns;
    if (relation.forth + relation.back == 0) {
      relation.origin_first = first;
      relation.origin_second = second;
    }
    Dot dot{static_cast<double>(static_cast<__int128>(second) - relation.origin_second),
            static_cast<double>(static_cast<__int128>(first) - relation.origin_first)};
    (forth ? relation.bounds.lower : relation.bounds.upper).push_back(dot);
    ++(forth ? relation.forth : relation.back);
  }
  return relations;
}

}  // namespace

void HostClock::add(const format::ClockRecord& record) {
  points_.push_back({record.ticks, bounded(record.monotonic_ns), bounded(record.realtime_ns)});
}

void HostClock::finish(uint32_t kind, uint64_t ticks_per_second) {
  kind_ = kind;
  ns_per_tick_ =
      kind == format::kClockMonotonic ? 1.0 : 1e9 / static_cast<double>(std::max<uint64_t>(ticks_per_second, 1));
  std::ranges::sort(points_, {}, &Point::ticks);
  if (points_.size() >= 2) {
    // The recorded rate is an estimate. If the recording is long, the readings themselves give a better one.
    double ticks = static_cast<double>(points_.back().ticks - points_.front().ticks);
    double span = static_cast<double>(points_.back().monotonic - points_.front().monotonic);
    if (kind != format::kClockMonotonic && span > 1e9 && std::abs(span / ticks / ns_per_tick_ - 1) < 0.01)
      ns_per_tick_ = span / ticks;
  }
  std::vector<Point> kept;
  for (const Point& point : points_) {
    if (!kept.empty()) {
      double expected = static_cast<double>(point.ticks - kept.back().ticks) * ns_per_tick_;
      double found = static_cast<double>(point.monotonic - kept.back().monotonic);
      if (point.monotonic < kept.back().monotonic + kMinSpacingNs || point.ticks == kept.back().ticks) continue;
      if (std::abs(found - expected) > kReadingJitterNs + kMaxDrift * expected) continue;
    }
    kept.push_back(point);
  }
  points_ = std::move(kept);
}

const HostClock::Point& HostClock::point_before(uint64_t ticks) const {
  auto after = std::ranges::upper_bound(points_, ticks, {}, &Point::ticks);
  return after == points_.begin() ? *after : *std::prev(after);
}

int64_t HostClock::monotonic_ns(uint64_t ticks) const {
  if (kind_ == format::kClockMonotonic) return bounded(ticks);
  if (points_.empty()) return rounded_down(static_cast<double>(ticks) * ns_per_tick_);
  const Point& point = point_before(ticks);
  double slope = ns_per_tick_;
  const Point* next = &point + 1;
  bool inside = ticks >= point.ticks && next < points_.data() + points_.size();
  if (inside)
    slope = static_cast<double>(next->monotonic - point.monotonic) / static_cast<double>(next->ticks - point.ticks);
  auto distance = static_cast<int64_t>(ticks - point.ticks);
  int64_t ns = bounded(static_cast<__int128>(point.monotonic) + rounded_down(static_cast<double>(distance) * slope));
  return inside ? std::min(ns, next->monotonic) : ns;
}

int64_t HostClock::realtime_ns(uint64_t ticks) const {
  if (points_.empty()) return monotonic_ns(ticks);
  const Point& point = point_before(ticks);
  return bounded(static_cast<__int128>(point.realtime) + monotonic_ns(ticks) - point.monotonic);
}

int64_t LinearMap::operator()(int64_t local) const {
  __int128 distance = static_cast<__int128>(local) - origin_local;
  // The distance is computed exactly; only the drift passes through a double.
  return bounded(origin_reference + distance + rounded_down(static_cast<double>(distance) * (rate - 1)));
}

LinearMap LinearMap::inverse() const { return {origin_reference, origin_local, 1 / rate}; }

LinearMap LinearMap::after(const LinearMap& first) const {
  return {first.origin_local, (*this)(first.origin_reference), rate * first.rate};
}

std::vector<HostAlignment> align_hosts(uint32_t hosts, std::span<const CrossMessage> messages,
                                       std::span<const int64_t> fallback) {
  std::map<Pair, Relation> relations = relations_of(messages);
  std::vector<HostAlignment> result(hosts);
  std::vector<bool> placed(hosts);
  // Start at host 0 and proceed along the strongest relations: those with most messages in their weaker direction.
  std::vector<std::pair<Pair, const Relation*>> order;
  for (const auto& [pair, relation] : relations) order.emplace_back(pair, &relation);
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) {
    auto weight = [](const Relation& r) { return std::pair(std::min(r.forth, r.back), r.forth + r.back); };
    return weight(*a.second) > weight(*b.second);
  });
  auto place = [&](uint32_t host, uint32_t by, const Relation& relation) {
    Fit fit = best_fit(relation.bounds);
    LinearMap second_to_first = map_of(relation, fit);
    bool is_second = by < host;
    HostAlignment& made = result[host];
    made.map = result[by].map.after(is_second ? second_to_first : second_to_first.inverse());
    made.group = result[by].group;
    made.by = by;
    made.to = is_second ? relation.forth : relation.back;
    made.from = is_second ? relation.back : relation.forth;
    made.margin_ns = rounded_down(fit.margin);
    placed[host] = true;
  };
  for (uint32_t start = 0; start < hosts; ++start) {
    if (placed[start]) continue;
    result[start] = {LinearMap{0, start == 0 ? 0 : fallback[start], 1}, start, start};
    placed[start] = true;
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [pair, relation] : order) {
        auto [first, second] = pair;
        if (placed[first] == placed[second]) continue;
        if (placed[first]) place(second, first, *relation);
        else place(first, second, *relation);
        moved = true;
        break;  // a stronger relation may have come into reach
      }
    }
  }
  return result;
}

}  // namespace friday
