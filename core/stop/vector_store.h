// What a vector store (SSE, AVX, AVX-512 without a mask) puts into memory, and where one under a mask stores, taken
// from the thread's XSAVE area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/stop/instruction.h"

namespace friday {

// The bytes that `instruction` stores at `address`, a part of `buffer`. None for forms not known here, and where the
// processor would fault (an aligned store at an odd address). `state` is in the standard XSAVE format.
std::optional<std::span<const std::byte>> vector_store_data(const Instruction& instruction, uint64_t address,
                                                            std::span<const std::byte> state,
                                                            std::span<std::byte, 64> buffer);

// The ranges [first, second) that a store under a mask writes through `memory`, its operand, with the registers and the
// state it begins with; a scatter is one too. None when it writes all of its operand, or when that is not known.
std::optional<std::vector<std::pair<uint64_t, uint64_t>>> masked_store_ranges(const Instruction& instruction,
                                                                              const ZydisDecodedOperand& memory,
                                                                              const user_regs_struct& registers,
                                                                              std::span<const std::byte> state);

}  // namespace friday
