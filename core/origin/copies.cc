#include <algorithm>
#include <vector>

#include "core/origin/flow.h"

namespace friday {
namespace {

// Bytes of the copy, `target`, that were in `held` before the instruction with the index `executed`.
struct Tracked {
  Bytes target, held;
  size_t executed = 0;
};

// Bytes of the copy whose source is known: `shift` bytes behind them, modulo 2^64.
struct Known {
  Bytes target;
  uint64_t shift = 0;
};

Bytes part_of(const Bytes& bytes, uint64_t offset, uint64_t size) { return {bytes.in, bytes.low + offset, size}; }

// Where the instructions have taken the wanted bytes from, as far as these only copy them. In the order of addresses.
std::vector<Known> sources_of(std::span<const Executed> executed, const user_regs_struct& after, const Bytes& wanted) {
  std::vector<Known> known;
  std::vector<Tracked> open{{wanted, wanted, executed.size()}};
  while (!open.empty()) {
    const Tracked tracked = open.back();
    open.pop_back();
    if (tracked.executed == 0 || !executed[tracked.executed - 1].instruction) continue;
    const size_t i = tracked.executed - 1;
    const auto pieces = pieces_of(*executed[i].instruction, executed[i].before,
                                  i + 1 < executed.size() ? executed[i + 1].before : after, tracked.held);
    const auto keep = [&](uint64_t from, uint64_t to) {  // what the instruction has not written
      const uint64_t offset = from - tracked.held.low;
      if (from < to)
        open.push_back({part_of(tracked.target, offset, to - from), part_of(tracked.held, offset, to - from), i});
    };
    uint64_t next = tracked.held.low;
    for (const Piece& piece : pieces) {
      keep(next, piece.part.low);
      next = piece.part.high();
      if (piece.how != Piece::How::copied || piece.swapped) continue;
      const Bytes target = part_of(tracked.target, piece.part.low - tracked.held.low, piece.part.size);
      if (piece.from.in == Bytes::In::memory) known.push_back({target, piece.from.low - target.low});
      else open.push_back({target, piece.from, i});
    }
    keep(next, tracked.held.high());
  }
  std::ranges::sort(known, {}, [](const Known& each) { return each.target.low; });
  return known;
}

}  // namespace

std::optional<CopiedPart> last_copy(std::span<const Executed> executed, const user_regs_struct& after,
                                    const Bytes& wanted) {
  if (executed.empty() || !executed.back().instruction) return std::nullopt;
  const auto stored = pieces_of(*executed.back().instruction, executed.back().before, after, wanted);
  if (stored.empty()) return std::nullopt;
  const auto known = sources_of(executed, after, wanted);
  const auto last =
      std::ranges::find_if(known, [&](const Known& each) { return each.target.overlaps(stored[0].part); });
  if (last == known.end()) return std::nullopt;
  auto first = last, end = last + 1;
  while (first != known.begin() && first[-1].shift == last->shift && first[-1].target.high() == first->target.low)
    first--;
  while (end != known.end() && end->shift == last->shift && end->target.low == end[-1].target.high()) end++;
  const Bytes part{wanted.in, first->target.low, end[-1].target.high() - first->target.low};
  const Bytes source{wanted.in, part.low + last->shift, part.size};
  if (source.overlaps(part)) return std::nullopt;
  return CopiedPart{part, source};
}

}  // namespace friday
