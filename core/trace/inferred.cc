#include "core/trace/inferred.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "core/trace/restored.h"

namespace friday {

namespace {

struct InferredHead {
  char magic[8];
  uint64_t fingerprint;                       // fingerprint_of() the list
  uint64_t checksum;                          // XXH3-64 of all that follows the head
  uint64_t bytes, unchecked, touched, spans;  // how many of each follow, in this order; of bytes twice
};
constexpr char kInferredMagic[8] = {'F', 'R', 'I', 'D', 'A', 'Y', 'I', '1'};

struct StoredSpan {
  uint64_t events, address, length, begins;
};

uint64_t left_out_bytes(const PackedList& list) {
  uint64_t bytes = 0;
  for (const LeftOut& range : list.left_out) bytes += range.size;
  return bytes;
}

// Takes `count` objects off the front of what was read. False if there are fewer.
template <typename T, typename Into>
bool take(std::span<const std::byte>& from, uint64_t count, Into&& into) {
  if (count > from.size() / sizeof(T)) return false;
  for (uint64_t i = 0; i < count; i++) {
    T each;
    memcpy(&each, from.data() + i * sizeof(T), sizeof each);
    into(each);
  }
  from = from.subspan(count * sizeof(T));
  return true;
}

void put(std::vector<std::byte>& to, const auto& each) {
  const auto bytes = std::as_bytes(std::span(&each, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

bool rises(const std::vector<uint64_t>& events) {
  return std::ranges::adjacent_find(events, std::greater_equal<>()) == events.end();
}

bool is_sound(const InferredContents& contents) {
  return rises(contents.unchecked) && rises(contents.touched) &&
         std::ranges::is_sorted(contents.spans, {}, &InferredSpan::events) &&
         std::ranges::all_of(contents.sureness, [](Sureness each) { return each <= Sureness::received; }) &&
         std::ranges::all_of(contents.spans, [](const InferredSpan& each) { return each.length <= ~each.address; });
}

std::optional<InferredContents> contents_of(std::span<const std::byte> all, const InferredHead& head) {
  InferredContents contents;
  const bool whole =
      take<std::byte>(all, head.bytes, [&](std::byte each) { contents.bytes.push_back(each); }) &&
      take<Sureness>(all, head.bytes, [&](Sureness each) { contents.sureness.push_back(each); }) &&
      take<uint64_t>(all, head.unchecked, [&](uint64_t each) { contents.unchecked.push_back(each); }) &&
      take<uint64_t>(all, head.touched, [&](uint64_t each) { contents.touched.push_back(each); }) &&
      take<StoredSpan>(all, head.spans,
                       [&](const StoredSpan& each) {
                         contents.spans.push_back({each.events, each.address, each.length, each.begins != 0});
                       }) &&
      all.empty();
  if (!whole || !is_sound(contents)) return std::nullopt;
  return contents;
}

}  // namespace

const char* name_of(Sureness sureness) {
  switch (sureness) {
    case Sureness::free: return "unknown";
    case Sureness::inferred: return "inferred";
    case Sureness::determined: return "determined";
    case Sureness::received: return "received";
  }
  return "?";
}

Beneath inferred_payload(const Beneath& trace, NodeId node) {
  return {trace.root, fmt::format("cache/inferred-{}", node.value)};
}

std::optional<InferredPayload> InferredPayload::open(const Beneath& file, const PackedList& list) {
  const auto fd = open_beneath(file);
  InferredHead head;
  struct stat status;
  if (!fd || ::fstat(fd->get(), &status) != 0 ||
      !read_exactly(fd->get(), std::as_writable_bytes(std::span(&head, 1)), 0) ||
      memcmp(head.magic, kInferredMagic, sizeof head.magic) != 0 || head.fingerprint != fingerprint_of(list) ||
      head.bytes != left_out_bytes(list))
    return std::nullopt;
  std::vector<std::byte> all(static_cast<size_t>(status.st_size) - sizeof head);
  if (!read_exactly(fd->get(), all, sizeof head) || XXH3_64bits(all.data(), all.size()) != head.checksum)
    return std::nullopt;
  auto contents = contents_of(all, head);
  if (!contents) return std::nullopt;
  InferredPayload payload;
  payload.contents_ = *std::move(contents);
  uint64_t at = 0;
  for (const LeftOut& range : list.left_out) {
    payload.places_.push_back(at);
    at += range.size;
  }
  return payload;
}

void InferredPayload::fill(const PackedList& list, const PackedBlock& block, std::span<std::byte> bytes) const {
  const auto ranges = list.left_out_of(block);
  if (ranges.empty()) return;
  for (size_t n = 0; n < ranges.size(); n++)
    std::ranges::copy(std::span(contents_.bytes).subspan(places_[block.left_out.first + n], ranges[n].size),
                      bytes.begin() + static_cast<ptrdiff_t>(ranges[n].offset - block.offset));
  seal_records(bytes, block.offset, ranges);
}

bool InferredPayload::computes(uint64_t events) const { return std::ranges::binary_search(contents_.touched, events); }

void InferredMemory::go_to(uint64_t events) {
  const auto& spans = payload_.contents().spans;
  if (events < events_) ranges_.clear(), next_ = 0;
  for (; next_ < spans.size() && spans[next_].events <= events; next_++)
    if (const uint64_t low = spans[next_].address, high = low + spans[next_].length; spans[next_].begins)
      ranges_.add(low, high);
    else ranges_.remove(low, high);
  events_ = events;
}

bool InferredMemory::depends(uint64_t events, uint64_t address, uint64_t length) {
  go_to(events);
  if (ranges_.overlaps(address, address + length)) return true;
  // What depends on them at the end of this stretch may do so already.
  const auto& spans = payload_.contents().spans;
  for (size_t next = next_; next < spans.size() && spans[next].events == events + 1; next++)
    if (spans[next].begins && spans[next].address < address + length &&
        address < spans[next].address + spans[next].length)
      return true;
  return false;
}

void note_what_hashes_prove(const PackedList& list, InferredContents& contents) {
  uint64_t at = 0;
  for (const PackedBlock& block : list.blocks) {
    uint64_t size = 0;
    for (const LeftOut& range : list.left_out_of(block)) size += range.size;
    const auto sureness = std::span(contents.sureness).subspan(at, size);
    if (size && XXH3_64bits(contents.bytes.data() + at, size) == block.left_out.payload)
      for (Sureness& each : sureness) each = Sureness::received;
    at += size;
  }
}

Result<void> write_inferred(const Beneath& file, const PackedList& list, const InferredContents& contents) {
  std::vector<std::byte> all;
  all.insert(all.end(), contents.bytes.begin(), contents.bytes.end());
  for (Sureness each : contents.sureness) put(all, each);
  for (uint64_t each : contents.unchecked) put(all, each);
  for (uint64_t each : contents.touched) put(all, each);
  for (const InferredSpan& each : contents.spans)
    put(all, StoredSpan{each.events, each.address, each.length, each.begins});
  InferredHead head{{},
                    fingerprint_of(list),
                    XXH3_64bits(all.data(), all.size()),
                    contents.bytes.size(),
                    contents.unchecked.size(),
                    contents.touched.size(),
                    contents.spans.size()};
  std::ranges::copy(kInferredMagic, head.magic);
  FRIDAY_TRY_VOID(make_directory_beneath(file.directory()));
  return replace_beneath(file, [&](int fd) -> Result<void> {
    FRIDAY_TRY_VOID(write_all(fd, std::as_bytes(std::span(&head, 1))));
    return write_all(fd, all);
  });
}

}  // namespace friday
