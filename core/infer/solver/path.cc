#include "core/infer/solver/path.h"

#include <algorithm>
#include <cstddef>

#include "core/infer/solver/by_hand.h"
#include "core/infer/solver/library.h"

namespace friday::infer {
namespace {

constexpr uint64_t kBlocksBetweenLooks = 4096;  // at the clock

constexpr uint64_t kCarryParityAdjustZeroSignOverflow = 0x8d5;
constexpr uint64_t kDirectionFlag = 1 << 10, kAlignmentFlag = 1 << 18, kIdentificationFlag = 1 << 21;

// Whether control goes on behind this kind of exit. The others are traps and what VEX cannot translate.
bool goes_on(IRJumpKind kind) {
  switch (kind) {
    case Ijk_Boring:
    case Ijk_Call:
    case Ijk_Ret:
    case Ijk_Yield:
    case Ijk_EmWarn:
    case Ijk_InvalICache: return true;
    default: return false;
  }
}

}  // namespace

int offset_of_general(unsigned number) { return static_cast<int>(offsetof(GuestState, guest_RAX) + 8 * number); }
int offset_of_vector(unsigned number) {
  return static_cast<int>(offsetof(GuestState, guest_YMM0) + sizeof(U256) * number);
}

void set_registers(const Registers& registers, GuestState* state) {
  LibVEX_GuestAMD64_initialise(state);
  auto* bytes = reinterpret_cast<uint8_t*>(state);
  for (unsigned i = 0; i < 16; ++i) {
    std::memcpy(bytes + offset_of_general(i), &registers.general[i], 8);
    std::memcpy(bytes + offset_of_vector(i), registers.vector[i], 32);
  }
  state->guest_RIP = registers.rip;
  state->guest_CC_OP = 0;  // CC_DEP1 has the flags
  state->guest_CC_DEP1 = registers.flags & kCarryParityAdjustZeroSignOverflow;
  state->guest_DFLAG = (registers.flags & kDirectionFlag) != 0 ? ~0ull : 1;
  state->guest_ACFLAG = (registers.flags & kAlignmentFlag) != 0;
  state->guest_IDFLAG = (registers.flags & kIdentificationFlag) != 0;
  state->guest_FS_CONST = registers.fs_base;
  state->guest_GS_CONST = registers.gs_base;
  state->guest_SSEROUND = registers.mxcsr >> 13 & 3;
}

Registers registers_of(const GuestState& state) {
  Registers registers{};
  const auto* bytes = reinterpret_cast<const uint8_t*>(&state);
  for (unsigned i = 0; i < 16; ++i) {
    std::memcpy(&registers.general[i], bytes + offset_of_general(i), 8);
    std::memcpy(registers.vector[i], bytes + offset_of_vector(i), 32);
  }
  registers.rip = state.guest_RIP;
  registers.flags = LibVEX_GuestAMD64_get_rflags(&state) | 2 | 1 << 9;  // what is always 1, and interrupts
  registers.fs_base = state.guest_FS_CONST;
  registers.gs_base = state.guest_GS_CONST;
  registers.mxcsr = 0x1f80 | static_cast<uint32_t>(state.guest_SSEROUND & 3) << 13;
  return registers;
}

bool Runner::fail(PathEnd* end, Why why, uint64_t address, std::string text) {
  end->failed = true;
  end->why = why;
  end->address = address;
  end->text = std::move(text);
  return false;
}

PathEnd Runner::run(const StartState& start, uint64_t most, Deadline deadline) {
  PathEnd end;
  Memory& memory = machine_.memory;
  memory.start_path();
  symbolic_.start(start.shadows);
  machine_.state = start.state;
  auto* bytes = reinterpret_cast<uint8_t*>(&machine_.state);
  for (size_t i = 0; i < start.shadows.size(); ++i) {
    const Shadow shadow = start.shadows[i];
    if (shadow != 0) bytes[i] = static_cast<uint8_t>(symbolic_.value(expression_of(shadow)) >> (8 * byte_of(shadow)));
  }
  Translated* block = blocks_.at(machine_.state.guest_RIP);
  for (uint64_t count = 1;; ++count) {
    if (block->special != Special::none) [[unlikely]] {
      ++end.instructions;
      if (!special(*block, &end)) return end;
    } else {
      end.instructions += block->instructions.size();
      Left left;
      if (symbolic_.concerns(*block)) {
        left = symbolic_.run(*block, block->steps.data());
      } else {
        left = machine_.run(block->steps.data());
        if (left == Left::shadows) [[unlikely]]
          left = symbolic_.run(*block, machine_.at);
      }
      if (left != Left::block) {
        const uint64_t address = block->instructions[machine_.at->instruction];
        if (left == Left::division) fail(&end, Why::address, address, "a division by zero");
        else fail(&end, Why::address, address);
        return end;
      }
      if (!goes_on(machine_.kind)) {
        fail(&end, Why::instruction, machine_.state.guest_RIP, "a trap, or an instruction that VEX does not translate");
        return end;
      }
    }
    if (end.instructions > most) {
      fail(&end, Why::too_long, machine_.state.guest_RIP);
      return end;
    }
    if (count % kBlocksBetweenLooks == 0 && std::chrono::steady_clock::now() > deadline) {
      fail(&end, Why::time, machine_.state.guest_RIP);
      return end;
    }
    block = blocks_.after(block, machine_.state.guest_RIP);
  }
}

bool Runner::special(const Translated& block, PathEnd* end) {
  end->address = block.address;
  switch (block.special) {
    case Special::system_call: end->end = End::system_call; return false;
    case Special::recorded: end->end = End::instruction; return false;
    case Special::by_hand: {
      ByHand hand(symbolic_);
      switch (hand.execute(block)) {
        case ByHand::Done::yes: return true;
        case ByHand::Done::no_memory: return fail(end, Why::address, block.address, block.name);
        case ByHand::Done::unknown: return fail(end, Why::instruction, block.address, block.name);
      }
      return true;
    }
    case Special::summary: {
      const LibraryResult result = call_library_function(symbolic_, block.function);
      if (result == LibraryResult::done) return true;
      if (result == LibraryResult::no_memory)
        return fail(end, Why::address, block.address, "in a function of the C library");
      return fail(end, Why::too_long, block.address, "a function of the C library handles more memory than the limit");
    }
    case Special::no_memory: return fail(end, Why::address, block.address, "there is no code");
    default: return fail(end, Why::instruction, block.address, block.name);
  }
}

}  // namespace friday::infer
