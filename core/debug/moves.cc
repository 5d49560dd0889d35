#include "core/debug/moves.h"

#include <utility>

namespace friday {
namespace {

constexpr size_t kMostMoves = 30;
constexpr size_t kMostTwins = 500;  // processes of all places; the last move is kept in any case

}  // namespace

// Puts the place where the group stands behind the others. False if it cannot be remembered.
bool Moves::keep(Places& places, uint64_t tag) {
  auto here = backward_.remember();
  // Where no checkpoint can be made, only what was recorded leads to the place.
  if (!here || (alterations_.any() && here->twins() == 0)) return false;
  places.push_back({std::move(*here), alterations_.all(), tag});
  auto twins = [&] {
    size_t all = 0;
    for (const auto& place : places) all += place.where.twins();
    return all;
  };
  while (places.size() > kMostMoves || (places.size() > 1 && twins() > kMostTwins)) places.pop_front();
  return true;
}

void Moves::note(uint64_t tag) {
  redone_.clear();
  noted_ = keep(undone_, tag);
}

void Moves::drop() {
  if (std::exchange(noted_, false)) undone_.pop_back();
}

Result<DebugStop> Moves::go_to(const Place& place) {
  FRIDAY_TRY(stop, backward_.go_back_to(place.where));
  alterations_.restore(place.altered);
  return std::move(stop);
}

Result<std::optional<Moves::Undone>> Moves::go_back(Places& from, Places& other, uint64_t tag) {
  noted_ = false;
  if (from.empty()) return std::optional<Undone>{};
  (void)keep(other, tag);
  const Place place = from.back();  // going there may clear both lists
  FRIDAY_TRY(stop, go_to(place));
  if (!from.empty()) from.pop_back();
  return std::optional(Undone{std::move(stop), place.tag});
}

Result<void> Moves::come_back() {
  if (!std::exchange(noted_, false) || undone_.empty())
    return fail(ErrorCode::unsupported,
                "the group cannot come back to where it stood: no checkpoint could be made there");
  const Place place = undone_.back();
  FRIDAY_TRY_VOID(go_to(place));
  if (!undone_.empty()) undone_.pop_back();
  return {};
}

void Moves::clear() {
  noted_ = false;
  undone_.clear();
  redone_.clear();
}

}  // namespace friday
