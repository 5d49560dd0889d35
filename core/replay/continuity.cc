#include "core/replay/continuity.h"

#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/replay/node.h"
#include "core/shim/shim_abi.h"
#include "core/trace/record.h"

namespace friday {
namespace {

constexpr uint64_t kPieceBytes = 256 << 10;  // compared at a time

class Comparison {
 public:
  Comparison(ReplayNode& node, const TraceReader& next, const StartImage& image)
      : node_(node), next_(next), contents_(image.contents), maps_(image.maps) {
    std::ranges::sort(contents_, {}, &StartImage::Contents::address);
    std::ranges::sort(maps_, {}, &format::ImageMapRecord::low);
  }

  // What the image says explicitly. Pages that it does not have are those of a file, or were never touched.
  std::optional<Discontinuity> run() {
    for (const auto& [address, data] : contents_)
      for (uint64_t from = 0; from < data.size(); from += kPieceBytes)
        if (auto found = compare(address + from, data.subspan(from, std::min(kPieceBytes, data.size() - from))))
          return found;
    return std::nullopt;
  }

 private:
  bool is_compared(uint64_t address) const {
    if (address >= shim::kOwnLow && address < shim::kOwnEnd) return false;
    if (node_.is_fridays(Addr{address})) return false;
    const auto next = std::ranges::upper_bound(maps_, address, {}, &format::ImageMapRecord::low);
    return next != maps_.begin() && !(next[-1]->protection & PROT_EXEC) && next[-1]->kind != format::kMapVdso;
  }

  std::optional<Discontinuity> compare(uint64_t address, std::span<const std::byte> wanted) {
    std::vector<std::byte> found(wanted.size());
    const bool there = node_.process().read(address, found.data(), found.size());
    if (there && std::ranges::equal(found, wanted)) return std::nullopt;
    for (uint64_t at = 0; at < wanted.size(); at++) {
      if ((there && found[at] == wanted[at]) || !is_compared(address + at) || was_written(address + at)) continue;
      const uint64_t count = std::min<uint64_t>(wanted.size() - at, 16);
      const auto part = [&](std::span<const std::byte> bytes) {
        return std::vector<std::byte>(bytes.begin() + static_cast<ptrdiff_t>(at),
                                      bytes.begin() + static_cast<ptrdiff_t>(at + count));
      };
      return Discontinuity{address + at, part(wanted), there ? part(found) : std::vector<std::byte>()};
    }
    return std::nullopt;
  }

  // Whether a call that was under way when the image was taken has written the byte: the kernel had done that already,
  // or not yet.
  bool was_written(uint64_t address) {
    if (!written_) find_written();
    const auto behind = written_->upper_bound(address);
    return behind != written_->begin() && address < std::prev(behind)->second;
  }

  // The next part begins with the releases of these calls.
  void find_written() {
    written_.emplace();
    std::set<uint32_t> under_way;
    bool beginning = true;
    for (RecordCursor cursor = next_.records(); cursor.next() && (beginning || !under_way.empty());) {
      if (!cursor.record().is_event()) continue;
      const EventView event = cursor.record().event();
      beginning &= event.type() == format::kRelease;
      if (beginning) under_way.insert(event.thread());
      if (event.type() != format::kReturn || !under_way.erase(event.thread())) continue;
      for (PartView part : event.parts())
        if (part.kind() == format::kMemory) {
          uint64_t& end = (*written_)[part.address()];
          end = std::max(end, part.address() + part.bytes().size());
        }
    }
  }

  ReplayNode& node_;
  const TraceReader& next_;
  std::vector<StartImage::Contents> contents_;
  std::vector<const format::ImageMapRecord*> maps_;
  std::optional<std::map<uint64_t, uint64_t>> written_;  // address to end
};

}  // namespace

Result<std::optional<Discontinuity>> find_discontinuity(ReplayNode& node, const TraceReader& next) {
  FRIDAY_TRY(image, next.image());
  return Comparison(node, next, image).run();
}

}  // namespace friday
