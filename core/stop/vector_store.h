// Computes what a vector store (SSE, AVX, AVX-512 without a mask) writes, and where a masked store writes, from the
// thread's XSAVE area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/stop/instruction.h"

namespace friday {

// Vector register `id` (0 to 31) of an XSAVE area in the standard format; the caller needs its first `bytes` bytes (at
// most 64). False if this processor or the area does not have them.
bool vector_register(std::span<const std::byte> state, unsigned id, size_t bytes, std::span<std::byte, 64> out);

// The bytes that `instruction` stores at `address`, as a part of `buffer`. None for unknown forms, and where the
// processor would fault (an aligned store at an unaligned address). `state` has the standard XSAVE format.
std::optional<std::span<const std::byte>> vector_store_data(const Instruction& instruction, uint64_t address,
                                                            std::span<const std::byte> state,
                                                            std::span<std::byte, 64> buffer);

// The ranges [first, second) that a masked store or a scatter writes through its operand `memory`, given the registers
// and state before it. None if it writes the whole operand, or if the form is unknown.
std::optional<std::vector<std::pair<uint64_t, uint64_t>>> masked_store_ranges(const Instruction& instruction,
                                                                              const ZydisDecodedOperand& memory,
                                                                              const user_regs_struct& registers,
                                                                              std::span<const std::byte> state);

}  // namespace friday
