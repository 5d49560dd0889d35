#include "core/trace/left_out.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/base/leb128.h"
#include "core/trace/record.h"

namespace friday {

uint64_t left_out_hash(std::span<const std::byte> block, uint64_t offset, std::span<const LeftOut> ranges) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  for (const LeftOut& range : ranges)
    XXH3_64bits_update(state.get(), block.data() + (range.offset - offset), range.size);
  return XXH3_64bits_digest(state.get());
}

void seal_records(std::span<std::byte> block, uint64_t offset, std::span<const LeftOut> ranges) {
  for (size_t at = 0; at < block.size() && !ranges.empty();) {
    auto* header = reinterpret_cast<format::RecordHeader*>(block.data() + at);
    const size_t end = at + header->size;
    if (header->size < sizeof *header || end > block.size()) return;  // no record; readers say so
    while (!ranges.empty() && ranges.front().end() <= offset + at) ranges = ranges.subspan(1);
    if (!ranges.empty() && ranges.front().offset < offset + end && header->checksum != 0)
      header->checksum = record_checksum(block.subspan(at, header->size), offset + at);
    at = end;
  }
}

uint64_t take_out(std::span<std::byte> block, uint64_t offset, std::span<const LeftOut> ranges) {
  const uint64_t payload = left_out_hash(block, offset, ranges);
  for (const LeftOut& range : ranges) std::ranges::fill(block.subspan(range.offset - offset, range.size), std::byte{});
  seal_records(block, offset, ranges);
  return payload;
}

namespace {

// Numbers that are alike stand together: first all distances, then all sizes, ...
enum LeftOutColumn { kDistances, kSizes, kSenders, kEvents, kMessages, kFroms, kLeftOutColumns };

// What is remembered of each sender while its numbers are coded.
struct Sender {
  Uuid node{};
  uint64_t event = 0;  // of its range before
};

}  // namespace

CodedLeftOut code_left_out(std::span<const LeftOut> ranges, uint64_t offset) {
  std::vector<std::byte> columns[kLeftOutColumns];
  std::vector<Sender> senders;
  size_t last = 0;
  uint64_t end = offset;
  for (const LeftOut& range : ranges) {
    if (senders.empty() || senders[last].node != range.source.node) {
      last = static_cast<size_t>(std::ranges::find(senders, range.source.node, &Sender::node) - senders.begin());
      if (last == senders.size()) senders.push_back({range.source.node});
    }
    put_leb128(columns[kDistances], range.offset - end);
    put_leb128(columns[kSizes], range.size);
    put_leb128(columns[kSenders], last);
    put_leb128(columns[kEvents], zigzag(range.source.event - senders[last].event));
    put_leb128(columns[kMessages], range.source.message);
    put_leb128(columns[kFroms], range.source.from);
    senders[last].event = range.source.event;
    end = range.end();
  }
  CodedLeftOut coded{{}, static_cast<uint32_t>(ranges.size()), static_cast<uint32_t>(senders.size())};
  for (const Sender& sender : senders) {
    const auto uuid = std::as_bytes(std::span(sender.node));
    coded.bytes.insert(coded.bytes.end(), uuid.begin(), uuid.end());
  }
  for (const auto& column : columns) coded.bytes.insert(coded.bytes.end(), column.begin(), column.end());
  return coded;
}

std::optional<std::vector<LeftOut>> decode_left_out(std::span<const std::byte> bytes, uint32_t ranges, uint32_t senders,
                                                    uint64_t size) {
  if (senders > ranges || bytes.size() / sizeof(Uuid) < senders) return std::nullopt;
  std::vector<Sender> known(senders);
  for (Sender& sender : known) {
    memcpy(sender.node.data(), bytes.data(), sizeof sender.node);
    bytes = bytes.subspan(sizeof sender.node);
  }
  std::vector<uint64_t> columns[kLeftOutColumns];
  for (auto& column : columns) {
    column.reserve(ranges);
    for (uint32_t n = 0; n < ranges; n++) {
      const auto number = take_leb128(bytes);
      if (!number) return std::nullopt;
      column.push_back(*number);
    }
  }
  if (!bytes.empty()) return std::nullopt;
  std::vector<LeftOut> list(ranges);
  uint64_t end = 0;
  for (uint32_t n = 0; n < ranges; n++) {
    const uint64_t distance = columns[kDistances][n], length = columns[kSizes][n], which = columns[kSenders][n];
    if (distance > size - end || length == 0 || length > size - end - distance || which >= senders ||
        columns[kMessages][n] > UINT32_MAX)
      return std::nullopt;
    Sender& sender = known[which];
    sender.event += unzigzag(columns[kEvents][n]);
    list[n] = {end + distance,
               length,
               {sender.node, sender.event, static_cast<uint32_t>(columns[kMessages][n]), columns[kFroms][n]}};
    end = list[n].end();
  }
  return list;
}

}  // namespace friday
