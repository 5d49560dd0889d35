// Payload that the compressed form of a trace does not hold, since a replay of the node that sent it has it again:
// which bytes of the trace these are, and which bytes of which call. docs/trace-format.md documents how the list is
// stored and must change in the same commit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/ids.h"

namespace friday {

// Where payload was sent from: at its entry, the call of event `event` had it in the sender's memory, behind the first
// `from` bytes of what it was to send, or of its message number `message` if it sends several (sendmmsg).
struct SentFromCall {
  Uuid node{};
  uint64_t event = 0;
  uint32_t message = 0;
  uint64_t from = 0;  // in bytes
  bool operator==(const SentFromCall&) const = default;
};

// A range of the trace that the compressed file does not hold; its block has zeros there.
struct LeftOut {
  uint64_t offset = 0, size = 0;  // in the trace, in bytes
  SentFromCall source{};          // of the first byte; the others follow it there
  uint64_t end() const { return offset + size; }
  // It was let go for good: it came from a program that is not recorded, and can only be inferred (core/infer).
  bool is_let_go() const { return source.node == Uuid{}; }
  bool operator==(const LeftOut&) const = default;
};

// The hash of what a block lacks: the XXH3-64 of the bytes of all ranges, one behind the other. `block` is the block
// with all its bytes, which begin at `offset` in the trace.
uint64_t left_out_hash(std::span<const std::byte> block, uint64_t offset, std::span<const LeftOut> ranges);
// Gives the records of a block that have bytes in one of the ranges the checksums of what they hold now.
void seal_records(std::span<std::byte> block, uint64_t offset, std::span<const LeftOut> ranges);

// Puts zeros in the place of the ranges, and returns left_out_hash() of what was there.
uint64_t take_out(std::span<std::byte> block, uint64_t offset, std::span<const LeftOut> ranges);

// The list of one block, which begins at `offset` in the trace, as bytes.
struct CodedLeftOut {
  std::vector<std::byte> bytes;
  uint32_t ranges = 0, senders = 0;
};
inline constexpr uint64_t kMostOfLeftOut = 60, kLeastOfLeftOut = 6;  // bytes of one range in a coded list
CodedLeftOut code_left_out(std::span<const LeftOut> ranges, uint64_t offset);
// The list again, with offsets from the beginning of the block. None if the bytes are no list of so many ranges that
// rise, do not overlap and end within `size` bytes.
std::optional<std::vector<LeftOut>> decode_left_out(std::span<const std::byte> bytes, uint32_t ranges, uint32_t senders,
                                                    uint64_t size);

}  // namespace friday
