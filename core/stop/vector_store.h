// What a vector store (SSE, AVX, AVX-512 without a mask) puts into memory, taken from the thread's XSAVE area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/stop/instruction.h"

namespace friday {

// The bytes that `instruction` stores at `address`, a part of `buffer`. None for forms not known here, and where the
// processor would fault (an aligned store at an odd address). `state` is in the standard XSAVE format.
std::optional<std::span<const std::byte>> vector_store_data(const Instruction& instruction, uint64_t address,
                                                            std::span<const std::byte> state,
                                                            std::span<std::byte, 64> buffer);

}  // namespace friday
