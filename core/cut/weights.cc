#include "core/cut/weights.h"

#include <algorithm>

namespace friday::cut {
namespace {

// Guesses, in bytes, where neither annotation nor profile says more.
constexpr double kStringGuess = 32;
constexpr double kObjectGuess = 64;   // an object of unknown size
constexpr double kUnknownGuess = 64;  // what an unknown function writes in a call
constexpr double kLengthGuess = 64;   // an access of variable length whose counter is missing
constexpr double kRecordBytes = 2;    // that mark one logged value: a read's or a write's place in the program
constexpr size_t kMostObjectsToMeasure = 64;

}  // namespace

Weights::Weights(const Facts& facts, const PointsTo& points_to, const ProgramCounts* counts)
    : facts_(facts), points_to_(points_to), counts_(counts), original_share_(facts.functions.size(), 1) {
  direct_calls_.resize(facts.functions.size());
  for (const Call& each : facts.calls)
    if (each.callee != kNone && counts != nullptr)
      direct_calls_[each.callee] += static_cast<double>(counts->blocks[each.block]);
  for (const Contexts::Context& each : points_to.contexts().contexts()) {  // parents come first
    const Call& call = facts.calls[each.call];
    const double all = entries(each.function);
    const double here = all > 0 ? std::min(1.0, times(each.parent, call.block) / all) : 0;
    context_share_.push_back(here);
    original_share_[each.function] = std::max(0.0, original_share_[each.function] - here);
  }
}

double Weights::share(Id context, Id function) const {
  return context == kNone ? original_share_[function] : context_share_[context];
}

double Weights::times(Id context, Id block) const {
  const Id function = facts_.blocks[block].function;
  if (counts_ == nullptr || function == kNone) return 0;
  return static_cast<double>(counts_->blocks[block]) * share(context, function);
}

double Weights::entries(Id function) const {
  const Id first = facts_.functions[function].first_block;
  return counts_ == nullptr || first == kNone ? 0 : static_cast<double>(counts_->blocks[first]);
}

double Weights::unexplained_entries(Id function) const {
  return std::max(0.0, entries(function) - direct_calls_[function]);
}

double Weights::length(Id context, Id function, Id length) const {
  return counts_ == nullptr ? 0 : static_cast<double>(counts_->lengths[length]) * share(context, function);
}

double Weights::site_times(uint32_t site) const {
  const auto& [call, context, callee] = points_to_.contexts().sites()[site];
  return times(context, facts_.calls[call].block);
}

double Weights::reached(const PointsTo::Target& target) const {
  if (target.is_callback) return unexplained_entries(target.function);
  return std::min(entries(target.function), site_times(target.site));
}

double Weights::bytes(Id context, const Access& access) const {
  const double runs = times(context, access.block);
  if (access.bytes != 0) return runs * (access.bytes + kRecordBytes);
  return runs * kRecordBytes +
         (access.length == kNone ? runs * kLengthGuess : length(context, access.function, access.length));
}

double Weights::bytes(const PointsTo::Effect& effect) const {
  const double runs = site_times(effect.site);
  if (effect.unknown) return runs * (kUnknownGuess + kRecordBytes);
  switch (effect.bytes.kind) {
    case AnnotatedBytes::Kind::string: return runs * (kStringGuess + kRecordBytes);
    case AnnotatedBytes::Kind::object: return runs * (object_size(effect.pointer) + kRecordBytes);
    case AnnotatedBytes::Kind::product: return runs * kRecordBytes + product(effect.site, effect.bytes);
  }
  return 0;
}

// Of factors that vary, the profile has the sums; their product is taken as if each call had the average.
double Weights::product(uint32_t site, const AnnotatedBytes& bytes) const {
  const auto& [call_id, context, callee] = points_to_.contexts().sites()[site];
  const Call& call = facts_.calls[call_id];
  const double runs = site_times(site);
  if (runs == 0) return 0;
  double each_time = static_cast<double>(bytes.factor);
  for (const uint32_t value : bytes.values) {
    const bool is_result = value == AnnotatedBytes::kResult;
    if (!is_result && value >= call.arguments.size()) continue;
    const Handed& handed = is_result ? call.result : call.arguments[value];
    if (handed.constant != kAnyOffset) each_time *= static_cast<double>(std::max<int64_t>(0, handed.constant));
    else if (handed.length != kNone) each_time *= length(context, call.function, handed.length) / runs;
    else each_time *= kLengthGuess;
  }
  return runs * each_time;
}

// The average of the known sizes.
double Weights::object_size(PointsTo::Node pointer) const {
  const SparseSet& set = points_to_.points(pointer);
  if (set.count() > kMostObjectsToMeasure) return kObjectGuess;
  double sum = 0, known = 0;
  set.for_each([&](uint32_t item) {
    if (const uint64_t size = points_to_.items()[item].size; size != 0) sum += static_cast<double>(size), known++;
  });
  return known == 0 ? kObjectGuess : sum / known;
}

}  // namespace friday::cut
