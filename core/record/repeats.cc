#include "core/record/repeats.h"

#include <sys/random.h>
#include <xxhash.h>

#include "core/trace/reader.h"
#include "core/trace/record.h"

namespace friday {

Repeats::Repeats(std::string recording, const Uuid& uuid) : recording_(std::move(recording)), uuid_(uuid) {
  failed_ = ::getrandom(&seed_, sizeof seed_, 0) != sizeof seed_;
}

// The number of the piece with these bytes, if they have come before.
std::optional<uint64_t> Repeats::piece(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed_);
  const auto known = pieces_.find({hash.low64, hash.high64});
  if (known != pieces_.end()) return known->second;
  if (seen_.size() >= kMostSeen) seen_.clear();
  if (seen_.insert(hash.low64).second || pieces_.size() >= kMostPiecesKeptOnce) return std::nullopt;
  if (!kept_) {
    if (auto created = KeptOnceWriter::create(recording_, uuid_); created) kept_.emplace(std::move(*created));
  }
  const auto number = kept_ ? kept_->add(bytes) : fail(ErrorCode::io, "no file");
  failed_ = !number;
  if (failed_) return std::nullopt;
  pieces_[{hash.low64, hash.high64}] = *number;
  return *number;
}

std::vector<LeftOut> Repeats::find(std::span<const std::byte> block, uint64_t offset,
                                   std::span<const LeftOut> left_out) {
  std::vector<LeftOut> list;
  for (size_t at = 0; at < block.size() && !failed_;) {
    const RecordView record(reinterpret_cast<const format::RecordHeader*>(block.data() + at), offset + at);
    at += record.header().size;
    if (record.header().size < kLeast || record_problem(record, true) || !record.is_event()) continue;
    for (PartView part : record.event().parts()) {
      const std::span<const std::byte> bytes = part.bytes();
      if (part.kind() != format::kMemory || bytes.size() < kLeast || bytes.size() > kMostKeptOnce) continue;
      const uint64_t begin = offset + static_cast<uint64_t>(bytes.data() - block.data());
      while (!left_out.empty() && left_out.front().end() <= begin) left_out = left_out.subspan(1);
      if (!left_out.empty() && left_out.front().offset < begin + bytes.size()) continue;
      if (const auto number = piece(bytes)) list.push_back({begin, bytes.size(), {kept_->uuid(), *number, 0, 0}});
    }
  }
  if (!list.empty() && !kept_->store()) {
    failed_ = true;
    list.clear();
  }
  return list;
}

}  // namespace friday
